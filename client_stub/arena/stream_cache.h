// Memory that was freed in the order of one stream, and that the same stream may use again at once.
#ifndef WARPLINE_CLIENT_STUB_ARENA_STREAM_CACHE_H_
#define WARPLINE_CLIENT_STUB_ARENA_STREAM_CACHE_H_

#include <array>
#include <cstdint>

#include "client_stub/arena/block.h"

namespace warpline::stub {

// Thread-compatible. Blocks are kStreamFree while they are here.
class StreamCache {
 public:
  // `seq` is the session's latest command at the free.
  void Put(Block* block, uint64_t seq);

  // Returns a block of at least `bytes` and not much more, now live; null when there is none.
  Block* Take(uint64_t bytes);

  // Returns the block that was freed first; null when the cache is empty.
  Block* oldest() const { return by_age_.front(); }
  void Remove(Block* block);

 private:
  BlockList by_age_;
  std::array<BinList, kSizeClasses> bins_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_ARENA_STREAM_CACHE_H_
