// Chooses device addresses inside a session's arena without a round trip.
//
// The server backs ranges of the arena with physical memory (grants). The allocator cuts
// allocations out of them, asks for more when they do not suffice, and hands a freed range out
// again only when the work that may use it has retired.
//
//   Allocator allocator(session);
//   uint64_t address;
//   if (const CudaResult result = allocator.Allocate(1 << 20, &address);
//       result != CudaResult::kSuccess) {
//     return result;
//   }
//   session->commands().Send(...);  // Commands that use [address, address + 1 MiB).
//   allocator.Free(address);        // At once: the range is reused only after those commands.
#ifndef WARPLINE_CLIENT_STUB_ARENA_ALLOCATOR_H_
#define WARPLINE_CLIENT_STUB_ARENA_ALLOCATOR_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client_stub/session/session.h"
#include "common/cuda/cuda_result.h"

namespace warpline::stub {

// A live allocation.
struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;  // The size that was asked for.
  bool stream_ordered = false;
};

// Thread-safe.
class Allocator {
 public:
  // Makes the allocator of one of the session's devices, which has its own part of the arena.
  // `session` is borrowed and must outlive the allocator.
  explicit Allocator(Session* session, uint32_t device = 0);
  // Takes a clock, which decides when unused memory goes back to the server.
  using Clock = std::function<absl::Time()>;
  Allocator(Session* session, uint32_t device, Clock clock);
  ~Allocator();

  // Works like cuMemAlloc: the address is a multiple of at least 256. kInvalidValue for 0 bytes,
  // kOutOfMemory beyond the quota. Waits for a round trip only when no granted memory fits.
  CudaResult Allocate(uint64_t bytes, uint64_t* address);
  // Works like cuMemFree: kInvalidValue unless `address` is the start of a live allocation,
  // stream-ordered or not. Returns at once; sends a FreeFence when the session has work under way
  // and no fence.
  CudaResult Free(uint64_t address);

  // Work like cuMemAllocAsync and cuMemFreeAsync: memory freed on a stream may be handed out again
  // at once on the same stream, and elsewhere after the stream's work has retired. Any live
  // allocation may be freed.
  CudaResult AllocateAsync(uint64_t bytes, uint64_t stream, uint64_t* address);
  CudaResult FreeAsync(uint64_t address, uint64_t stream);
  // Called when a stream is destroyed: memory that was freed on it waits for retirement instead.
  void ForgetStream(uint64_t stream);

  // Finds the live allocation that holds `address`; returns false when there is none.
  bool Find(uint64_t address, Allocation* allocation) const;
  // Returns true when [address, address + bytes) lies in one live allocation.
  bool Contains(uint64_t address, uint64_t bytes) const;

  // Reserves addresses in which nothing is allocated, for memory that the application maps itself:
  // `wanted` if they are free. `bytes` and `alignment` are multiples of kChunkGranularity, and
  // `alignment` is a power of two. kOutOfMemory when the arena has no room.
  CudaResult ReserveAddresses(uint64_t bytes, uint64_t alignment, uint64_t wanted,
                              uint64_t* address);
  // Gives back the reserved addresses that start at `address`, where nothing is mapped any more.
  void ReleaseAddresses(uint64_t address);
  // Count memory of the session that lies elsewhere as allocated, or no longer.
  void Charge(uint64_t bytes);
  void Discharge(uint64_t bytes);
  // Gives free memory back to the server; with `wait`, also memory that has yet to retire.
  CudaResult ReturnUnused(bool wait);

  // Reports what cuMemGetInfo does: RemoteDevice::ShownBytes(), and what is not allocated of it.
  // Freed memory that has yet to retire counts as free, as it does natively after cuMemFree: an
  // allocation that needs it waits for it.
  void MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_ARENA_ALLOCATOR_H_
