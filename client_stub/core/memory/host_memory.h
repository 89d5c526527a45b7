// Page-locked host memory, to and from which the application may copy asynchronously: the ranges
// that cuMemHostAlloc and cuMemAllocHost gave it, and those that it registered itself.
//
// Here, page-locked means only that a copy to the range need not be waited for, so each range also
// remembers until when such a copy may be under way. The device reaches the ranges that it shares
// (shared_host_memory.h, registered_memory.h) and those that have a mirror (mirrored_memory.h). It
// is given others when they are needed there (pinned/pinned_memory.h). Until then such a range is
// the host's alone: its `device` is 0.
#ifndef WARPLINE_CLIENT_STUB_CORE_MEMORY_HOST_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_MEMORY_HOST_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "common/mutex.h"

namespace warpline::stub {

struct Context;

// Thread-safe.
class HostMemory {
 public:
  struct Range {
    void* base = nullptr;
    uint64_t bytes = 0;
    unsigned int flags = 0;
    bool registered = false;  // The application's own memory.
    uint64_t id = 0;
    uint64_t last_copy = 0;  // The number of the latest copy to it that was not waited for.
    // All that such copies wrote to lies in [copied_begin, copied_end).
    uint64_t copied_begin = ~uint64_t{0};
    uint64_t copied_end = 0;
    bool kept = false;      // The memory is not given back here.
    bool shared = false;    // Host and device have one memory (shared_host_memory.h).
    uint64_t device = 0;    // Its address on the device; 0 while it is the host's alone.
    bool in_arena = false;  // It lies at addresses of the arena, which devices can be given.
    uint32_t owner = 0;     // The device that was current when it was allocated or registered.
    const Context* context = nullptr;  // The context that was current then.
    int uses = 0;                      // The number of objects of class Use.
    bool leaving = false;              // Between BeginGive() and EndGive().
    bool refused = false;              // The devices cannot be given it.
  };

  // Allocates page-aligned zeroed memory; gives nullptr for 0 bytes. CUDA_ERROR_OUT_OF_MEMORY when
  // the system has none.
  CUresult Allocate(uint64_t bytes, unsigned int flags, void** base);
  // Adds memory that the caller allocated and gives back itself.
  void Add(void* base, uint64_t bytes, unsigned int flags, uint64_t device, bool shared);
  // Adds such memory at addresses of the arena. It is the host's alone at first.
  void AddInArena(void* base, uint64_t bytes, unsigned int flags);
  void SetOwner(void* base, uint32_t owner, const Context* context);
  // Returns the ranges that were allocated or registered in a context.
  std::vector<Range> RangesOf(const Context* context) const;
  // Adds the application's own memory. CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED when it overlaps a
  // range.
  CUresult Register(void* base, uint64_t bytes, unsigned int flags);

  // Finds the range that holds `address`; returns false when there is none.
  bool Find(const void* address, Range* range) const;
  // Returns true when [address, address + bytes) lies in one range.
  bool Contains(const void* address, uint64_t bytes) const;

  // ---- Memory that is the host's alone, and how a device gets it.

  // Returns false for most addresses that no such range holds, without taking a lock.
  bool MayBeHosts(uint64_t address) const {
    return arena_span_.Holds(address) || apart_span_.Holds(address);
  }
  // Finds the range that holds `address`, or ends there, if it is the host's alone or if the
  // devices have it at another address; returns false otherwise.
  bool FindHosts(uint64_t address, Range* range) const;
  // Returns true for an address of the arena that is the host's alone.
  bool HostsArena(uint64_t address) const;
  // The number of ranges at addresses of the arena that are the host's alone.
  int hosts_in_arena() const { return in_arena_.load(std::memory_order_relaxed); }
  // The number of ranges that have or get another address on the devices.
  int apart() const { return apart_.load(std::memory_order_relaxed); }
  // How often ranges were added.
  uint64_t additions() const { return additions_.load(std::memory_order_acquire); }

  // Lives while a call copies to or from memory at `address`. If that is the host's alone it stays
  // so meanwhile. Waits for a change under way.
  class Use {
   public:
    Use(HostMemory* memory, uint64_t address);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    HostMemory* const memory_;
    uint64_t base_ = 0;  // The range's address; 0 without one.
  };
  // Waits until there is no Use of the range that starts at `base`, and lets none begin before
  // EndGive(). Returns false if there is no such range, or if it is not the host's alone.
  bool BeginGive(uint64_t base, Range* range);
  // Notes where the devices have the range; 0: it remains the host's alone. With `refused`, which
  // says that this will not change, FindHosts() does not find it any more.
  void EndGive(uint64_t base, uint64_t device, bool refused = false);

  // Notes that copy `seq` writes to [address, address + bytes), which lies in one range, and is not
  // waited for.
  void NoteCopy(const void* address, uint64_t bytes, uint64_t seq);

  // Forgets the range that starts at `base`, and frees its memory if Allocate() gave it. No copy to
  // it may be under way any more. Returns false if there is no such range.
  bool Remove(void* base);

 private:
  std::map<uint64_t, Range>::const_iterator FindLocked(const void* address) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds a range that may be the host's alone.
  void WatchLocked(const Range& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true if the devices have or get the range at another address.
  static bool IsApart(const Range& range) { return !range.kept; }

  // Holds the addresses of all present and former ranges, and those just behind them.
  struct Span {
    std::atomic<uint64_t> low{~uint64_t{0}};
    std::atomic<uint64_t> high{0};

    bool Holds(uint64_t address) const {
      return address >= low.load(std::memory_order_relaxed) &&
             address < high.load(std::memory_order_relaxed);
    }
  };
  Span arena_span_;  // The ranges at addresses of the arena.
  Span apart_span_;  // Those that have or get another address on the devices.
  std::atomic<int> in_arena_{0};
  std::atomic<int> apart_{0};
  std::atomic<uint64_t> additions_{0};

  mutable Mutex mu_;
  CondVar changed_;  // A Use or a change of a range has ended.
  std::map<uint64_t, Range> ranges_ ABSL_GUARDED_BY(mu_);  // By address.
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_HOST_MEMORY_H_
