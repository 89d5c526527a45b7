#include "server/device/cuda/cuda_launches.h"

#include <cstring>

#include "server/device/cuda/native.h"

namespace warpline::device {
namespace {

// A launch with attributes in the driver's terms.
class NativeLaunch {
 public:
  NativeLaunch(const LaunchConfig& config, const AddressGate& gate, CUstream stream) {
    for (const LaunchAttribute& attribute : config.attributes) {
      // A hint about memory that is not the session's says nothing.
      if (!gate.AdmitsAttribute(attribute)) continue;
      CUlaunchAttribute& native = attributes_.emplace_back();
      native.id = static_cast<CUlaunchAttributeID>(attribute.id);
      static_assert(sizeof(native.value) == sizeof(attribute.value));
      std::memcpy(&native.value, attribute.value.data(), sizeof(native.value));
    }
    if (config.cooperative) {
      CUlaunchAttribute& native = attributes_.emplace_back();
      native.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      native.value.cooperative = 1;
    }
    config_.gridDimX = config.grid[0];
    config_.gridDimY = config.grid[1];
    config_.gridDimZ = config.grid[2];
    config_.blockDimX = config.block[0];
    config_.blockDimY = config.block[1];
    config_.blockDimZ = config.block[2];
    config_.sharedMemBytes = config.dynamic_shared_bytes;
    config_.hStream = stream;
    config_.attrs = attributes_.data();
    config_.numAttrs = static_cast<unsigned>(attributes_.size());
  }

  const CUlaunchConfig* config() const { return &config_; }

 private:
  std::vector<CUlaunchAttribute> attributes_;
  CUlaunchConfig config_ = {};
};

StreamWork WorkOf(const LaunchConfig& config) {
  return {uint64_t{config.grid[0]} * config.grid[1] * config.grid[2], config.cooperative};
}

}  // namespace

CudaLaunches::~CudaLaunches() {
  if (!is_shared() || idle_stream_.load() == nullptr) return;
  Enter();
  api_->p_cuStreamDestroy(idle_stream_.load());
}

CudaResult CudaLaunches::Launch(KernelId kernel, const LaunchConfig& config,
                                absl::Span<const std::byte> params, StreamId stream) {
  Enter();
  size_t bytes = params.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                   const_cast<std::byte*>(params.data()),  // The driver only reads it.
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  void** const packed = bytes > 0 ? extra : nullptr;
  if (config.cooperative || !config.attributes.empty()) {
    return IssueTo(
        stream,
        [&](CUstream on) {
          NativeLaunch native(config, gate(), on);
          return api_->p_cuLaunchKernelEx(native.config(), NativeFunction(kernel), nullptr, packed);
        },
        WorkOf(config));
  }
  return IssueTo(
      stream,
      [&](CUstream on) {
        return api_->p_cuLaunchKernel(
            NativeFunction(kernel), config.grid[0], config.grid[1], config.grid[2], config.block[0],
            config.block[1], config.block[2], config.dynamic_shared_bytes, on, nullptr, packed);
      },
      WorkOf(config));
}

CudaResult CudaLaunches::Params(KernelId kernel, std::vector<ParamLayout>* params) {
  Enter();
  for (size_t i = 0;; ++i) {
    size_t offset = 0;
    size_t size = 0;
    const CUresult result = api_->p_cuKernelGetParamInfo(Native(kernel), i, &offset, &size);
    // This is the documented way to learn that there are no more.
    if (result == CUDA_ERROR_INVALID_VALUE) return CudaResult::kSuccess;
    if (result != CUDA_SUCCESS) return ToResult(result);
    params->push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(size)});
  }
}

CudaResult CudaLaunches::GetKernelAttribute(KernelId kernel, int attribute, int* value) {
  Enter();
  return ToResult(api_->p_cuKernelGetAttribute(value, static_cast<CUfunction_attribute>(attribute),
                                               Native(kernel), device_));
}

CudaResult CudaLaunches::SetKernelAttribute(KernelId kernel, int attribute, int value) {
  Enter();
  return ToResult(api_->p_cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value,
                                               Native(kernel), device_));
}

CudaResult CudaLaunches::MaxActiveBlocks(KernelId kernel, int block_threads,
                                         size_t dynamic_shared_bytes, uint32_t flags, int* blocks) {
  Enter();
  return ToResult(api_->p_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, NativeFunction(kernel), block_threads, dynamic_shared_bytes, flags));
}

CudaResult CudaLaunches::MaxActiveClusters(KernelId kernel, const LaunchConfig& config,
                                           int* clusters) {
  Enter();
  NativeLaunch native(config, gate(), nullptr);
  return ToResult(
      api_->p_cuOccupancyMaxActiveClusters(clusters, NativeFunction(kernel), native.config()));
}

CudaResult CudaLaunches::MaxClusterSize(KernelId kernel, const LaunchConfig& config, int* size) {
  Enter();
  NativeLaunch native(config, gate(), nullptr);
  return ToResult(
      api_->p_cuOccupancyMaxPotentialClusterSize(size, NativeFunction(kernel), native.config()));
}

CudaResult CudaLaunches::GetLimit(int limit, uint64_t* value) {
  Enter();
  size_t native = 0;
  const CUresult result = api_->p_cuCtxGetLimit(&native, static_cast<CUlimit>(limit));
  *value = native;
  return ToResult(result);
}

CudaResult CudaLaunches::SetLimit(int limit, uint64_t value) {
  Enter();
  if (is_shared()) {
    // A limit is everybody's, and setting one waits for everybody's kernels.
    uint64_t now = 0;
    const CudaResult found = GetLimit(limit, &now);
    if (found != CudaResult::kSuccess) return found;
    return value <= now ? CudaResult::kSuccess : CudaResult::kNotSupported;
  }
  return ToResult(api_->p_cuCtxSetLimit(static_cast<CUlimit>(limit), value));
}

// A synchronization writes out what complete kernels printed, even that of a stream on which
// nothing runs. Unlike a synchronization of the context, it does not wait for the other streams.
CudaResult CudaLaunches::FlushOutput() {
  Enter();
  CUstream idle = idle_stream_.load();
  if (idle == nullptr) {
    const CUresult created = api_->p_cuStreamCreateWithPriority(&idle, CU_STREAM_NON_BLOCKING, 0);
    if (created != CUDA_SUCCESS) return ToResult(created);
    CUstream none = nullptr;
    if (!idle_stream_.compare_exchange_strong(none, idle)) {
      api_->p_cuStreamDestroy(idle);
      idle = none;
    }
  }
  return ToResult(api_->p_cuStreamSynchronize(idle));
}

}  // namespace warpline::device
