#include "server/device/cpu/cpu_backend.h"

#include "absl/status/status.h"
#include "server/device/cpu/cpu_context.h"
#include "server/device/cpu/device_info.h"
#include "server/device/cpu/memfd_chunks.h"

namespace warpline::device {
namespace {

class CpuBackend : public Backend {
 public:
  int DeviceCount() override { return 1; }

  absl::StatusOr<DeviceInfo> Info(int ordinal) override {
    if (ordinal != 0) return absl::InvalidArgumentError("no such device");
    return cpu::DescribeHost();
  }

  absl::StatusOr<std::unique_ptr<Context>> OpenContext(int ordinal) override {
    if (ordinal != 0) return absl::InvalidArgumentError("no such device");
    return std::make_unique<cpu::CpuContext>(cpu::HostCores());
  }

  absl::StatusOr<std::unique_ptr<ChunkSource>> OpenChunkSource(int ordinal) override {
    if (ordinal != 0) return absl::InvalidArgumentError("no such device");
    return std::make_unique<cpu::MemfdChunks>();
  }
};

}  // namespace

std::unique_ptr<Backend> NewCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace warpline::device
