// Chooses among the backends of server/device.
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/device/cpu/cpu_backend.h"
#include "server/device/cuda/cuda_backend.h"
#include "server/device/device.h"

namespace warpline::device {
namespace {

constexpr int kMaxCpuDevices = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::string_view name) {
  if (name == "cuda") return NewCudaBackend();
  if (name == "cpu") return NewCpuBackend(1);
  absl::string_view count(name.data(), name.size());
  if (int devices; absl::ConsumePrefix(&count, "cpu:") && absl::SimpleAtoi(count, &devices) &&
                   devices >= 1 && devices <= kMaxCpuDevices) {
    return NewCpuBackend(devices);
  }
  if (name == "auto") {
    auto cuda = NewCudaBackend();
    if (cuda.ok() && (*cuda)->DeviceCount() > 0) return cuda;
    return NewCpuBackend(1);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device \"", std::string(name), "\": expected auto, cuda, cpu or cpu:N"));
}

}  // namespace warpline::device
