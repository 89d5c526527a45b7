// How devices are asked for: the names of the backends, for all processes of the server, also those
// that link none of them. Thread-safe.
#ifndef WARPLINE_SERVER_HOSTLINK_BACKENDS_BACKEND_NAMES_H_
#define WARPLINE_SERVER_HOSTLINK_BACKENDS_BACKEND_NAMES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace warpline {

// A line of backends.inc.
struct BackendName {
  std::string_view name;
  std::string_view what;
  bool several = false;
  // NVIDIA's driver runs beneath: NVML has readings of the devices, workers open a context that
  // takes time and memory, and variables of modules lie where the driver puts them.
  bool nvidia_driver = false;
};

// In the order in which "auto" tries them.
absl::Span<const BackendName> BackendNames();

// What was asked for with "auto", a name, or "name:N".
struct DeviceChoice {
  const BackendName* backend = nullptr;  // Null for "auto"
  int devices = 1;
};
// INVALID_ARGUMENT, with what would be right, for anything else.
absl::StatusOr<DeviceChoice> ParseDevice(std::string_view device);

// False for what does not parse and for "auto".
bool UsesNvidiaDriver(std::string_view device);

// "cuda (GPUs through NVIDIA's driver), cpu (PTX on the processor; cpu:N as N devices)"
std::string DescribeBackends();

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_BACKENDS_BACKEND_NAMES_H_
