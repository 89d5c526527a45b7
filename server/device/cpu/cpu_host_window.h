// Memory of the host that a shared CPU device reaches: a file that is mapped, and nothing else.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CPU_HOST_WINDOW_H_
#define WARPLINE_SERVER_DEVICE_CPU_CPU_HOST_WINDOW_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/device/device.h"

namespace warpline::device {

// Thread-compatible.
class CpuHostWindow : public HostWindow {
 public:
  // RESOURCE_EXHAUSTED where the file cannot be mapped.
  static absl::StatusOr<std::unique_ptr<CpuHostWindow>> Open(int fd, uint64_t bytes);
  ~CpuHostWindow() override { Unmap(); }

  void* host() const override { return host_; }
  uint64_t bytes() const override { return bytes_; }
  absl::Status Replace(int fd) override;

 private:
  explicit CpuHostWindow(uint64_t bytes) : bytes_(bytes) {}
  void Unmap();

  const uint64_t bytes_;
  void* host_ = nullptr;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CPU_CPU_HOST_WINDOW_H_
