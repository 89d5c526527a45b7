// What a compiler has made, by what it was made of.
#ifndef WARPLINE_SERVER_COMPILER_RESULT_CACHE_H_
#define WARPLINE_SERVER_COMPILER_RESULT_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>

#include "common/crypto/content_hash.h"
#include "common/unique_fd.h"

namespace warpline::compiler {

// Frozen files.
struct Result {
  UniqueFd code;
  UniqueFd layout;
  uint64_t bytes = 0;  // Of both.
};

// One tenant's: who shares a cache can tell by the time what others have loaded. What was not used
// for the longest time goes first. Thread-compatible.
class ResultCache {
 public:
  // Each entry takes two descriptors of the process.
  ResultCache(uint64_t most_bytes, size_t most_entries)
      : most_bytes_(most_bytes), most_entries_(most_entries) {}

  // Null when it is not there. Belongs to the cache until the next Add().
  const Result* Find(const ContentHash& key);
  // Drops what there is no room for any more. A result that is larger than a quarter of the cache
  // is not kept.
  void Add(const ContentHash& key, Result result);

  uint64_t bytes() const { return bytes_; }
  size_t entries() const { return by_key_.size(); }

 private:
  struct Entry {
    ContentHash key;
    Result result;
  };

  const uint64_t most_bytes_;
  const size_t most_entries_;
  uint64_t bytes_ = 0;
  std::list<Entry> by_use_;  // The most recently used first.
  std::map<ContentHash, std::list<Entry>::iterator> by_key_;
};

}  // namespace warpline::compiler

#endif  // WARPLINE_SERVER_COMPILER_RESULT_CACHE_H_
