// Tests a worker's process on CPU devices: readers, whose memory goes to the right device, and
// sessions.
#include "server/worker/host/host_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/log/log.h"
#include "common/log/log_capture.h"
#include "gtest/gtest.h"
#include "proto/devices.h"
#include "server/device/device.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kChunk = 2u << 20;
constexpr uint64_t kArenaBytes = 4ull << 30;
constexpr uint64_t kPart = DeviceArenaBytes(kArenaBytes, 2);
constexpr uint64_t kSession = 7;
constexpr uint64_t kArenaBase = 0x300000000000;

UniqueFd Memory(uint64_t bytes, const std::string& contents) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(pwrite(fd.get(), contents.data(), contents.size(), 0),
            static_cast<ssize_t>(contents.size()));
  return fd;
}

warpline_internal::OpenWorker OpenOn(const std::vector<int>& ordinals) {
  warpline_internal::OpenWorker open;
  open.set_backend("cpu:2");
  open.set_ordinal(ordinals[0]);
  for (size_t i = 1; i < ordinals.size(); ++i) open.add_more_ordinals(ordinals[i]);
  open.set_session(kSession);
  open.set_reader(true);
  open.set_arena_base(kArenaBase);
  open.set_arena_bytes(kArenaBytes);
  return open;
}

absl::Status Open(const warpline_internal::OpenWorker& open, HostProcess* process) {
  absl::Status opened = absl::UnknownError("it was not said");
  process->Open(open, {},
                [&](const absl::Status& status, const ProcessSession*) { opened = status; });
  return opened;
}

CudaResult Map(uint64_t va, const std::vector<uint64_t>& chunks, HostProcess* process,
               const std::string& contents = "") {
  warpline_internal::MapMemory map;
  map.set_va(va);
  std::vector<UniqueFd> fds;
  for (const uint64_t bytes : chunks) {
    map.add_chunk_bytes(bytes);
    fds.push_back(Memory(kChunk, contents));
  }
  CudaResult result = CudaResult::kUnknown;
  process->Ask(kSession, [&](ProcessSession* session) {
    result = session == nullptr ? CudaResult::kIllegalState : session->memory->Map(map, fds);
  });
  return result;
}

std::string Read(uint64_t va, uint64_t bytes, HostProcess* process, CudaResult* result) {
  warpline_internal::ReadMemory read;
  read.set_va(va);
  read.set_bytes(bytes);
  std::vector<UniqueFd> fds;
  fds.push_back(Memory(bytes, ""));
  process->Ask(kSession,
               [&](ProcessSession* session) { *result = session->memory->Read(read, fds); });
  std::string text(bytes, '\0');
  EXPECT_EQ(pread(fds[0].get(), text.data(), bytes, 0), static_cast<ssize_t>(bytes));
  return text;
}

// CPU devices that do not tell how many multiprocessors they have.
class SilentBackend : public device::Backend {
 public:
  static absl::StatusOr<std::unique_ptr<device::Backend>> Open(const std::string& name,
                                                               bool fails) {
    auto backend = device::OpenBackend(name);
    if (!backend.ok()) return backend.status();
    return std::make_unique<SilentBackend>(*std::move(backend), fails);
  }

  SilentBackend(std::unique_ptr<device::Backend> backend, bool fails)
      : backend_(std::move(backend)), fails_(fails) {}

  int DeviceCount() override { return backend_->DeviceCount(); }
  absl::StatusOr<int> Find(int ordinal, const std::string& pci_bus_id) override {
    return backend_->Find(ordinal, pci_bus_id);
  }
  absl::StatusOr<device::DeviceInfo> Info(int ordinal) override {
    if (fails_) return absl::UnavailableError("no answer");
    auto info = backend_->Info(ordinal);
    if (info.ok()) info->attributes.clear();
    return info;
  }
  absl::StatusOr<std::vector<std::unique_ptr<device::Context>>> OpenContexts(
      absl::Span<const int> ordinals) override {
    return backend_->OpenContexts(ordinals);
  }
  absl::StatusOr<std::unique_ptr<device::SharedDevice>> OpenShared(
      int ordinal, const device::SharedDeviceOptions& options) override {
    return backend_->OpenShared(ordinal, options);
  }
  absl::StatusOr<std::unique_ptr<device::ChunkSource>> OpenChunkSource(int ordinal) override {
    return backend_->OpenChunkSource(ordinal);
  }

 private:
  const std::unique_ptr<device::Backend> backend_;
  const bool fails_;
};

TEST(HostProcessTest, MemoryIsTheDevicesInWhosePartItLies) {
  HostProcess process({});
  EXPECT_EQ(Map(kArenaBase, {kChunk}, &process), CudaResult::kIllegalState);
  ASSERT_TRUE(Open(OpenOn({1, 0}), &process).ok());
  ASSERT_EQ(process.Peers().size(), 2u);
  EXPECT_EQ(Map(kArenaBase, {kChunk}, &process, "first"), CudaResult::kSuccess);
  EXPECT_EQ(Map(kArenaBase + kPart, {kChunk, kChunk}, &process, "second"), CudaResult::kSuccess);
  CudaResult result;
  EXPECT_EQ(Read(kArenaBase, 5, &process, &result), "first");
  EXPECT_EQ(result, CudaResult::kSuccess);
  EXPECT_EQ(Read(kArenaBase + kPart + kChunk, 6, &process, &result), "second");
  EXPECT_EQ(result, CudaResult::kSuccess);
  warpline_internal::UnmapMemory unmap;
  unmap.set_va(kArenaBase);
  unmap.add_chunk_bytes(kChunk);
  process.Ask(kSession, [&](ProcessSession* session) {
    EXPECT_EQ(session->memory->Unmap(unmap), CudaResult::kSuccess);
  });
  Read(kArenaBase, 5, &process, &result);
  EXPECT_EQ(result, CudaResult::kInvalidValue);
}

TEST(HostProcessTest, AQuietOneSaysNothing) {
  LogCapture log;
  HostProcess process({});
  warpline_internal::OpenWorker open = OpenOn({0});
  open.set_quiet(true);
  LogInfo("before");
  ASSERT_TRUE(Open(open, &process).ok());
  LogError("after");
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(log.LinesWith("before").size(), 1u);
  EXPECT_EQ(log.LinesWith("after").size(), 0u);
}

TEST(HostProcessTest, NothingIsMappedBesideTheDevicesParts) {
  HostProcess process({});
  ASSERT_TRUE(Open(OpenOn({0, 1}), &process).ok());
  for (const uint64_t va :
       {kArenaBase - kChunk, kArenaBase + kPart - kChunk, kArenaBase + kArenaBytes - kChunk,
        kArenaBase + kArenaBytes, uint64_t{0}, ~uint64_t{0} - kChunk}) {
    EXPECT_EQ(Map(va, {kChunk, kChunk}, &process), CudaResult::kInvalidValue) << va;
  }
  EXPECT_EQ(Map(kArenaBase, {~uint64_t{0}, kChunk}, &process), CudaResult::kInvalidValue);
  CudaResult result;
  Read(kArenaBase + kPart - 4, 8, &process, &result);
  EXPECT_EQ(result, CudaResult::kInvalidValue);
  EXPECT_EQ(Open(OpenOn({0, 1}), &process).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(HostProcessTest, TheDevicesAreThoseThatItWasPreparedFor) {
  HostProcess process({});
  warpline_internal::PrepareWorker prepare;
  prepare.set_backend("cpu:2");
  prepare.set_ordinal(1);
  ASSERT_TRUE(process.Prepare(prepare).ok());
  EXPECT_TRUE(process.Prepare(prepare).ok());
  EXPECT_EQ(Open(OpenOn({1, 0}), &process).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(HostProcessTest, WhereTheDriverDoesNotShareTheDeviceByMpsItIsOfNoUse) {
  HostProcess process({});
  warpline_internal::PrepareWorker prepare;
  prepare.set_backend("cpu:2");
  prepare.set_mps(true);
  EXPECT_EQ(process.Prepare(prepare).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Map(kArenaBase, {kChunk}, &process), CudaResult::kIllegalState);
}

TEST(HostProcessTest, AShareOfAnUnknownNumberOfMultiprocessorsIsRefused) {
  for (const bool fails : {false, true}) {
    for (const uint32_t percent : {0u, 50u, 100u}) {
      HostProcess::Options options;
      options.open_backend = [fails](const std::string& name) {
        return SilentBackend::Open(name, fails);
      };
      HostProcess process(std::move(options));
      warpline_internal::OpenWorker open = OpenOn({0});
      open.set_sm_percent(percent);
      EXPECT_EQ(Open(open, &process).ok(), percent != 50) << percent;
    }
  }
  HostProcess process({});
  warpline_internal::OpenWorker open = OpenOn({0});
  open.set_sm_percent(50);
  EXPECT_TRUE(Open(open, &process).ok());
}

TEST(HostProcessTest, DevicesAreNamedOnceAndAreThere) {
  for (const std::vector<int>& ordinals : std::vector<std::vector<int>>{{0, 0}, {0, 2}, {-1}}) {
    HostProcess process({});
    EXPECT_FALSE(Open(OpenOn(ordinals), &process).ok());
    EXPECT_EQ(Map(kArenaBase, {kChunk}, &process), CudaResult::kIllegalState);
  }
  HostProcess process({});
  EXPECT_FALSE(Open(OpenOn(std::vector<int>(17, 0)), &process).ok());
}

}  // namespace
}  // namespace warpline::worker
