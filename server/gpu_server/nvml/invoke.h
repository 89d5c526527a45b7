// Calls functions of NVML by their names.
#ifndef WARPLINE_SERVER_GPU_SERVER_NVML_INVOKE_H_
#define WARPLINE_SERVER_GPU_SERVER_NVML_INVOKE_H_

#include "server/gpu_server/nvml/readings.h"

namespace warpline::nvml {

using Handle = void*;  // nvmlDevice_t.

// Of nvmlReturn_t.
inline constexpr int kSuccess = 0;
inline constexpr int kNotSupported = 3;
inline constexpr int kNoPermission = 4;
inline constexpr int kNotFound = 6;
inline constexpr int kInsufficientSize = 7;
inline constexpr int kFunctionNotFound = 13;

// What the function returns; kFunctionNotFound where there is none of the name. The types of the
// arguments are those of the function.
template <typename... Arguments>
int Invoke(const Lookup& lookup, const char* name, Arguments... arguments) {
  void* const function = lookup(name);
  if (function == nullptr) return kFunctionNotFound;
  return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
}

}  // namespace warpline::nvml

#endif  // WARPLINE_SERVER_GPU_SERVER_NVML_INVOKE_H_
