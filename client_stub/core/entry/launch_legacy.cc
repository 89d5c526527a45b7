// Launches in the form of CUDA 3: the function keeps its block, shared memory and parameters until
// they are set anew. The order of the checks, and the treatment of parameters that do not fit,
// follow NVIDIA's driver 580.
#include <algorithm>
#include <cstring>

#include "client_stub/core/launch/launch_check.h"
#include "client_stub/core/module/kernel.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"

using namespace warpline::stub;

namespace {

// The largest size of parameters, whatever the kernel has.
constexpr size_t kMaxParameterBytes = 32764;

CUresult EnterFor(CUfunction handle, Kernel** kernel) {
  WARPLINE_TRY(Enter());
  return FindFunction(NumberOf(handle), kernel);
}

CUresult SetParameter(CUfunction handle, int offset, const void* bytes, size_t count) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(handle, &kernel));
  if (bytes == nullptr || offset < 0 || count > kMaxParameterBytes ||
      static_cast<size_t>(offset) > kMaxParameterBytes - count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  warpline::MutexLock lock(&kernel->legacy_mu);
  std::string& parameters = kernel->legacy.parameters;
  parameters.resize(std::max(parameters.size(), offset + count));
  std::memcpy(parameters.data() + offset, bytes, count);
  return CUDA_SUCCESS;
}

CUresult LaunchGrid(CUfunction handle, int width, int height, CUstream stream) {
  WARPLINE_TRY(EnterUnsafe());
  Kernel* kernel;
  WARPLINE_TRY(FindFunction(NumberOf(handle), &kernel));
  if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
  Kernel::LegacyLaunch launch;
  {
    warpline::MutexLock lock(&kernel->legacy_mu);
    launch = kernel->legacy;
  }
  if (launch.parameter_bytes > kernel->parameter_bytes) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  // Bytes behind the size that was set are zero, whatever was written there.
  launch.parameters.resize(launch.parameter_bytes);
  launch.parameters.resize(kernel->parameter_bytes);
  size_t bytes = launch.parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, launch.parameters.data(),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  return cuLaunchKernel(handle, width, height, 1, launch.block[0], launch.block[1], launch.block[2],
                        launch.shared_bytes, stream, nullptr, bytes == 0 ? nullptr : extra);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(hfunc, &kernel));
  // A negative size is beyond every limit, too.
  const uint32_t block[] = {static_cast<uint32_t>(x), static_cast<uint32_t>(y),
                            static_cast<uint32_t>(z)};
  WARPLINE_TRY(CheckBlock(block, CurrentDevice().limits));
  warpline::MutexLock lock(&kernel->legacy_mu);
  kernel->legacy.block[0] = x;
  kernel->legacy.block[1] = y;
  kernel->legacy.block[2] = z;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(hfunc, &kernel));
  if (bytes > static_cast<uint32_t>(kernel->limits().max_dynamic_shared_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  warpline::MutexLock lock(&kernel->legacy_mu);
  kernel->legacy.shared_bytes = bytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(hfunc, &kernel));
  if (numbytes > kMaxParameterBytes) return CUDA_ERROR_INVALID_VALUE;
  warpline::MutexLock lock(&kernel->legacy_mu);
  kernel->legacy.parameter_bytes = numbytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
  return SetParameter(hfunc, offset, &value, sizeof(value));
}

CUresult CUDAAPI cuParamSetf(CUfunction hfunc, int offset, float value) {
  return SetParameter(hfunc, offset, &value, sizeof(value));
}

CUresult CUDAAPI cuParamSetv(CUfunction hfunc, int offset, void* ptr, unsigned int numbytes) {
  return SetParameter(hfunc, offset, ptr, numbytes);
}

CUresult CUDAAPI cuLaunch(CUfunction f) { return LaunchGrid(f, 1, 1, nullptr); }

CUresult CUDAAPI cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
  return LaunchGrid(f, grid_width, grid_height, nullptr);
}

CUresult CUDAAPI cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height,
                                   CUstream hStream) {
  return LaunchGrid(f, grid_width, grid_height, hStream);
}

}  // extern "C"
