// Launches, which are checked here, then packed and sent (launch.h).
#include "client_stub/core/launch/launch.h"

#include <string>
#include <string_view>

#include "client_stub/core/graph/capture.h"
#include "client_stub/core/launch/block_groups.h"
#include "client_stub/core/launch/launch_attributes.h"
#include "client_stub/core/launch/launch_check.h"
#include "client_stub/core/module/kernel.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

// Parameters up to this size are packed on the stack. For a decade devices took no more.
constexpr uint32_t kStackParameterBytes = 4096;

CUresult Send(Kernel* kernel, Stream* stream, const LaunchGeometry& launch,
              const LaunchAttributes* attributes, void** params, void** extra, char* buffer) {
  if (kernel->parameter_bytes != 0) {
    WARPLINE_TRY(PackParameters(*kernel, params, extra, buffer));
  }
  const std::string_view packed(buffer, kernel->parameter_bytes);
  return Captured(*stream) ? CaptureLaunch(stream, kernel, launch, attributes, packed)
                           : SendLaunch(kernel, stream, launch, attributes, packed);
}

CUresult Launch(CUfunction function, const LaunchGeometry& launch,
                const LaunchAttributes* attributes, CUstream handle, DefaultStream null_means,
                void** params, void** extra) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  Kernel* kernel;
  WARPLINE_TRY(FindKernelOn(NumberOf(function), stream->device, &kernel));
  if (params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(CheckLaunch(launch, stream->device->limits, kernel->limits()));
  static const LaunchAttributes kNone;
  WARPLINE_TRY(CheckCluster(*kernel, launch, attributes == nullptr ? kNone : *attributes));
  if (attributes != nullptr && attributes->cooperative) {
    WARPLINE_TRY(CheckCooperative(kernel, launch, *stream));
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
  const bool wait = runtime().launch_blocking && !Captured(*stream);
  return wait ? SynchronizeStream(stream) : CUDA_SUCCESS;
}

CUresult LaunchEx(const CUlaunchConfig* config, CUfunction function, void** params, void** extra,
                  DefaultStream null_means) {
  WARPLINE_TRY(EnterObject());
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

// Launches on several devices at once. No device reports that it can do this.
CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launchParamsList,
                                                      unsigned int numDevices, unsigned int) {
  WARPLINE_TRY(Enter());
  if (launchParamsList == nullptr || numDevices == 0) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
