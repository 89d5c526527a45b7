#include "transport/grpc/unary/read_turns.h"

#include <algorithm>

namespace warpline::grpc_internal {

void ReadTurns::Add(Id id, const std::string& peer) { waiting_[peer].push_back(id); }

void ReadTurns::Remove(Id id) {
  if (reading_.erase(id) != 0) return;
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    std::deque<Id>& ids = it->second;
    const auto found = std::find(ids.begin(), ids.end(), id);
    if (found == ids.end()) continue;
    ids.erase(found);
    if (ids.empty()) waiting_.erase(it);
    return;
  }
}

std::optional<ReadTurns::Id> ReadTurns::TakeNext(absl::Time now) {
  if (waiting_.empty() || reading_.size() >= kMostReading) return std::nullopt;
  auto turn = waiting_.upper_bound(last_);
  if (turn == waiting_.end()) turn = waiting_.begin();
  last_ = turn->first;
  const Id id = turn->second.back();
  turn->second.pop_back();
  if (turn->second.empty()) waiting_.erase(turn);
  reading_[id] = now;
  return id;
}

std::vector<ReadTurns::Id> ReadTurns::TakeWaiting() {
  std::vector<Id> all;
  for (const auto& [peer, ids] : waiting_) all.insert(all.end(), ids.begin(), ids.end());
  waiting_.clear();
  return all;
}

std::vector<ReadTurns::Id> ReadTurns::TakeOverdue(absl::Time now) {
  std::vector<Id> overdue;
  if (waiting_.empty()) return overdue;
  for (const auto& [id, since] : reading_) {
    if (now - since > kPatience) overdue.push_back(id);
  }
  for (const Id id : overdue) reading_.erase(id);
  return overdue;
}

}  // namespace warpline::grpc_internal
