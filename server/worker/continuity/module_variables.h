// Finds what kernels of a module can write that lies outside the session's arena.
#ifndef WARPLINE_SERVER_WORKER_CONTINUITY_MODULE_VARIABLES_H_
#define WARPLINE_SERVER_WORKER_CONTINUITY_MODULE_VARIABLES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::worker {

// Bounds of what is read of one image: the number and length of names, and the sum of their bytes.
inline constexpr size_t kMaxVariableNames = 1u << 16;
inline constexpr size_t kMaxVariableName = 4096;
inline constexpr size_t kMaxVariableNameBytes = 16u << 20;

struct ModuleVariables {
  // The names that Context::FindGlobal() takes.
  std::vector<std::string> names;
  // False when there may be variables besides those named.
  bool complete = true;
  // Kernels may take memory of the device's own heap (malloc).
  bool allocates = false;
  // What all its variables take of the device: the most that any part of the image would which the
  // device may choose.
  uint64_t bytes = 0;

  bool any() const { return !complete || !names.empty(); }
};

// Whether the compiler made a variable of this name, for a string in calls of printf and assert,
// which nobody writes.
bool IsCompilersOwn(std::string_view name);

// Looks at that part of `image` (a fatbin, a cubin or PTX) that runs on a device of `sm` (such as
// 90; 0 for any PTX). Strings that the compiler made for printf and assert do not count, nor do
// constants. The result is incomplete when in doubt, as for an image that cannot be read, or not
// within a time in proportion to its size.
// Thread-safe.
ModuleVariables WritableVariables(std::string_view image, int sm);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CONTINUITY_MODULE_VARIABLES_H_
