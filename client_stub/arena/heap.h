// The arena's address space: which parts are backed, which are free, which are in use.
//
// A grant goes back to the server as a whole, so one small allocation keeps all of its grant. Large
// allocations therefore have grants of their own, and the small ones are cut from others: what is
// free is then free to be exchanged for contiguous memory, but for what small allocations hold.
//
// This is a data structure without policy or waiting: the allocator decides when memory is
// requested, returned, or may be used again.
#ifndef WARPLINE_CLIENT_STUB_ARENA_HEAP_H_
#define WARPLINE_CLIENT_STUB_ARENA_HEAP_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "client_stub/arena/block.h"
#include "client_stub/arena/free_bins.h"
#include "client_stub/session/session.h"

namespace warpline::stub {

// Thread-compatible. Addresses and sizes are multiples of kAllocationUnit; those of grants are
// multiples of kChunkGranularity.
class Heap {
 public:
  // Manages [base, base + bytes), of which no part is backed yet.
  Heap(uint64_t base, uint64_t bytes);

  // Returns a free block of exactly `bytes`, now live; null when no free block is as large. Grants
  // that are blocks of their own are not cut.
  Block* Take(uint64_t bytes);
  // Returns a free block that is a grant of exactly `bytes`, now live; null when there is none.
  Block* TakeOwn(uint64_t bytes);
  // Makes a live, retiring or stream-free block free. Its neighbours may be merged into it:
  // pointers to other free blocks become invalid.
  void Put(Block* block);

  // Returns the block that holds `address` and is not free; null when there is none.
  Block* Find(uint64_t address) const;

  // A request for memory under way. Without `before`, and of exactly min_bytes, it may become a
  // block of its own.
  struct Growth {
    Block* space = nullptr;   // Null when growing is impossible.
    Block* before = nullptr;  // The free block that it extends, if any.
    uint64_t min_bytes = 0;
    uint64_t want_bytes = 0;
    bool own = false;
  };
  // Sets address space aside for a grant of exactly `bytes` that becomes a block of its own.
  Growth PlanOwn(uint64_t bytes, uint64_t limit);
  // Sets address space aside so that `bytes` fit once `min_bytes` of it are backed. At most
  // `limit` bytes are asked for, if possible `step`.
  Growth PlanGrowth(uint64_t bytes, uint64_t step, uint64_t limit);
  // Called when the first `granted` bytes are backed; takes `bytes` out of them as Take() does.
  Block* CommitGrowth(const Growth& growth, uint64_t granted, uint64_t bytes);
  void CancelGrowth(const Growth& growth);

  // Sets unbacked addresses aside, at a multiple of `alignment`, which is a power of two: from
  // `wanted` on if they are unbacked there, else as high up as possible. Returns null when there is
  // no room.
  Block* Reserve(uint64_t bytes, uint64_t alignment, uint64_t wanted);
  // Makes reserved addresses unbacked again.
  void Unreserve(Block* block);

  // Adds memory that was backed without being asked for, at the start of unbacked space.
  void AddGrant(const Grant& grant);

  // Returns the bytes of those grants of at least `least_bytes` that are free as a whole.
  uint64_t ReturnableBytes(uint64_t least_bytes) const;
  // Takes such grants out, as long as at least `keep_bytes` stay free.
  std::vector<Grant> TakeReturnable(uint64_t least_bytes, uint64_t keep_bytes);

  // Takes the grants of at least `least_bytes` out of the heap that no allocation has a part of,
  // but for those that are blocks of their own.
  std::vector<Grant> TakeUnusedShared(uint64_t least_bytes);

  uint64_t granted_bytes() const { return granted_bytes_; }
  uint64_t free_bytes() const { return bins_.total_bytes() + own_bytes_; }
  // Returns the bytes that are granted and not in blocks of their own.
  uint64_t shared_bytes() const { return granted_bytes_ - own_granted_bytes_; }

 private:
  Block* CutFront(Block* block, uint64_t bytes);
  void AbsorbNext(Block* block);
  Block* AbsorbFreeNeighbours(Block* block);
  void MakeFree(Block* block);
  void MakeUnbacked(Block* block);
  Block* MakeLive(Block* block, uint64_t bytes);
  std::vector<Grant> GrantsWithin(const Block& block, uint64_t least_bytes) const;
  void CutGrants(Block* block, const std::vector<Grant>& grants);
  Growth SetAside(const Growth& growth);
  void RemoveOwn(Block* block);

  BlockPool pool_;
  FreeBins bins_;
  absl::btree_map<uint64_t, Block*> unbacked_;
  absl::btree_map<uint64_t, Block*> in_use_;  // Live, retiring and stream-free blocks.
  absl::btree_map<uint64_t, uint64_t> grants_;
  uint64_t granted_bytes_ = 0;
  absl::btree_set<std::pair<uint64_t, Block*>> own_;  // Free blocks of their own, by size.
  uint64_t own_bytes_ = 0;                            // Of them.
  uint64_t own_granted_bytes_ = 0;                    // Of all blocks of their own.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_ARENA_HEAP_H_
