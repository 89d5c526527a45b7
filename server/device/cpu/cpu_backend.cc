#include "server/device/cpu/cpu_backend.h"

#include <sys/mman.h>

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "server/device/cpu/context/cpu_context.h"
#include "server/device/cpu/cpu_host_window.h"
#include "server/device/cpu/libraries/blas_calls.h"
#include "server/device/cpu/machine/device_info.h"
#include "server/device/cpu/memory/memfd_chunks.h"
#include "server/device/staging_pool.h"

namespace warpline::device {
namespace {

// Each session has a group of its own, and so nothing of another's: the device's cores and staging
// memory are what they share.
class CpuSharedDevice : public SharedDevice {
 public:
  // Takes `staging_bytes` of memory at `staging`.
  CpuSharedDevice(int devices, void* staging, size_t staging_bytes)
      : devices_(devices),
        staging_(staging),
        staging_bytes_(staging_bytes),
        pool_(staging, staging_bytes) {}
  ~CpuSharedDevice() override { munmap(staging_, staging_bytes_); }

  absl::StatusOr<std::unique_ptr<Context>> OpenContext(
      const SharedContextOptions& options) override {
    if (!Memory::IsSinkGranule(options.sink_granule_bytes)) {
      return absl::InvalidArgumentError("not a granule of sinks");
    }
    const auto group = std::make_shared<cpu::CpuGroup>(1, devices_);
    group->gate.LimitVariables();
    group->gate.LimitAttributes();
    return std::make_unique<cpu::CpuSharedContext>(std::make_unique<cpu::CpuShared>(
        cpu::HostCores(), group, 0, &pool_, options.sink_granule_bytes));
  }
  absl::StatusOr<std::unique_ptr<HostWindow>> OpenWindow(int fd, uint64_t bytes) override {
    return CpuHostWindow::Open(fd, bytes);
  }
  // The host's scheduler divides its processors.
  void Look() override {}

 private:
  const int devices_;
  void* const staging_;
  const size_t staging_bytes_;
  StagingPool pool_;
};

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

  absl::StatusOr<std::unique_ptr<SharedDevice>> OpenShared(
      int ordinal, const SharedDeviceOptions& options) override {
    if (!Has(ordinal)) return absl::InvalidArgumentError("no such device");
    void* const staging = mmap(nullptr, options.staging_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (staging == MAP_FAILED) return absl::ResourceExhaustedError("no staging memory");
    return std::make_unique<CpuSharedDevice>(devices_, staging, options.staging_bytes);
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

void LoadCpuLibraries() { (void)cpu::Blas::Get(); }

absl::StatusOr<std::unique_ptr<Backend>> NewCpuBackend(int devices) {
  return std::make_unique<CpuBackend>(devices);
}

}  // namespace warpline::device
