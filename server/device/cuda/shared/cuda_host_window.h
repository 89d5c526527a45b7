// Memory of the host that a shared GPU reaches by copies: a mapped file, which is registered with
// the driver at a quiet moment.
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
  // See SharedDevice::OpenWindow(). All arguments are borrowed; `context` is the device's context.
  static absl::StatusOr<std::unique_ptr<CudaHostWindow>> Open(const DriverApi* api,
                                                              CUcontext context,
                                                              QuietMoments* moments, int fd,
                                                              uint64_t bytes);
  // Does not wait for a quiet moment: the process ends, or no session has been opened.
  ~CudaHostWindow() override;

  void* host() const override { return host_; }
  uint64_t bytes() const override { return bytes_; }
  absl::Status Replace(int fd) override;

 private:
  CudaHostWindow(const DriverApi* api, CUcontext context, QuietMoments* moments, uint64_t bytes)
      : api_(api), context_(context), moments_(moments), bytes_(bytes) {}

  // Maps a file, without locking its pages.
  absl::StatusOr<void*> Map(int fd) const;
  // Has the driver lock the mapped pages. A context must be current.
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
