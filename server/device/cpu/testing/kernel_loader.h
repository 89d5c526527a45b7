// How the kernel fixture loads a module. There are two: as it is, and guarded. A test that links
// the latter runs its kernels guarded.
#ifndef WARPLINE_SERVER_DEVICE_CPU_TESTING_KERNEL_LOADER_H_
#define WARPLINE_SERVER_DEVICE_CPU_TESTING_KERNEL_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "server/device/device.h"

namespace warpline::cpu {

// `arena` has 2^32 bytes, of which those from `variables` on are the loader's.
CudaResult LoadText(device::Context* context, std::string_view text, uint64_t arena,
                    uint64_t variables, device::ModuleId* module);

// Adds to the parameters of a launch what kernels of LoadText() have behind their own.
void AddParameters(uint64_t arena, const device::LaunchConfig& config,
                   std::vector<std::byte>* params);

// Returns true if LoadText() guards what it loads.
bool LoadsGuarded();

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_TESTING_KERNEL_LOADER_H_
