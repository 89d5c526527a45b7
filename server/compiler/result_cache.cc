#include "server/compiler/result_cache.h"

#include <utility>

namespace warpline::compiler {

const Result* ResultCache::Find(const ContentHash& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, found->second);
  return &found->second->result;
}

void ResultCache::Add(const ContentHash& key, Result result) {
  if (most_entries_ == 0 || result.bytes > most_bytes_ / 4 || by_key_.contains(key)) return;
  while (!by_use_.empty() &&
         (bytes_ + result.bytes > most_bytes_ || by_use_.size() >= most_entries_)) {
    bytes_ -= by_use_.back().result.bytes;
    by_key_.erase(by_use_.back().key);
    by_use_.pop_back();
  }
  bytes_ += result.bytes;
  by_use_.push_front({key, std::move(result)});
  by_key_[key] = by_use_.begin();
}

}  // namespace warpline::compiler
