// The free blocks, by size class.
#ifndef WARPLINE_CLIENT_STUB_ARENA_FREE_BINS_H_
#define WARPLINE_CLIENT_STUB_ARENA_FREE_BINS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "client_stub/arena/block.h"

namespace warpline::stub {

// Thread-compatible.
class FreeBins {
 public:
  void Insert(Block* block);
  void Remove(Block* block);

  // Removes and returns a block of at least `bytes`, nearly the smallest one; null when there is
  // none at all.
  Block* TakeFit(uint64_t bytes);

  // Returns all blocks of the size class of `bytes` and above, and thus all of at least `bytes`.
  std::vector<Block*> AtLeast(uint64_t bytes) const;

  uint64_t total_bytes() const { return total_bytes_; }

 private:
  Block* FindFit(uint64_t bytes) const;
  int NextClass(int from) const;

  std::array<BlockList, kSizeClasses> bins_;
  std::array<uint64_t, kSizeClasses / 64> occupied_{};
  uint64_t total_bytes_ = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_ARENA_FREE_BINS_H_
