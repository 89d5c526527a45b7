// The device that executes PTX on the processor: for trying out, laptops and CI.
//
// It runs what nvcc emits for ordinary kernels and refuses by name what it does not implement: a
// kernel is refused with NOT_SUPPORTED when it is looked up, and a log line names the instruction.
// It does not implement textures and surfaces, clusters, and TMA. Modules need PTX; a fatbin with
// nothing but cubins is refused with NO_BINARY_FOR_GPU.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CPU_BACKEND_H_
#define WARPLINE_SERVER_DEVICE_CPU_CPU_BACKEND_H_

#include <memory>

#include "server/device/device.h"

namespace warpline::device {

// Makes a backend of `devices` devices, which all have the host's cores and share half of its
// memory. They reach each other's memory.
absl::StatusOr<std::unique_ptr<Backend>> NewCpuBackend(int devices = 1);

// Loads a BLAS, which executes the calls of cuBLAS.
void LoadCpuLibraries();

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CPU_CPU_BACKEND_H_
