// Opens the devices that the server has: those that CUDA shows by itself or, where the operator has
// made MIG instances, each of these and the whole GPUs beside them.
#ifndef WARPLINE_SERVER_GPU_SERVER_OPEN_DEVICES_H_
#define WARPLINE_SERVER_GPU_SERVER_OPEN_DEVICES_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/gpu_server/memory/device_memory.h"
#include "server/gpu_server/memory/pageable_access.h"
#include "server/gpu_server/nvml/cuda_devices.h"
#include "server/gpu_server/nvml/readings.h"
#include "server/jail/jailer.h"

namespace warpline::server {

// CUDA shows a process one MIG instance at most, and beside it no other device. So where there are
// instances each process is told which device it is to see. Empty where there are none, or no NVML
// to say so; `backend` is as DeviceOptions has it. Instances are recognised, never made or changed.
std::vector<nvml::CudaDevice> DevicesToSelect(
    const std::string& backend,
    const std::function<absl::StatusOr<std::unique_ptr<nvml::Library>>()>& load);

struct OpenDevicesOptions {
  // Of each, but for its ordinal, its UUID and the number of its chunks.
  DeviceMemoryOptions memory;
  PageableAccess pageable_access = PageableAccess::kWarn;
  // That the server may have for chunks of all devices, twice.
  size_t descriptors = 0;
  // What DevicesToSelect() says.
  std::vector<nvml::CudaDevice> selected;
};

// In order of ordinal, at least one. The jailer knows them then. The first one's error, which names
// it.
absl::StatusOr<std::vector<std::unique_ptr<DeviceMemory>>> OpenDevices(OpenDevicesOptions options,
                                                                       jail::Jailer* jailer);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_OPEN_DEVICES_H_
