// How a client names multiprocessors of a device: by the splits that lead to them.
//
// A path starts at all multiprocessors that the session may use. Each step splits what the path has
// reached and takes some of the groups, and what was left besides if `rest` is 1. The empty path
// names all of them. The same path always leads to the same multiprocessors of a device, so neither
// side has to remember a split.
//
//   SmStep first;                  // The second of the groups with 16 multiprocessors or more.
//   first.least = 16;
//   first.groups = 4;
//   first.taken[0] = 1u << 1;
//   const std::string path(reinterpret_cast<const char*>(&first), sizeof(first));
#ifndef WARPLINE_COMMON_CUDA_SM_PATH_H_
#define WARPLINE_COMMON_CUDA_SM_PATH_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace warpline {

// The most groups that a split makes.
inline constexpr uint32_t kMaxSmGroups = 256;
// The most steps of a path.
inline constexpr uint32_t kMaxSmSteps = 8;
// Asks a split to count only (SmSplit::groups).
inline constexpr uint32_t kCountSmGroups = ~uint32_t{0};

struct SmStep {
  uint64_t taken[kMaxSmGroups / 64] = {};  // The groups that are taken, a bit for each.
  uint32_t least = 0;                      // The least multiprocessors of a group.
  uint32_t flags = 0;                      // CUdevSmResourceSplit_flags
  uint32_t groups = 0;                     // The most groups that the split makes, 1 or more.
  uint32_t rest = 0;                       // 1 if what the split leaves is taken.

  bool Takes(uint32_t group) const { return (taken[group / 64] >> group % 64 & 1) != 0; }
  void Take(uint32_t group) { taken[group / 64] |= uint64_t{1} << group % 64; }
};
static_assert(sizeof(SmStep) == 48);

// Some of a device's multiprocessors. All of it is 0 where there are none.
struct SmPart {
  uint32_t count = 0;
  uint32_t smallest = 0;   // The least part that it can be split into.
  uint32_t alignment = 0;  // The parts' numbers are multiples of it.
};
static_assert(sizeof(SmPart) == 12);

// Reads a path. Returns false for bytes that are none: too many steps, a step that takes nothing,
// or a group that it does not make.
bool ReadSmPath(std::string_view bytes, std::vector<SmStep>* path);

}  // namespace warpline

#endif  // WARPLINE_COMMON_CUDA_SM_PATH_H_
