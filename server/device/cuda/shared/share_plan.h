// Divides a device's multiprocessors among the sessions that share it. Pure logic.
//
// A device is a row of slots, and a session gets slots that lie side by side. A kernel does not
// wait for kernels on other slots. So no neighbour delays a small kernel if its session shares no
// slot with a busy session.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLAN_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLAN_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace warpline::device {

// The slots from `begin` to `end`, without `end`.
struct SlotRange {
  uint16_t begin = 0;
  uint16_t end = 0;

  friend bool operator==(const SlotRange&, const SlotRange&) = default;
};

// A set of slots; each bit stands for one.
using SlotSet = uint64_t;
inline constexpr size_t kMostSlots = 64;

inline SlotSet SetOf(const SlotRange& range) {
  SlotSet set = 0;
  for (uint16_t slot = range.begin; slot < range.end; ++slot) set |= SlotSet{1} << slot;
  return set;
}
// Returns the range from the first to the last slot of the set; an empty range for an empty set.
inline SlotRange HullOf(SlotSet set) {
  if (set == 0) return {};
  return {static_cast<uint16_t>(std::countr_zero(set)),
          static_cast<uint16_t>(kMostSlots - static_cast<size_t>(std::countl_zero(set)))};
}

// Returns the number of multiprocessors of a range of slots. `slots` has each slot's number.
inline int SizeOf(const std::vector<int>& slots, const SlotRange& range) {
  return std::accumulate(slots.begin() + range.begin, slots.begin() + range.end, 0);
}

// Returns the number of multiprocessors of a set of slots.
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
  // The most multiprocessors that it may have; 0 for no limit. Every session has at least a slot.
  int most = 0;
  // The slots of its long-running kernels, behind which others' kernels would wait; empty for none.
  SlotRange pinned = {};
  // Its part of the device beside others that work, from 1 on.
  int weight = 1;
  // The multiprocessors by which earlier plans together fell short of its part; below 0 if they
  // exceeded it.
  int owed = 0;
};

// Returns each session's slots. `slots` has each slot's number of multiprocessors.
//
// - A working session gets as much as it wants, but no more than its part. The device is divided by
//   weight (max-min fair): others get the multiprocessors that a session does not want. Parts are
//   rounded to slots, and later plans make up for the rounding of earlier ones.
// - While a session rests, the first free slot is kept for resting sessions, if there are enough
//   slots. The kernels with which such a session begins again then do not wait.
// - A session that is alone has the whole device. If more sessions work than there are slots,
// several
//   share one.
// - A session with long-running kernels stays on their slots, and no other session gets these,
// unless
//   no slot would be left for others.
//
// The result depends on the arguments alone: equal sessions and demands get equal slots.
std::vector<SlotRange> PlanShares(const std::vector<int>& slots,
                                  const std::vector<ShareDemand>& demands);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_PLAN_H_
