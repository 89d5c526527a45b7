// The cuda backend: a real GPU through NVIDIA's driver.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_BACKEND_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/device/device.h"

namespace warpline::device {

// Loads the driver. UNAVAILABLE when there is no driver or no device.
absl::StatusOr<std::unique_ptr<Backend>> NewCudaBackend(int devices);

// Loads NVIDIA's cuBLAS from the folders that the environment's WARPLINE_CUDA_LIBRARIES names, if
// any, with our table of the driver's functions, ../lib/driver/libcuda.so.1 from the program's
// folder. Called before NewCudaBackend().
void LoadCudaLibraries();

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_BACKEND_H_
