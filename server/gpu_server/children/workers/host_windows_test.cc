#include "server/gpu_server/children/workers/host_windows.h"

#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr uint64_t kBytes = 8192;

class HostWindowsTest : public ::testing::Test {
 protected:
  struct Sent {
    warpline_internal::ReplaceWindow window;
    bool with_file = false;
  };

  HostWindows& Make(size_t count) {
    control_loop.AssertOnLoop();
    return windows_.emplace(HostWindowsOptions{count, kBytes, quota_},
                            [this](const warpline_internal::ToWorker& message,
                                   absl::Span<const int> fds) -> absl::Status {
                              if (full_) return absl::ResourceExhaustedError("full");
                              sent_.push_back({message.window(), !fds.empty()});
                              return absl::OkStatus();
                            });
  }
  // The process has done what it was asked for last.
  absl::Status Done(uint32_t number, CudaResult result = CudaResult::kSuccess) {
    control_loop.AssertOnLoop();
    warpline_internal::WindowDone done;
    done.set_number(number);
    done.set_error(static_cast<int>(result));
    return windows_->OnDone(done);
  }

  std::shared_ptr<Quota> quota_ = Quota::Create(4 * kBytes);
  bool full_ = false;
  std::vector<Sent> sent_;
  std::optional<HostWindows> windows_;
};

TEST_F(HostWindowsTest, AreTakenOnceTheProcessHasThem) {
  HostWindows& windows = Make(2);
  EXPECT_EQ(windows.Start(), 2u);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_TRUE(sent_[0].with_file);
  EXPECT_EQ(sent_[0].window.bytes(), kBytes);
  EXPECT_EQ(quota_->used_bytes(), 2 * kBytes);
  EXPECT_FALSE(windows.Take());
  ASSERT_TRUE(Done(1).ok());
  const auto window = windows.Take();
  ASSERT_TRUE(window);
  EXPECT_EQ(window->number, 1u);
  EXPECT_FALSE(windows.Take());
  EXPECT_TRUE(absl::IsInvalidArgument(Done(1)));
  EXPECT_TRUE(absl::IsInvalidArgument(Done(7)));
}

// Whoever had a window may have kept its file, and a mapping of it.
TEST_F(HostWindowsTest, AFileGoesToOneSessionOnly) {
  HostWindows& windows = Make(1);
  windows.Start();
  ASSERT_TRUE(Done(1).ok());
  const auto first = windows.Take();
  ASSERT_TRUE(first);
  windows.GiveBack(1);
  EXPECT_FALSE(windows.Take()) << "the process has not replaced it";
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_TRUE(sent_[1].with_file);
  ASSERT_TRUE(Done(1).ok());
  const auto second = windows.Take();
  ASSERT_TRUE(second);
  EXPECT_NE(first->file, second->file);
  ASSERT_EQ(pwrite(first->file->get(), "secret", 6, 0), 6);
  char read[6] = {1};
  ASSERT_EQ(pread(second->file->get(), read, 6, 0), 6);
  EXPECT_EQ(read[0], 0);
  EXPECT_EQ(quota_->used_bytes(), kBytes);
}

TEST_F(HostWindowsTest, AClientCannotChangeTheSizeOfItsFile) {
  HostWindows& windows = Make(1);
  windows.Start();
  ASSERT_TRUE(Done(1).ok());
  const auto window = windows.Take();
  ASSERT_TRUE(window);
  EXPECT_NE(ftruncate(window->file->get(), 0), 0);
  EXPECT_NE(ftruncate(window->file->get(), 2 * kBytes), 0);
}

TEST_F(HostWindowsTest, OneThatCameAlongTakesTheRoomOfAnother) {
  HostWindows& windows = Make(1);
  windows.Start();
  ASSERT_TRUE(Done(1).ok());
  const HostWindow former = {9, kBytes, std::make_shared<const UniqueFd>(dup(0))};
  const auto brought = windows.Bring(former);
  ASSERT_TRUE(brought);
  EXPECT_EQ(brought->number, 2u);
  EXPECT_EQ(brought->file, former.file);
  EXPECT_EQ(quota_->used_bytes(), 2 * kBytes);
  EXPECT_EQ(sent_.size(), 1u) << "the session sends the file itself";
  windows.GiveBack(2);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1].window.number(), 2u);
  EXPECT_FALSE(sent_[1].with_file);
  EXPECT_EQ(quota_->used_bytes(), 2 * kBytes) << "until the process has let go of it";
  ASSERT_TRUE(Done(2).ok());
  EXPECT_EQ(quota_->used_bytes(), kBytes);
  EXPECT_EQ(windows.free(), 1u);
}

TEST_F(HostWindowsTest, AreFewerWhereThereIsNoRoom) {
  const Reservation others = quota_->Reserve(kBytes, kBytes, 1);
  HostWindows& windows = Make(5);
  EXPECT_EQ(windows.Start(), 3u);
  windows.Clear();
  EXPECT_EQ(quota_->used_bytes(), kBytes);
}

TEST_F(HostWindowsTest, WhatTheProcessCannotLockIsNoWindow) {
  HostWindows& windows = Make(2);
  windows.Start();
  EXPECT_TRUE(absl::IsResourceExhausted(Done(1, CudaResult::kOutOfMemory)));
  EXPECT_EQ(quota_->used_bytes(), kBytes);
  ASSERT_TRUE(Done(2).ok());
  ASSERT_TRUE(windows.Take());
  full_ = true;
  windows.GiveBack(2);
  windows.GiveBack(2);
  EXPECT_FALSE(windows.Take());
}

}  // namespace
}  // namespace warpline::server
