#include "server/device/testing/fake_backend.h"

#include <string>

#include "server/device/cpu/memory/memfd_chunks.h"

namespace warpline::device {
namespace {

class FakeChunkSource : public cpu::MemfdChunks {
 public:
  explicit FakeChunkSource(const FakeBackendOptions& options) : options_(options) {}

  absl::StatusOr<UniqueFd> CreateChunk(uint64_t bytes) override {
    const auto free = FreeBytes();
    if (free.ok() && free->value_or(bytes) < bytes) {
      return absl::ResourceExhaustedError("no memory is free");
    }
    return MemfdChunks::CreateChunk(bytes);
  }

  absl::StatusOr<std::optional<uint64_t>> FreeBytes() override {
    if (options_.free_bytes == nullptr) return std::optional<uint64_t>();
    return options_.free_bytes();
  }

 private:
  const FakeBackendOptions options_;
};

class FakeBackend : public Backend {
 public:
  explicit FakeBackend(const FakeBackendOptions& options) : options_(options) {}

  int DeviceCount() override { return options_.device_count; }

  absl::StatusOr<int> Find(int ordinal, const std::string& /*pci_bus_id*/) override {
    return ordinal;
  }
  absl::StatusOr<DeviceInfo> Info(int ordinal) override {
    if (ordinal < 0 || ordinal >= options_.device_count) return absl::NotFoundError("no device");
    DeviceInfo info;
    info.name = "Fake device";
    info.uuid[0] = static_cast<uint8_t>(ordinal + 1);
    info.total_bytes = options_.total_bytes;
    info.driver_version = 13000;
    info.pci_bus_id = "0000:00:00.0";
    info.attributes.emplace_back(1, 1024);
    // CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
    info.attributes.emplace_back(88, options_.pageable_access ? 1 : 0);
    return info;
  }

  absl::StatusOr<std::vector<std::unique_ptr<Context>>> OpenContexts(
      absl::Span<const int>) override {
    return absl::UnimplementedError("the fake device executes nothing");
  }

  absl::StatusOr<std::unique_ptr<SharedDevice>> OpenShared(int,
                                                           const SharedDeviceOptions&) override {
    return absl::UnimplementedError("the fake device executes nothing");
  }

  absl::StatusOr<std::unique_ptr<ChunkSource>> OpenChunkSource(int) override {
    return std::unique_ptr<ChunkSource>(new FakeChunkSource(options_));
  }

 private:
  const FakeBackendOptions options_;
};

}  // namespace

std::unique_ptr<Backend> NewFakeBackend(const FakeBackendOptions& options) {
  return std::make_unique<FakeBackend>(options);
}

}  // namespace warpline::device
