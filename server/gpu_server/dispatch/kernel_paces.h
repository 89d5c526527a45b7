// How fast the kernels of slices go that share a hardware context, and whether any are launched: a
// policy may have those of a best-effort slice go slowly, or wait, while a more urgent one is at
// work.
//
// Slices of the guarded tier run at once, each on multiprocessors of its own, and share the way to
// memory. Kernels that run cannot be taken back, but hardened ones ask from time to time how they
// are to go (docs/guarded-ptx.md, Pace). Short ones end before they do, but others need not follow
// them. So the policy is asked about each slice that has kernels in flight, or waits with some,
// while another one of higher priority has work, or had a moment ago, at level 2 of on_preempt;
// what it says holds until the next look. Kernels of a slice that is best effort it may have ended,
// too.
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
  uint32_t vgpu = 0;  // As ContextHead of policy/policy.h has it, like `tenant`.
  uint64_t tenant = 0;
  int32_t priority = 0;
  bool best_effort = false;
  bool at_work = false;     // It has kernels in flight, or some have become complete.
  bool waiting = false;     // It has kernels that it may not launch.
  bool loading = false;     // It loads code, which waits for others' kernels.
  bool progressed = false;  // Kernels have become complete, or loads.
  // Since it came: how long it has had kernels in flight, and how many commands are complete.
  uint64_t busy_ns = 0;
  uint64_t commands = 0;
  // Decided: for how long threads that ask nap, 0 for full pace; for whom it is to launch nothing
  // (that one's vgpu), 0 if it may; and whether its kernels are ended.
  uint32_t nap_us = 0;
  uint32_t held_for = 0;
  std::optional<KillVerdict> kill = {};
};

// Thread-compatible.
class KernelPaces {
 public:
  // The longest nap, and for how long after its last work a slice counts as being at it.
  static constexpr uint32_t kLongestNapUs = 1000;
  // The longest that a verdict holds a slice of which nobody asks any more, since it wants nothing.
  static constexpr int64_t kLongestHoldNs = 10'000'000;
  static constexpr int64_t kLingerNs = 100'000'000;

  // `device` is the number of the device, for the policy.
  explicit KernelPaces(uint32_t device = 0) : device_(device) {}

  // Decides for all slices of one context. `now_ns` does not go backwards.
  void Look(absl::Span<PacedSlice> slices, int64_t now_ns, policy::Policy* policy);

 private:
  struct Known {
    int64_t last_ns = 0;           // When it was last at work; 0 for never.
    int64_t since_ns = 0;          // Since when it is at work without a pause; 0 while it is not.
    int64_t stalled_since_ns = 0;  // The same, or loads code, and nothing has become complete.
    bool seen = false;             // At this look.
    // It launches nothing until then, for the one with this vgpu.
    int64_t held_until_ns = 0;
    uint32_t held_for = 0;
  };

  void Note(absl::Span<const PacedSlice> slices, int64_t now_ns);
  int64_t LastWork(const PacedSlice& slice) const { return known_.at(slice.vgpu).last_ns; }
  // Whether it is at work, or was a moment ago, or waits for what is.
  bool IsPresent(const PacedSlice& slice, int64_t now_ns) const;
  // For how long the one has been at work, the urgent one has wanted to go on, and nothing of
  // either has become complete.
  int64_t InWayNs(const PacedSlice& slice, const PacedSlice& urgent, int64_t now_ns) const;
  // The most urgent of those above a priority that are at work, or were a moment ago; of several
  // the one that was last. Null for none.
  const PacedSlice* MostUrgent(absl::Span<const PacedSlice> slices, int32_t above,
                               int64_t now_ns) const;

  const uint32_t device_;
  std::map<uint32_t, Known> known_;  // By vgpu.
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_KERNEL_PACES_H_
