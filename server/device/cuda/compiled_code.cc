#include "server/device/cuda/compiled_code.h"

namespace warpline::device {

std::shared_ptr<const std::string> CompiledCode::Find(const ContentHash& hash) {
  MutexLock lock(&mu_);
  const auto found = entries_.find(hash);
  if (found == entries_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, found->second);
  return found->second->second;
}

std::shared_ptr<const std::string> CompiledCode::Keep(const ContentHash& hash, std::string code) {
  auto kept = std::make_shared<const std::string>(std::move(code));
  if (kept->size() > most_bytes_) return kept;
  MutexLock lock(&mu_);
  // Another thread may have compiled it meanwhile.
  if (const auto found = entries_.find(hash); found != entries_.end()) return found->second->second;
  while (bytes_ > most_bytes_ - kept->size()) {
    bytes_ -= by_use_.back().second->size();
    entries_.erase(by_use_.back().first);
    by_use_.pop_back();
  }
  by_use_.emplace_front(hash, kept);
  entries_.emplace(hash, by_use_.begin());
  bytes_ += kept->size();
  return kept;
}

}  // namespace warpline::device
