#include "server/device/cpu/cpu_backend.h"

#include <utility>

#include "absl/status/status.h"
#include "server/device/cpu/context/cpu_context.h"
#include "server/device/cpu/machine/device_info.h"
#include "server/device/cpu/memory/memfd_chunks.h"

namespace warpline::device {
namespace {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int devices) : devices_(devices) {}

  int DeviceCount() override { return devices_; }

  absl::StatusOr<int> Find(int ordinal, const std::string& /*pci_bus_id*/) override {
    return ordinal;
  }
  absl::StatusOr<DeviceInfo> Info(int ordinal) override {
    if (!Has(ordinal)) return absl::InvalidArgumentError("no such device");
    return cpu::DescribeHost(ordinal, devices_);
  }

  absl::StatusOr<std::vector<std::unique_ptr<Context>>> OpenContexts(
      absl::Span<const int> ordinals) override {
    for (const int ordinal : ordinals) {
      if (!Has(ordinal)) return absl::InvalidArgumentError("no such device");
    }
    std::vector<std::unique_ptr<Context>> contexts;
    const auto group = std::make_shared<cpu::CpuGroup>(ordinals.size(), devices_);
    for (uint32_t i = 0; i < ordinals.size(); ++i) {
      contexts.push_back(std::make_unique<cpu::CpuContext>(
          std::make_unique<cpu::CpuShared>(cpu::HostCores(), group, i)));
    }
    return contexts;
  }

  absl::StatusOr<std::unique_ptr<ChunkSource>> OpenChunkSource(int ordinal) override {
    if (!Has(ordinal)) return absl::InvalidArgumentError("no such device");
    return std::make_unique<cpu::MemfdChunks>();
  }

 private:
  bool Has(int ordinal) const { return ordinal >= 0 && ordinal < devices_; }

  const int devices_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> NewCpuBackend(int devices) {
  return std::make_unique<CpuBackend>(devices);
}

}  // namespace warpline::device
