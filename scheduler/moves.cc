#include "scheduler/moves.h"

#include <algorithm>
#include <utility>

namespace warpline::scheduler {

const LeaseMove* MoveTable::Find(const std::string& lease) const {
  const auto found = moves_.find(lease);
  return found == moves_.end() ? nullptr : &found->second;
}

const LeaseMove* MoveTable::UnderWay(const std::string& lease) const {
  const LeaseMove* const move = Find(lease);
  return move != nullptr && move->state == LeaseMove::State::kMoving ? move : nullptr;
}

const std::set<std::string>& MoveTable::From(const std::string& server) const {
  static const auto* const none = new std::set<std::string>();
  const auto found = under_way_.find(server);
  return found == under_way_.end() ? *none : found->second;
}

std::vector<std::string> MoveTable::Late(absl::Time now) const {
  std::vector<std::string> late;
  for (const auto& [server, leases] : under_way_) {
    for (const std::string& lease : leases) {
      if (now >= moves_.at(lease).deadline) late.push_back(lease);
    }
  }
  return late;
}

void MoveTable::Begin(LeaseMove move) {
  under_way_[move.from].insert(move.lease);
  const std::string lease = move.lease;
  moves_[lease] = std::move(move);
  if (moves_.size() <= kMostMoves) return;
  const auto first =
      std::min_element(moves_.begin(), moves_.end(),
                       [](const auto& a, const auto& b) { return a.second.over < b.second.over; });
  if (first->second.state != LeaseMove::State::kMoving) moves_.erase(first);
}

LeaseMove* MoveTable::Finish(const std::string& lease, absl::Time now) {
  const auto found = moves_.find(lease);
  if (found == moves_.end() || found->second.state != LeaseMove::State::kMoving) return nullptr;
  LeaseMove& move = found->second;
  move.over = now;
  move.ticket.clear();
  const auto from = under_way_.find(move.from);
  from->second.erase(lease);
  if (from->second.empty()) under_way_.erase(from);
  return &move;
}

void MoveTable::Moved(const std::string& lease, uint32_t sessions, uint64_t bytes, absl::Time now) {
  LeaseMove* const move = Finish(lease, now);
  if (move == nullptr) return;
  move->state = LeaseMove::State::kMoved;
  move->sessions = sessions;
  move->bytes = bytes;
}

void MoveTable::Failed(const std::string& lease, const std::string& why, absl::Time now) {
  LeaseMove* const move = Finish(lease, now);
  if (move == nullptr) return;
  move->state = LeaseMove::State::kFailed;
  move->why = why;
}

void MoveTable::Forget(absl::Time now) {
  std::erase_if(moves_, [now](const auto& entry) {
    return entry.second.over != absl::InfiniteFuture() && now - entry.second.over >= kMoveMemory;
  });
}

}  // namespace warpline::scheduler
