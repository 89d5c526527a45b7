#include "server/memory/device_memory.h"

#include <signal.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr uint64_t kMiB = 1ull << 20;

class DeviceMemoryTest : public testing::Test {
 protected:
  DeviceMemoryTest() { SetLogLevel(LogLevel::kError); }

  DeviceMemoryOptions Options() {
    DeviceMemoryOptions options;
    options.keeper.program.path = absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                                               "/server/keeper/fake_keeper");
    options.keeper.program.args = {"--total_mib=256"};
    return options;
  }

  std::unique_ptr<DeviceMemory> MustOpen(const DeviceMemoryOptions& options) {
    auto memory = DeviceMemory::Open(options);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.ok() ? std::move(*memory) : nullptr;
  }

  // Blocks until the answer is there.
  absl::StatusOr<std::vector<Chunk>> Take(DeviceMemory* memory, uint64_t min_bytes,
                                          uint64_t want_bytes) {
    std::optional<absl::StatusOr<std::vector<Chunk>>> answer;
    memory->Take(min_bytes, want_bytes,
                 [&](absl::StatusOr<std::vector<Chunk>> chunks) { answer = std::move(chunks); });
    memory->Drain();
    return std::move(*answer);
  }
};

TEST_F(DeviceMemoryTest, OpensTheDeviceThatAutoFinds) {
  const auto memory = MustOpen(Options());
  EXPECT_EQ(memory->backend(), "cpu");
  EXPECT_EQ(memory->note(), "no driver here");
  EXPECT_EQ(memory->info().name(), "Fake device");
  EXPECT_EQ(memory->capacity_bytes(), 256 * kMiB);
}

TEST_F(DeviceMemoryTest, ReserveIsNotHandedOut) {
  DeviceMemoryOptions options = Options();
  options.reserve_bytes = 100 * kMiB;
  const auto memory = MustOpen(options);
  const auto chunks = Take(memory.get(), 2 * kMiB, 1024 * kMiB);
  ASSERT_TRUE(chunks.ok());
  EXPECT_EQ(TotalBytes(*chunks), 156 * kMiB);
}

TEST_F(DeviceMemoryTest, ReturnedChunksAreScrubbedInTheBackground) {
  const auto memory = MustOpen(Options());
  auto chunks = Take(memory.get(), 66 * kMiB, 66 * kMiB);
  ASSERT_TRUE(chunks.ok());
  EXPECT_EQ(memory->stats().pool.granted_bytes, 66 * kMiB);
  memory->Return(std::move(*chunks));
  memory->Drain();
  EXPECT_EQ(memory->stats().pool.granted_bytes, 0u);
  EXPECT_EQ(memory->stats().pool.pooled_bytes, 66 * kMiB);
}

TEST_F(DeviceMemoryTest, IdlePoolGoesBackToTheDevice) {
  DeviceMemoryOptions options = Options();
  options.pool_idle = absl::Milliseconds(1);
  const auto memory = MustOpen(options);
  auto chunks = Take(memory.get(), 66 * kMiB, 66 * kMiB);
  ASSERT_TRUE(chunks.ok());
  memory->Return(std::move(*chunks));
  while (memory->stats().pool.chunks > 0) std::this_thread::yield();
  EXPECT_EQ(memory->stats().pool.pooled_bytes, 0u);
}

TEST_F(DeviceMemoryTest, GrantedChunksSurviveTheKeeper) {
  const auto memory = MustOpen(Options());
  auto chunks = Take(memory.get(), 2 * kMiB, 2 * kMiB);
  ASSERT_TRUE(chunks.ok());
  const pid_t first = memory->keeper_pid();
  ASSERT_EQ(kill(first, SIGKILL), 0);
  while (memory->stats().keeper_restarts == 0) std::this_thread::yield();
  EXPECT_NE(memory->keeper_pid(), first);
  EXPECT_EQ(memory->stats().pool.granted_bytes, 2 * kMiB);
  EXPECT_TRUE(Take(memory.get(), 2 * kMiB, 2 * kMiB).ok());
}

TEST_F(DeviceMemoryTest, MissingProgramDeviceAndBackendAreReported) {
  DeviceMemoryOptions options = Options();
  options.keeper.program.path = "/no/such/keeper";
  EXPECT_EQ(DeviceMemory::Open(options).status().code(), absl::StatusCode::kNotFound);
  options = Options();
  options.keeper.ordinal = 3;
  EXPECT_EQ(DeviceMemory::Open(options).status().code(), absl::StatusCode::kNotFound);
  options = Options();
  options.keeper.backend = "cuda";
  EXPECT_EQ(DeviceMemory::Open(options).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace warpline::server
