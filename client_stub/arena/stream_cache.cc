#include "client_stub/arena/stream_cache.h"

#include <algorithm>

namespace warpline::stub {
namespace {

// A block is not cut, so that it serves the same request again; this wastes less than a quarter of
// it.
constexpr int kClassesUp = 4;
constexpr int kNearMisses = 4;

}  // namespace

void StreamCache::Put(Block* block, uint64_t seq) {
  block->state = BlockState::kStreamFree;
  block->seq = seq;
  by_age_.PushBack(block);
  bins_[SizeClass(block->bytes)].PushFront(block);
}

Block* StreamCache::Take(uint64_t bytes) {
  const int first = SizeClass(bytes);
  // Below 16 units a class is one size, and the next ones are relatively much larger.
  const int last = std::min(kSizeClasses - 1, first < 16 ? first : first + kClassesUp - 1);
  for (int i = first; i <= last; ++i) {
    Block* block = bins_[i].front();
    for (int tries = 0; tries < kNearMisses && block != nullptr; ++tries, block = block->bin_next) {
      if (block->bytes < bytes) continue;
      Remove(block);
      block->state = BlockState::kLive;
      return block;
    }
  }
  return nullptr;
}

void StreamCache::Remove(Block* block) {
  by_age_.Remove(block);
  bins_[SizeClass(block->bytes)].Remove(block);
}

}  // namespace warpline::stub
