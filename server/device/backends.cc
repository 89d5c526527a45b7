// Chooses among the backends of server/device.
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/device/cpu/cpu_backend.h"
#include "server/device/cuda/cuda_backend.h"
#include "server/device/device.h"

namespace warpline::device {

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view name) {
  if (name == "cuda") return NewCudaBackend();
  if (name == "cpu") return NewCpuBackend();
  if (name == "auto") {
    auto cuda = NewCudaBackend();
    if (cuda.ok() && (*cuda)->DeviceCount() > 0) return cuda;
    return NewCpuBackend();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device \"", std::string(name), "\": expected auto, cuda or cpu"));
}

}  // namespace warpline::device
