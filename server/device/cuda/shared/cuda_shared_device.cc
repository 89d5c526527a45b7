#include "server/device/cuda/shared/cuda_shared_device.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "common/log/log.h"
#include "server/device/cuda/cuda_group.h"
#include "server/device/cuda/shared/cuda_host_window.h"
#include "server/device/cuda/shared/cuda_share.h"
#include "server/device/cuda/shared/cuda_shared_context.h"
#include "server/device/cuda/shared/session_streams.h"

namespace warpline::device {
namespace {

// Makes a context current for a scope, and leaves the thread's own as it is.
class Pushed {
 public:
  Pushed(const DriverApi* api, CUcontext context)
      : api_(api), result_(api->p_cuCtxPushCurrent(context)) {}
  ~Pushed() {
    CUcontext popped = nullptr;
    if (result_ == CUDA_SUCCESS) api_->p_cuCtxPopCurrent(&popped);
  }
  Pushed(const Pushed&) = delete;
  Pushed& operator=(const Pushed&) = delete;

  absl::Status status() const { return StatusFromCudaResult(ToResult(result_), "context"); }

 private:
  const DriverApi* const api_;
  const CUresult result_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SharedDevice>> CudaSharedDevice::Open(
    const DriverApi* api, int ordinal, const SharedDeviceOptions& options) {
  CUdevice device = 0;
  CUresult result = api->p_cuDeviceGet(&device, ordinal);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuDeviceGet");
  CUcontext context = nullptr;
  result = api->p_cuDevicePrimaryCtxRetain(&context, device);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "primary context");
  auto shared = absl::WrapUnique(new CudaSharedDevice(api, ordinal, device, context));
  const absl::Status made = shared->MakeShares(options);
  if (!made.ok()) return made;
  return shared;
}

absl::Status CudaSharedDevice::MakeShares(const SharedDeviceOptions& options) {
  const Pushed pushed(api_, context_);
  if (!pushed.status().ok()) return pushed.status();
  CUresult result = api_->p_cuCtxSetLimit(CU_LIMIT_STACK_SIZE, options.local_bytes);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "local memory");
  const uint64_t host_bytes = options.staging_bytes + kZeroBytes;
  result = api_->p_cuMemHostAlloc(&staging_memory_, host_bytes, CU_MEMHOSTALLOC_PORTABLE);
  if (result != CUDA_SUCCESS) {
    staging_memory_ = nullptr;
    return StatusFromCudaResult(ToResult(result), "staging memory");
  }
  // The driver does not say what it holds.
  std::memset(staging_memory_, 0, host_bytes);
  zeros_ = {static_cast<const std::byte*>(staging_memory_) + options.staging_bytes, kZeroBytes};
  staging_.emplace(staging_memory_, options.staging_bytes);
  local_bytes_ = options.local_bytes;
  green_.emplace(api_, device_);
  planner_.emplace(green_->slots());
  moments_.emplace(api_);
  int minor = 0;
  api_->p_cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_);
  // Data-centre GPUs (8.0, 9.0, 10.0) have the units; others do one for 64.
  if (minor != 0) double_ratio_ = 64;
  auto cublas = CublasLibrary::Open(api_);
  if (cublas.ok()) {
    cublas_ = *std::move(cublas);
    LogInfo("cuBLAS ", cublas_->version(), " executes calls of guarded sessions");
  } else if (!absl::IsNotFound(cublas.status())) {
    LogWarning("guarded sessions have no cuBLAS: ", std::string(cublas.status().message()));
  }
  return absl::OkStatus();
}

CudaSharedDevice::~CudaSharedDevice() {
  {
    const Pushed pushed(api_, context_);
    cublas_.reset();
    moments_.reset();
    planner_.reset();
    green_.reset();
    staging_.reset();
    if (staging_memory_ != nullptr) api_->p_cuMemFreeHost(staging_memory_);
  }
  api_->p_cuDevicePrimaryCtxRelease(device_);
}

absl::StatusOr<std::unique_ptr<Context>> CudaSharedDevice::OpenContext(
    const SharedContextOptions& options) {
  if (!Memory::IsSinkGranule(options.sink_granule_bytes)) {
    return absl::InvalidArgumentError("not a granule of sinks");
  }
  auto group = CudaGroup::Open(api_, {&ordinal_, 1});
  if (!group.ok()) return group.status();
  // The driver knows the memory of all sessions; only what is named is this one's.
  (*group)->gate().LimitVariables();
  (*group)->gate().LimitAttributes();
  auto share = std::make_unique<CudaShare>();
  share->staging = &*staging_;
  share->zeros = zeros_;
  share->contexts = &*green_;
  share->cublas = cublas_.get();
  share->double_ratio = double_ratio_;
  share->local_bytes = local_bytes_;
  share->sink_granule_bytes = options.sink_granule_bytes;
  share->session = planner_->Join({.most = options.multiprocessors,
                                   .weight = options.weight,
                                   .niceness = options.niceness,
                                   .group = options.share_group,
                                   .on_share = options.on_share});
  const Pushed pushed(api_, context_);
  if (!pushed.status().ok()) return pushed.status();
  auto streams =
      SessionStreams::Open(api_, &*green_, share->session.get(), &*moments_, options.on_overdue);
  if (!streams.ok()) return streams.status();
  share->streams = *std::move(streams);
  return std::make_unique<CudaSharedContext>(
      std::make_unique<CudaMember>(CudaMember{api_, *std::move(group), 0, std::move(share)}));
}

absl::StatusOr<std::unique_ptr<HostWindow>> CudaSharedDevice::OpenWindow(int fd, uint64_t bytes) {
  return CudaHostWindow::Open(api_, context_, &*moments_, fd, bytes);
}

void CudaSharedDevice::Look() {
  const Pushed pushed(api_, context_);
  if (!pushed.status().ok()) return;
  moments_->Look();
  planner_->Look();
}

}  // namespace warpline::device
