#include "common/serving/stranger_book.h"

#include <algorithm>

namespace warpline {

StrangerBook::StrangerBook(size_t most_of_peer)
    : most_of_peer_(std::max<size_t>(most_of_peer, 1)) {}

std::optional<StrangerBook::Id> StrangerBook::Add(Id id, const std::string& peer) {
  const auto found = peers_.try_emplace(peer).first;
  found->second.push_back(id);
  places_[id] = {found, std::prev(found->second.end())};
  if (found->second.size() <= most_of_peer_) return std::nullopt;
  return TakeOldestOf(found);
}

std::optional<StrangerBook::Id> StrangerBook::TakeOldest() {
  const auto most = std::max_element(
      peers_.begin(), peers_.end(),
      [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); });
  if (most == peers_.end()) return std::nullopt;
  return TakeOldestOf(most);
}

StrangerBook::Id StrangerBook::TakeOldestOf(Peers::iterator peer) {
  const Id oldest = peer->second.front();
  Remove(oldest);
  return oldest;
}

void StrangerBook::Touch(Id id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return;
  std::list<Id>& all = found->second.peer->second;
  all.splice(all.end(), all, found->second.at);
}

bool StrangerBook::Remove(Id id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return false;
  const Peers::iterator peer = found->second.peer;
  peer->second.erase(found->second.at);
  if (peer->second.empty()) peers_.erase(peer);
  places_.erase(found);
  return true;
}

}  // namespace warpline
