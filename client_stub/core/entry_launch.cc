// Launches: checked and packed here, then one way.
#include <cstring>
#include <string>

#include "client_stub/core/kernel.h"
#include "client_stub/core/launch_check.h"
#include "client_stub/core/runtime.h"
#include "client_stub/core/streams.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

// Parameters up to this size are packed on the stack: as many as devices took for a decade.
constexpr uint32_t kStackParameterBytes = 4096;

// Reads the list behind `extra` into the packed parameters and their size.
CUresult ReadExtra(void** extra, std::string_view* packed) {
  const char* buffer = nullptr;
  const size_t* size = nullptr;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = static_cast<const char*>(extra[1]);
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size = static_cast<const size_t*>(extra[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (buffer == nullptr || size == nullptr || *size == 0) return CUDA_ERROR_INVALID_VALUE;
  *packed = {buffer, *size};
  return CUDA_SUCCESS;
}

// Gathers the parameters into `to` (kernel.parameter_bytes), from one form or the other. Bytes that
// neither gives are zero, not whatever the stack held.
CUresult PackParameters(const Kernel& kernel, void** params, void** extra, char* to) {
  std::memset(to, 0, kernel.parameter_bytes);
  if (params != nullptr) {
    for (size_t i = 0; i < kernel.parameters.size(); ++i) {
      if (params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      const Kernel::Parameter& parameter = kernel.parameters[i];
      std::memcpy(to + parameter.offset, params[i], parameter.bytes);
    }
    return CUDA_SUCCESS;
  }
  if (extra == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string_view packed;
  WARPLINE_TRY(ReadExtra(extra, &packed));
  // NVIDIA's driver takes fewer bytes than the kernel has, and says this of more.
  if (packed.size() > kernel.parameter_bytes) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  std::memcpy(to, packed.data(), packed.size());
  return CUDA_SUCCESS;
}

CUresult Send(const Kernel& kernel, Stream* stream, const LaunchGeometry& launch, void** params,
              void** extra, char* buffer) {
  if (kernel.parameter_bytes != 0) {
    WARPLINE_TRY(PackParameters(kernel, params, extra, buffer));
  }
  const warpline::cmd::Launch command = {stream->wire,
                                         kernel.wire,
                                         launch.grid[0],
                                         launch.grid[1],
                                         launch.grid[2],
                                         launch.block[0],
                                         launch.block[1],
                                         launch.block[2],
                                         launch.dynamic_shared_bytes,
                                         0};
  return SendOn(stream, command, std::string_view(buffer, kernel.parameter_bytes));
}

CUresult Launch(CUfunction function, const LaunchGeometry& launch, CUstream handle,
                DefaultStream null_means, void** params, void** extra) {
  WARPLINE_TRY(Enter());
  const Kernel* kernel = FindKernel(NumberOf(function));
  Stream* stream = FindStream(handle, null_means);
  if (kernel == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  WARPLINE_TRY(CheckLaunch(launch, runtime().limits, kernel->limits()));
  if (kernel->parameter_bytes <= kStackParameterBytes) {
    char buffer[kStackParameterBytes];
    WARPLINE_TRY(Send(*kernel, stream, launch, params, extra, buffer));
  } else {
    std::string buffer(kernel->parameter_bytes, '\0');
    WARPLINE_TRY(Send(*kernel, stream, launch, params, extra, buffer.data()));
  }
  return runtime().launch_blocking ? SynchronizeStream(stream) : CUDA_SUCCESS;
}

// Attributes that only advise, or that ask for what every launch gets here, are passed over; those
// that would change what the launch means are refused.
CUresult CheckAttribute(const CUlaunchAttribute& attribute) {
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    // Allows this launch to begin before the one before it ends: it never does.
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      return attribute.value.cooperative == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
      const auto& cluster = attribute.value.clusterDim;
      const bool one_block = cluster.x == 1 && cluster.y == 1 && cluster.z == 1;
      return one_block ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    }
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult LaunchEx(const CUlaunchConfig* config, CUfunction function, void** params, void** extra,
                  DefaultStream null_means) {
  WARPLINE_TRY(Enter());
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    WARPLINE_TRY(CheckAttribute(config->attrs[i]));
  }
  const LaunchGeometry launch = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                                 config->sharedMemBytes};
  return Launch(function, launch, config->hStream, null_means, params, extra);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                unsigned int gridDimZ, unsigned int blockDimX,
                                unsigned int blockDimY, unsigned int blockDimZ,
                                unsigned int sharedMemBytes, CUstream hStream, void** kernelParams,
                                void** extra) {
  const LaunchGeometry launch = {
      {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  return Launch(f, launch, hStream, kLegacy, kernelParams, extra);
}

CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                     unsigned int gridDimZ, unsigned int blockDimX,
                                     unsigned int blockDimY, unsigned int blockDimZ,
                                     unsigned int sharedMemBytes, CUstream hStream,
                                     void** kernelParams, void** extra) {
  const LaunchGeometry launch = {
      {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  return Launch(f, launch, hStream, kPerThread, kernelParams, extra);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                                  void** extra) {
  return LaunchEx(config, f, kernelParams, extra, kLegacy);
}

CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f,
                                       void** kernelParams, void** extra) {
  return LaunchEx(config, f, kernelParams, extra, kPerThread);
}

}  // extern "C"
