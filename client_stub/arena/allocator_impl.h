// The allocator's state and rules; allocator.h is the interface.
#ifndef WARPLINE_CLIENT_STUB_ARENA_ALLOCATOR_IMPL_H_
#define WARPLINE_CLIENT_STUB_ARENA_ALLOCATOR_IMPL_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "client_stub/arena/allocator.h"
#include "client_stub/arena/block.h"
#include "client_stub/arena/heap.h"
#include "client_stub/arena/stream_cache.h"
#include "client_stub/session/session.h"
#include "client_stub/session/waits/spin_mutex.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. Lock order: grow_mu_, mu_. Under mu_ the session is only asked questions that it
// answers at once; calls that may wait are made without mu_.
class Allocator::Impl {
 public:
  // Allocations of so much have a grant of their own, where memory is granted bit by bit.
  static constexpr uint64_t kLeastOwn = 64ull << 20;

  Impl(Session* session, uint32_t device, Clock clock);
  ~Impl();

  CudaResult Allocate(uint64_t bytes, const uint64_t* stream, uint64_t* address);
  CudaResult Free(uint64_t address);
  CudaResult FreeAsync(uint64_t address, uint64_t stream);
  void ForgetStream(uint64_t stream);
  bool Find(uint64_t address, Allocation* allocation) const;
  bool Contains(uint64_t address, uint64_t bytes) const;
  CudaResult ReserveAddresses(uint64_t bytes, uint64_t alignment, uint64_t wanted,
                              uint64_t* address);
  void ReleaseAddresses(uint64_t address);
  void Charge(uint64_t bytes);
  void Discharge(uint64_t bytes);
  CudaResult ReturnUnused(bool wait);
  void MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) const;

 private:
  Block* TakeFromStream(uint64_t bytes, uint64_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gets a block when no free one fits: by reclaiming, requesting, returning and, at last, waiting.
  CudaResult Obtain(uint64_t bytes, Block** block);
  // Sets `*asked` when the server was asked; a refusal then carries the server's own reason.
  CudaResult Grow(uint64_t bytes, Block** block, bool* asked)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(grow_mu_);
  // Takes free memory: for a large allocation that `own` says shall have a grant of its own only
  // such a grant.
  Block* TakeFree(uint64_t bytes, bool own) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What is asked for: a grant of its own, a step for this and later small allocations, or as much
  // as it takes.
  enum class Kind { kOwn, kShared, kAny };
  Heap::Growth Plan(uint64_t bytes, Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CudaResult GrowBy(uint64_t bytes, Kind kind, Block** block, bool* asked)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(grow_mu_);
  // Returns true when an allocation of `bytes`, rounded up, has a grant of its own.
  bool HasOwn(uint64_t bytes) const { return returns_memory_ && bytes >= kLeastOwn; }
  uint64_t Round(uint64_t bytes) const;
  // Notes a refusal in the words that the server uses when it is asked.
  void NoteRefused(uint64_t bytes);
  bool ReturnForGrowth(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CudaResult WaitForRetirement() ABSL_EXCLUSIVE_LOCKS_REQUIRED(grow_mu_);
  // Takes the live block at `address` out of use; null when there is none.
  Block* EndAllocation(uint64_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Retire(Block* block, uint64_t seq) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the token of the fence to send now for the retiring blocks; 0 when none is due.
  uint64_t DueFence() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendFence(uint64_t token);
  bool Retired(const Block& block, uint64_t stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReclaimFenced() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReclaimAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Reclaim(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t QuotaLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Commands* const commands_;
  MemoryRequests* const memory_;
  Notices* const notices_;
  Counters* const counters_;
  const uint32_t device_;
  const bool returns_memory_;  // Otherwise all there is stays granted from the start.
  const Clock clock_;
  const uint64_t quota_bytes_;
  const uint64_t shown_bytes_;  // The part of that which the application sees.

  // The largest token that the worker reported, without the device's bits. The session's loop
  // writes it.
  std::atomic<uint64_t> freed_token_{0};

  // Held by the one thread that gets more memory.
  Mutex grow_mu_;

  mutable SpinMutex mu_;
  Heap heap_ ABSL_GUARDED_BY(mu_);
  uint64_t live_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uint64_t, std::unique_ptr<StreamCache>> streams_ ABSL_GUARDED_BY(mu_);
  uint64_t stream_free_blocks_ ABSL_GUARDED_BY(mu_) = 0;
  // Retiring blocks, in the order in which they were freed: numbers and tokens only grow.
  BlockList retiring_ ABSL_GUARDED_BY(mu_);
  uint64_t next_token_ ABSL_GUARDED_BY(mu_) = 1;  // The next fence's.
  uint64_t unfenced_blocks_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t unfenced_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t retired_seq_ ABSL_GUARDED_BY(mu_) = 0;  // Everything up to this command has retired.
  absl::Time last_growth_ ABSL_GUARDED_BY(mu_);
  absl::Time last_trim_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_ARENA_ALLOCATOR_IMPL_H_
