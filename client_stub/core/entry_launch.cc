// Launches: checked and packed here, then one way.
#include <cstring>
#include <string>

#include "client_stub/core/events.h"
#include "client_stub/core/kernel.h"
#include "client_stub/core/launch_attributes.h"
#include "client_stub/core/launch_check.h"
#include "client_stub/core/module.h"
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

template <typename Command>
void SetGeometry(const LaunchGeometry& launch, Command* command) {
  command->grid_x = launch.grid[0];
  command->grid_y = launch.grid[1];
  command->grid_z = launch.grid[2];
  command->block_x = launch.block[0];
  command->block_y = launch.block[1];
  command->block_z = launch.block[2];
  command->dynamic_shared_bytes = launch.dynamic_shared_bytes;
}

CUresult Send(Kernel* kernel, Stream* stream, const LaunchGeometry& launch,
              const LaunchAttributes* attributes, void** params, void** extra, char* buffer) {
  if (kernel->parameter_bytes != 0) {
    WARPLINE_TRY(PackParameters(*kernel, params, extra, buffer));
  }
  const std::string_view packed(buffer, kernel->parameter_bytes);
  uint64_t wire;
  WARPLINE_TRY(kernel->module->Bind(kernel, &wire));
  // After the parameters were read, which may lie there.
  WARPLINE_TRY(runtime().mirrored->BeforeWork(stream->wire));
  if (attributes == nullptr || attributes->plain()) {
    warpline::cmd::Launch command = {.stream = stream->wire, .kernel = wire};
    SetGeometry(launch, &command);
    return SendOn(stream, command, packed);
  }
  warpline::cmd::LaunchEx command = {.stream = stream->wire, .kernel = wire};
  SetGeometry(launch, &command);
  command.cooperative = attributes->cooperative ? 1 : 0;
  command.attribute_count = attributes->wire_count;
  return SendOn(stream, command, attributes->wire + std::string(packed));
}

CUresult Launch(CUfunction function, const LaunchGeometry& launch,
                const LaunchAttributes* attributes, CUstream handle, DefaultStream null_means,
                void** params, void** extra) {
  WARPLINE_TRY(Enter());
  Kernel* kernel = FindKernel(NumberOf(function));
  Stream* stream = FindStream(handle, null_means);
  if (kernel == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(CheckLaunch(launch, runtime().limits, kernel->limits()));
  static const LaunchAttributes kNone;
  WARPLINE_TRY(CheckCluster(*kernel, launch, attributes == nullptr ? kNone : *attributes));
  if (attributes != nullptr && attributes->cooperative) {
    WARPLINE_TRY(CheckCooperative(kernel, launch));
  }
  if (kernel->parameter_bytes <= kStackParameterBytes) {
    char buffer[kStackParameterBytes];
    WARPLINE_TRY(Send(kernel, stream, launch, attributes, params, extra, buffer));
  } else {
    std::string buffer(kernel->parameter_bytes, '\0');
    WARPLINE_TRY(Send(kernel, stream, launch, attributes, params, extra, buffer.data()));
  }
  if (attributes != nullptr) {
    for (Event* event : attributes->events) WARPLINE_TRY(RecordEvent(event, stream));
  }
  return runtime().launch_blocking ? SynchronizeStream(stream) : CUDA_SUCCESS;
}

CUresult LaunchEx(const CUlaunchConfig* config, CUfunction function, void** params, void** extra,
                  DefaultStream null_means) {
  WARPLINE_TRY(Enter());
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  LaunchAttributes attributes;
  WARPLINE_TRY(ReadLaunchAttributes(config->attrs, config->numAttrs, &attributes));
  const LaunchGeometry launch = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                                 config->sharedMemBytes};
  return Launch(function, launch, &attributes, config->hStream, null_means, params, extra);
}

CUresult LaunchCooperative(CUfunction function, const LaunchGeometry& launch, CUstream stream,
                           DefaultStream null_means, void** params) {
  LaunchAttributes attributes;
  attributes.cooperative = true;
  return Launch(function, launch, &attributes, stream, null_means, params, nullptr);
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
  return Launch(f, launch, nullptr, hStream, kLegacy, kernelParams, extra);
}

CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                     unsigned int gridDimZ, unsigned int blockDimX,
                                     unsigned int blockDimY, unsigned int blockDimZ,
                                     unsigned int sharedMemBytes, CUstream hStream,
                                     void** kernelParams, void** extra) {
  const LaunchGeometry launch = {
      {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  return Launch(f, launch, nullptr, hStream, kPerThread, kernelParams, extra);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                                  void** extra) {
  return LaunchEx(config, f, kernelParams, extra, kLegacy);
}

CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f,
                                       void** kernelParams, void** extra) {
  return LaunchEx(config, f, kernelParams, extra, kPerThread);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
                                           unsigned int gridDimY, unsigned int gridDimZ,
                                           unsigned int blockDimX, unsigned int blockDimY,
                                           unsigned int blockDimZ, unsigned int sharedMemBytes,
                                           CUstream hStream, void** kernelParams) {
  const LaunchGeometry launch = {
      {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  return LaunchCooperative(f, launch, hStream, kLegacy, kernelParams);
}

CUresult CUDAAPI cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX,
                                                unsigned int gridDimY, unsigned int gridDimZ,
                                                unsigned int blockDimX, unsigned int blockDimY,
                                                unsigned int blockDimZ, unsigned int sharedMemBytes,
                                                CUstream hStream, void** kernelParams) {
  const LaunchGeometry launch = {
      {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  return LaunchCooperative(f, launch, hStream, kPerThread, kernelParams);
}

// A launch on several devices at once: a session has one.
CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launchParamsList,
                                                      unsigned int numDevices, unsigned int) {
  WARPLINE_TRY(Enter());
  if (launchParamsList == nullptr || numDevices == 0) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
