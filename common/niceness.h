// Nice values of processes, and what Linux makes of them.
#ifndef WARPLINE_COMMON_NICENESS_H_
#define WARPLINE_COMMON_NICENESS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace warpline {

// The weight of a process with the nice value 0.
inline constexpr uint32_t kUsualNiceWeight = 1024;

// Linux's weights of the nice values from 0 on (sched_prio_to_weight of kernel/sched/core.c). Each
// is 0.8 of the one before.
inline constexpr uint32_t kNiceWeights[] = {1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
                                            110,  87,  70,  56,  45,  36,  29,  23,  18,  15};
inline constexpr uint32_t kMostNiceness = std::size(kNiceWeights) - 1;

// Returns a nice value as a number from 0 to kMostNiceness. Values below 0 count as 0: a process
// can lower its standing, and never raise it.
constexpr uint32_t NicenessOf(int32_t nice) {
  return static_cast<uint32_t>(std::clamp<int32_t>(nice, 0, kMostNiceness));
}

// Returns the weight of a process with this niceness, which is at most kUsualNiceWeight.
constexpr uint32_t NiceWeight(uint32_t niceness) {
  return kNiceWeights[std::min(niceness, kMostNiceness)];
}

}  // namespace warpline

#endif  // WARPLINE_COMMON_NICENESS_H_
