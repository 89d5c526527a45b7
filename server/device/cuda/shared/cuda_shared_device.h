// A GPU whose primary context many sessions share.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_DEVICE_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/libraries/cublas_library.h"
#include "server/device/cuda/shared/green_contexts.h"
#include "server/device/cuda/shared/quiet_moments.h"
#include "server/device/cuda/shared/share_planner.h"
#include "server/device/device.h"
#include "server/device/staging_pool.h"

namespace warpline::device {

// Thread-safe.
class CudaSharedDevice : public SharedDevice {
 public:
  // Retains the primary context, and makes staging memory and green contexts for all sessions.
  static absl::StatusOr<std::unique_ptr<SharedDevice>> Open(const DriverApi* api, int ordinal,
                                                            const SharedDeviceOptions& options);
  ~CudaSharedDevice() override;

  absl::StatusOr<std::unique_ptr<Context>> OpenContext(
      const SharedContextOptions& options) override;
  absl::StatusOr<std::unique_ptr<HostWindow>> OpenWindow(int fd, uint64_t bytes) override;
  void Look() override;

 private:
  // Size of the block of zeros from which memory of the device is filled.
  static constexpr uint64_t kZeroBytes = uint64_t{2} << 20;

  CudaSharedDevice(const DriverApi* api, int ordinal, CUdevice device, CUcontext context)
      : api_(api), ordinal_(ordinal), device_(device), context_(context) {}

  absl::Status MakeShares(const SharedDeviceOptions& options);

  const DriverApi* const api_;
  const int ordinal_;
  const CUdevice device_;
  const CUcontext context_;
  void* staging_memory_ = nullptr;  // The zeros are behind it.
  // Open() makes these; then they are constant.
  absl::Span<const std::byte> zeros_;
  std::optional<StagingPool> staging_;
  uint64_t local_bytes_ = 0;
  uint64_t double_ratio_ = 1;  // CudaShare::double_ratio
  std::optional<GreenContexts> green_;
  std::optional<SharePlanner> planner_;
  std::optional<QuietMoments> moments_;
  std::unique_ptr<CublasLibrary> cublas_;  // Null if NVIDIA's library is not here.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_DEVICE_H_
