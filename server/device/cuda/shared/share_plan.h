// Which of a device's multiprocessors the sessions that share it get. Pure logic.
//
// A device is divided into slots, in a row, and a session gets some that lie side by side. A kernel
// that runs on some slots does not wait for kernels on others, so a small kernel's latency is its
// own only if its session shares no slot with a busy one.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLAN_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLAN_H_

#include <cstdint>
#include <vector>

namespace warpline::device {

// Slots from `begin` to before `end`.
struct SlotRange {
  uint16_t begin = 0;
  uint16_t end = 0;

  friend bool operator==(const SlotRange&, const SlotRange&) = default;
};

struct ShareDemand {
  // The multiprocessors that its kernels can use at once; 0 for a session that rests.
  int wanted = 0;
  // The most that it may have; 0 for no limit. Nobody has less than a slot.
  int most = 0;
  // Where it has kernels that run for long, behind which others' would wait; empty for nowhere.
  SlotRange pinned = {};
};

// Returns each session's slots. `slots` are their numbers of multiprocessors.
//
// - Who works gets as much as it wants, as far as it is no more than its part: the device is
//   divided evenly (max-min fair), and what some do not want is the others'.
// - When anybody rests, the first slot stays free for those who do, so that the kernels with which
//   one of them begins again do not wait.
// - Who is alone has the whole device. When more work than there are slots, several share one.
// - Who has kernels that run for long stays where they are, and nobody else gets slots there,
// unless
//   they are on all that there are.
//
// The same sessions with the same demands get the same slots.
std::vector<SlotRange> PlanShares(const std::vector<int>& slots,
                                  const std::vector<ShareDemand>& demands);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLAN_H_
