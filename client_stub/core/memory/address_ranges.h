// A set of free ranges of addresses.
#ifndef WARPLINE_CLIENT_STUB_CORE_MEMORY_ADDRESS_RANGES_H_
#define WARPLINE_CLIENT_STUB_CORE_MEMORY_ADDRESS_RANGES_H_

#include <cstdint>
#include <iterator>
#include <map>

namespace warpline::stub {

// Thread-compatible.
class AddressRanges {
 public:
  // Adds [begin, begin + bytes) to the free addresses; neighbouring ranges become one.
  void Add(uint64_t begin, uint64_t bytes) {
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && begin + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == begin) {
        before->second += bytes;
        return;
      }
    }
    free_[begin] = bytes;
  }

  // Takes `bytes` from the first range that is long enough; returns false when none is.
  bool Take(uint64_t bytes, uint64_t* begin) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < bytes) continue;
      *begin = it->first;
      const uint64_t left = it->second - bytes;
      free_.erase(it);
      if (left != 0) free_[*begin + bytes] = left;
      return true;
    }
    return false;
  }

  // Takes exactly [begin, begin + bytes); returns false when not all of it is free.
  bool TakeAt(uint64_t begin, uint64_t bytes) {
    auto it = free_.upper_bound(begin);
    if (it == free_.begin()) return false;
    --it;
    const uint64_t end = it->first + it->second;
    if (begin + bytes > end) return false;
    const uint64_t first = it->first;
    free_.erase(it);
    if (begin != first) free_[first] = begin - first;
    if (begin + bytes != end) free_[begin + bytes] = end - begin - bytes;
    return true;
  }

 private:
  std::map<uint64_t, uint64_t> free_;  // Address to bytes.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_ADDRESS_RANGES_H_
