#include "server/gpu_server/memory/device_memory.h"

#include <signal.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
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

TEST_F(DeviceMemoryTest, NorAreTheContextsOfTheGuardedTier) {
  DeviceMemoryOptions options = Options();
  options.shared_contexts = 2;
  EXPECT_EQ(MustOpen(options)->capacity_bytes(), 256 * kMiB) << "nothing of the CPU device";
  options.reserve_bytes = 100 * kMiB;
  options.shared_context_bytes = 30 * kMiB;
  const auto memory = MustOpen(options);
  EXPECT_EQ(memory->shared_contexts_bytes(), 60 * kMiB);
  EXPECT_EQ(memory->capacity_bytes(), 96 * kMiB);
}

TEST_F(DeviceMemoryTest, WhatIsClaimedIsNotHandedOut) {
  const auto memory = MustOpen(Options());
  const auto claim = [&](uint64_t bytes) {
    std::promise<bool> claimed;
    memory->Claim(bytes, [&](bool result) { claimed.set_value(result); });
    return claimed.get_future().get();
  };
  EXPECT_TRUE(claim(100 * kMiB));
  EXPECT_FALSE(claim(158 * kMiB));
  EXPECT_EQ(memory->stats().pool.claimed_bytes, 100 * kMiB);
  EXPECT_EQ(TotalBytes(*Take(memory.get(), 2 * kMiB, 1024 * kMiB)), 156 * kMiB);
  memory->Unclaim(100 * kMiB);
  memory->Drain();
  EXPECT_EQ(memory->stats().pool.claimed_bytes, 0u);
}

TEST_F(DeviceMemoryTest, TheStockIsMadeAhead) {
  const auto memory = MustOpen(Options());
  memory->Drain();
  // A 32nd part of the device.
  EXPECT_EQ(memory->stats().pool.stock_bytes, 8 * kMiB);
  const auto chunks = Take(memory.get(), 2 * kMiB, 2 * kMiB);
  ASSERT_TRUE(chunks.ok());
  memory->Drain();
  EXPECT_EQ(memory->stats().pool.stock_bytes, 6 * kMiB);
}

TEST_F(DeviceMemoryTest, ReturnedChunksAreClosed) {
  const auto memory = MustOpen(Options());
  auto chunks = Take(memory.get(), 66 * kMiB, 66 * kMiB);
  ASSERT_TRUE(chunks.ok());
  EXPECT_EQ(memory->stats().pool.granted_bytes, 66 * kMiB);
  memory->Return(std::move(*chunks), {});
  memory->Drain();
  EXPECT_EQ(memory->stats().pool.granted_bytes, 0u);
  EXPECT_EQ(memory->stats().pool.leaving_bytes, 0u);
  EXPECT_EQ(memory->stats().pool.stock_bytes, 8 * kMiB);
}

// A device that says how much is free.
class CountedDeviceMemoryTest : public DeviceMemoryTest {
 protected:
  void SetFree(int mib) {
    // In one step, since the keeper may be reading.
    std::ofstream(path_ + ".new") << mib;
    rename((path_ + ".new").c_str(), path_.c_str());
  }
  DeviceMemoryOptions Options() {
    DeviceMemoryOptions options = DeviceMemoryTest::Options();
    options.keeper.program.args.push_back(absl::StrCat("--free_file=", path_));
    return options;
  }
  // Takes 200 MiB of 256, and returns them while the device says that only so much is free.
  void TakeAndReturn(DeviceMemory* memory, int free_mib) {
    SetFree(256);
    auto chunks = Take(memory, 200 * kMiB, 200 * kMiB);
    ASSERT_TRUE(chunks.ok());
    SetFree(free_mib);
    std::vector<Reservation> bill;
    bill.push_back(quota_->Reserve(200 * kMiB, 200 * kMiB, 1));
    memory->Return(std::move(*chunks), std::move(bill));
    while (memory->stats().pool.granted_bytes > 0) std::this_thread::yield();
  }

  const std::string path_ = testing::TempDir() + "/free";
  const std::shared_ptr<Quota> quota_ = Quota::Create(256 * kMiB);
};

TEST_F(CountedDeviceMemoryTest, TellsWhatOthersHave) {
  SetFree(200);
  const auto memory = MustOpen(Options());
  memory->Drain();
  const auto others = [&] {
    std::promise<std::optional<uint64_t>> read;
    memory->ReadOthers([&](std::optional<uint64_t> bytes) { read.set_value(bytes); });
    return read.get_future().get();
  };
  // The keeper counts as little as it is told.
  const uint64_t stock = memory->stats().pool.stock_bytes;
  EXPECT_EQ(others(), 56 * kMiB - stock);
  SetFree(180);
  EXPECT_EQ(others(), 76 * kMiB - stock);
}

TEST_F(CountedDeviceMemoryTest, ARequestWaitsUntilReturnedMemoryIsFree) {
  DeviceMemoryOptions options = Options();
  options.patience = absl::Seconds(60);
  const auto memory = MustOpen(options);
  TakeAndReturn(memory.get(), 56);
  std::promise<absl::StatusOr<std::vector<Chunk>>> answered;
  auto answer = answered.get_future();
  memory->Take(200 * kMiB, 200 * kMiB, [&](absl::StatusOr<std::vector<Chunk>> chunks) {
    answered.set_value(std::move(chunks));
  });
  absl::Notification settled;
  memory->AfterReturns([&] { settled.Notify(); });
  // What fits is served meanwhile.
  std::promise<absl::StatusOr<std::vector<Chunk>>> served;
  memory->Take(2 * kMiB, 2 * kMiB, [&](absl::StatusOr<std::vector<Chunk>> chunks) {
    served.set_value(std::move(chunks));
  });
  EXPECT_TRUE(served.get_future().get().ok());
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_FALSE(settled.HasBeenNotified());
  EXPECT_TRUE(memory->settling());
  // What the keeper makes meanwhile is taken for what has come back: the device's word is fixed.
  constexpr uint64_t kMostMade = 20 * kMiB;
  EXPECT_GE(memory->stats().pool.leaving_bytes, 200 * kMiB - kMostMade);
  EXPECT_GE(quota_->used_bytes(), 200 * kMiB - kMostMade);
  SetFree(256);
  const auto taken = answer.get();
  EXPECT_TRUE(taken.ok()) << taken.status();
  settled.WaitForNotification();
  EXPECT_FALSE(memory->settling());
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(CountedDeviceMemoryTest, WhatDoesNotComeBackIsRefusedAndStaysOnTheBill) {
  DeviceMemoryOptions options = Options();
  options.patience = absl::Milliseconds(1);
  const auto memory = MustOpen(options);
  TakeAndReturn(memory.get(), 0);
  EXPECT_EQ(Take(memory.get(), 200 * kMiB, 200 * kMiB).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(memory->stats().pool.stuck_bytes, 200 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 200 * kMiB);
  SetFree(256);
  while (quota_->used_bytes() > 0) std::this_thread::yield();
  EXPECT_TRUE(Take(memory.get(), 200 * kMiB, 200 * kMiB).ok());
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
