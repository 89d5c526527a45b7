#include "transport/grpc/unary/read_turns.h"

#include <algorithm>

namespace warpline::grpc_internal {

void ReadTurns::Add(Id id, const std::string& peer) {
  waiting_[peer].push_back(id);
  ++waiting_count_;
}

void ReadTurns::Remove(Id id) {
  if (reading_.erase(id) != 0) return;
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    std::deque<Id>& ids = it->second;
    const auto found = std::find(ids.begin(), ids.end(), id);
    if (found == ids.end()) continue;
    ids.erase(found);
    --waiting_count_;
    if (ids.empty()) waiting_.erase(it);
    return;
  }
}

std::map<std::string, std::deque<ReadTurns::Id>>::iterator ReadTurns::NextPeer() {
  if (reading_.size() >= kMostReading + kMostFirst) return waiting_.end();
  auto turn = waiting_.upper_bound(last_);
  for (size_t i = 0; i < waiting_.size(); ++i, ++turn) {
    if (turn == waiting_.end()) turn = waiting_.begin();
    if (reading_.size() < kMostReading || ReadingOf(turn->first) == 0) return turn;
  }
  return waiting_.end();
}

std::optional<ReadTurns::Id> ReadTurns::TakeNext(absl::Time now) {
  const auto turn = NextPeer();
  if (turn == waiting_.end()) return std::nullopt;
  last_ = turn->first;
  const Id id = turn->second.back();
  turn->second.pop_back();
  --waiting_count_;
  if (turn->second.empty()) waiting_.erase(turn);
  reading_[id] = {now, last_};
  return id;
}

std::optional<ReadTurns::Id> ReadTurns::TakeExcess() {
  if (waiting_count_ <= kMostWaiting) return std::nullopt;
  const auto most = std::max_element(
      waiting_.begin(), waiting_.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const Id id = most->second.front();
  most->second.pop_front();
  --waiting_count_;
  if (most->second.empty()) waiting_.erase(most);
  return id;
}

std::vector<ReadTurns::Id> ReadTurns::TakeWaiting() {
  std::vector<Id> all;
  for (const auto& [peer, ids] : waiting_) all.insert(all.end(), ids.begin(), ids.end());
  waiting_.clear();
  waiting_count_ = 0;
  return all;
}

size_t ReadTurns::ReadingOf(const std::string& peer) const {
  return static_cast<size_t>(
      std::count_if(reading_.begin(), reading_.end(),
                    [&](const auto& reading) { return reading.second.peer == peer; }));
}

std::vector<ReadTurns::Id> ReadTurns::TakeOverdue(absl::Time now) {
  std::vector<Id> overdue;
  if (waiting_.empty()) return overdue;
  for (const auto& [id, reading] : reading_) {
    if (now - reading.since > kPatience) overdue.push_back(id);
  }
  if (overdue.empty()) return overdue;
  size_t least = kMostReading + kMostFirst;
  for (const auto& [peer, ids] : waiting_) least = std::min(least, ReadingOf(peer));
  std::erase_if(overdue, [&](Id id) { return ReadingOf(reading_[id].peer) < least; });
  for (const Id id : overdue) reading_.erase(id);
  return overdue;
}

}  // namespace warpline::grpc_internal
