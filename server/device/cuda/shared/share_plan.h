// Which of a device's multiprocessors the sessions that share it get. Pure logic.
//
// A device is divided into slots, in a row, and a session gets some that lie side by side. A kernel
// that runs on some slots does not wait for kernels on others, so a small kernel's latency is its
// own only if its session shares no slot with a busy one.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLAN_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLAN_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace warpline::device {

// Slots from `begin` to before `end`.
struct SlotRange {
  uint16_t begin = 0;
  uint16_t end = 0;

  friend bool operator==(const SlotRange&, const SlotRange&) = default;
};

// Slots, of which each bit is one.
using SlotSet = uint64_t;
inline constexpr size_t kMostSlots = 64;

inline SlotSet SetOf(const SlotRange& range) {
  SlotSet set = 0;
  for (uint16_t slot = range.begin; slot < range.end; ++slot) set |= SlotSet{1} << slot;
  return set;
}
// From the first to the last of them; an empty range for none.
inline SlotRange HullOf(SlotSet set) {
  if (set == 0) return {};
  return {static_cast<uint16_t>(std::countr_zero(set)),
          static_cast<uint16_t>(kMostSlots - static_cast<size_t>(std::countl_zero(set)))};
}

// The multiprocessors of these slots, of which `slots` are the numbers.
inline int SizeOf(const std::vector<int>& slots, const SlotRange& range) {
  return std::accumulate(slots.begin() + range.begin, slots.begin() + range.end, 0);
}

// The same of those in a set.
inline int SizeOf(const std::vector<int>& slots, SlotSet set) {
  int size = 0;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if ((set >> slot & 1) != 0) size += slots[slot];
  }
  return size;
}

struct ShareDemand {
  // The multiprocessors that its kernels can use at once; 0 for a session that rests.
  int wanted = 0;
  // The most that it may have; 0 for no limit. Nobody has less than a slot.
  int most = 0;
  // Where it has kernels that run for long, behind which others' would wait; empty for nowhere.
  SlotRange pinned = {};
  // Its part of the device beside others that work, from 1 on.
  int weight = 1;
  // By how many multiprocessors earlier plans fell short of its part, together; below 0 by how many
  // they exceeded it.
  int owed = 0;
};

// Returns each session's slots. `slots` are their numbers of multiprocessors.
//
// - Who works gets as much as it wants, as far as it is no more than its part: the device is
//   divided by weight (max-min fair), and what some do not want is the others'. Parts are rounded
//   to slots, and what earlier plans rounded off is made up for.
// - When anybody rests, the first slot stays free for those who do, so that the kernels with which
//   one of them begins again do not wait.
// - Who is alone has the whole device. When more work than there are slots, several share one.
// - Who has kernels that run for long stays where they are, and nobody else gets slots there,
//   unless they are on all that there are.
//
// The same sessions with the same demands get the same slots.
std::vector<SlotRange> PlanShares(const std::vector<int>& slots,
                                  const std::vector<ShareDemand>& demands);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLAN_H_
