// Memory of the host that a shared GPU reaches by copies: a file that is mapped, and registered
// with the driver at a quiet moment.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_HOST_WINDOW_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_HOST_WINDOW_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/shared/quiet_moments.h"
#include "server/device/device.h"

namespace warpline::device {

// Thread-compatible.
class CudaHostWindow : public HostWindow {
 public:
  // See SharedDevice::OpenWindow(). What is passed is borrowed, and `context` is that of the
  // device.
  static absl::StatusOr<std::unique_ptr<CudaHostWindow>> Open(const DriverApi* api,
                                                              CUcontext context,
                                                              QuietMoments* moments, int fd,
                                                              uint64_t bytes);
  // Whatever runs: the process ends, or nobody has opened a session.
  ~CudaHostWindow() override;

  void* host() const override { return host_; }
  uint64_t bytes() const override { return bytes_; }
  absl::Status Replace(int fd) override;

 private:
  CudaHostWindow(const DriverApi* api, CUcontext context, QuietMoments* moments, uint64_t bytes)
      : api_(api), context_(context), moments_(moments), bytes_(bytes) {}

  // Maps a file, without its pages being locked.
  absl::StatusOr<void*> Map(int fd) const;
  // Has the driver lock the pages of what is mapped. A context is current.
  CUresult Register(void* host) const;
  // Makes a call with the device's context.
  CUresult WithContext(absl::FunctionRef<CUresult()> call) const;

  const DriverApi* const api_;
  const CUcontext context_;
  QuietMoments* const moments_;
  const uint64_t bytes_;
  void* host_ = nullptr;  // Mapped and registered.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_HOST_WINDOW_H_
