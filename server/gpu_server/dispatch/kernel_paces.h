// Decides the pace of kernels of slices that share a hardware context. The policy may slow down or
// hold back the kernels of a less urgent slice while a more urgent slice is at work.
//
// Slices of the guarded tier run at once, each on multiprocessors of its own, and share the path to
// memory. Running kernels cannot be taken back, but hardened kernels ask from time to time how fast
// they are to go (docs/guarded-ptx.md, Pace). Short kernels end before they ask; the launch of the
// next ones can be held back instead.
//
// So the policy is asked about each slice that has kernels in flight, or that waits with some,
// while a slice of higher priority has work or had some a moment ago. It is asked at level 2 of
// on_preempt, and its answer holds until the next look. It may also have kernels of a best-effort
// slice ended.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_KERNEL_PACES_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_KERNEL_PACES_H_

#include <cstdint>
#include <map>
#include <optional>

#include "absl/types/span.h"
#include "policy/policy.h"
#include "server/gpu_server/dispatch/kill_verdict.h"

namespace warpline::dispatch {

// A slice at one look.
struct PacedSlice {
  uint32_t vgpu = 0;  // See ContextHead of policy/policy.h, also for `tenant`.
  uint64_t tenant = 0;
  int32_t priority = 0;
  bool best_effort = false;
  bool at_work = false;     // It has kernels in flight, or has completed some.
  bool waiting = false;     // It has kernels that it may not launch.
  bool loading = false;     // It loads code, which waits for others' kernels.
  bool progressed = false;  // It has completed kernels or loads.
  // Since the slice came: the time for which it has had kernels in flight, and the number of
  // commands that it has completed.
  uint64_t busy_ns = 0;
  uint64_t commands = 0;
  // The decision. Threads that ask must nap for `nap_us`; 0 is full pace. The slice must launch
  // nothing for the sake of the slice with the vgpu `held_for`; 0 if it may launch. `kill` is the
  // verdict to end its kernels.
  uint32_t nap_us = 0;
  uint32_t held_for = 0;
  std::optional<KillVerdict> kill = {};
};

// Thread-compatible.
class KernelPaces {
 public:
  // The longest nap.
  static constexpr uint32_t kLongestNapUs = 1000;
  // The longest time for which a verdict holds a slice that wants nothing, and so is not asked
  // about.
  static constexpr int64_t kLongestHoldNs = 10'000'000;
  // A slice counts as at work for this long after its last work.
  static constexpr int64_t kLingerNs = 100'000'000;

  // `device` is the number of the device, for the policy.
  explicit KernelPaces(uint32_t device = 0) : device_(device) {}

  // Decides for all slices of one context. `now_ns` must not go backwards.
  void Look(absl::Span<PacedSlice> slices, int64_t now_ns, policy::Policy* policy);

 private:
  struct Known {
    int64_t last_ns = 0;           // When it was last at work; 0 for never.
    int64_t since_ns = 0;          // It has worked without a pause since then; 0 while it does not.
    int64_t stalled_since_ns = 0;  // It has worked or loaded since then and completed nothing.
    bool seen = false;             // At this look.
    // It launches nothing until then, for the slice with this vgpu.
    int64_t held_until_ns = 0;
    uint32_t held_for = 0;
  };

  void Note(absl::Span<const PacedSlice> slices, int64_t now_ns);
  int64_t LastWork(const PacedSlice& slice) const { return known_.at(slice.vgpu).last_ns; }
  // Returns whether the slice is at work, was so a moment ago, or loads code.
  bool IsPresent(const PacedSlice& slice, int64_t now_ns) const;
  // Returns how long `slice` has been at work and `urgent` has wanted to go on while neither
  // completed anything.
  int64_t InWayNs(const PacedSlice& slice, const PacedSlice& urgent, int64_t now_ns) const;
  // Returns the slice of the highest priority above `above` that is at work or was so a moment ago.
  // Among equals it is the one that worked last. Null for none.
  const PacedSlice* MostUrgent(absl::Span<const PacedSlice> slices, int32_t above,
                               int64_t now_ns) const;

  const uint32_t device_;
  std::map<uint32_t, Known> known_;  // By vgpu.
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_KERNEL_PACES_H_
