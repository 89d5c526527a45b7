#include "client_stub/session/memory/shared_events.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace warpline::stub {

std::string SharedEvents::TokenOf(uint64_t event) const {
  MutexLock lock(&mu_);
  const auto found = tokens_.find(event);
  return found == tokens_.end() ? "" : found->second;
}

std::string SharedEvents::SetToken(uint64_t event, const std::string& token) {
  MutexLock lock(&mu_);
  const auto [at, added] = tokens_.emplace(event, token);
  if (!added) withdrawn_.push_back(token);
  return at->second;
}

void SharedEvents::End(uint64_t event) {
  MutexLock lock(&mu_);
  const auto found = tokens_.find(event);
  if (found == tokens_.end()) return;
  withdrawn_.push_back(std::move(found->second));
  tokens_.erase(found);
}

std::vector<std::string> SharedEvents::TakeWithdrawn(size_t most) {
  MutexLock lock(&mu_);
  const size_t count = std::min(most, withdrawn_.size());
  const auto first = withdrawn_.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<std::string> taken(std::make_move_iterator(first),
                                 std::make_move_iterator(withdrawn_.end()));
  withdrawn_.erase(first, withdrawn_.end());
  return taken;
}

}  // namespace warpline::stub
