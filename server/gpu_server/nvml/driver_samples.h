// What the driver measures of a device that dispatch wants to know: which processes used it, and
// what it draws.
#ifndef WARPLINE_SERVER_GPU_SERVER_NVML_DRIVER_SAMPLES_H_
#define WARPLINE_SERVER_GPU_SERVER_NVML_DRIVER_SAMPLES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/gpu_server/nvml/readings.h"

namespace warpline::nvml {

// For how much of the driver's last sampling period a process had kernels on the device. The
// driver's period is a sixth of a second to a second, and it names only processes that had some.
struct ProcessUse {
  pid_t pid = 0;         // As the driver has it, which a PID namespace of ours may not.
  int64_t time_us = 0;   // When the period ended, by CLOCK_REALTIME.
  uint32_t percent = 0;  // At most 100.
};

// What the driver has sampled since `since_us`, of which there may be nothing, on the device at a
// PCI address. UNIMPLEMENTED where the driver or the device does not say, or not to this process;
// UNAVAILABLE for what may be otherwise the next time. As Library, not thread-safe.
absl::StatusOr<std::vector<ProcessUse>> ReadProcessUse(const Library& library,
                                                       const std::string& pci_bus_id,
                                                       int64_t since_us);

// 0 for what the device does not say.
struct PowerReading {
  uint32_t power_mw = 0;
  uint32_t limit_mw = 0;  // The one that is enforced.
  int32_t temperature_c = 0;
};

PowerReading ReadPower(const Library& library, const std::string& pci_bus_id);

}  // namespace warpline::nvml

#endif  // WARPLINE_SERVER_GPU_SERVER_NVML_DRIVER_SAMPLES_H_
