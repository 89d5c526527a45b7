#include "server/gpu_server/memory/session_window.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "common/sealed_memory.h"
#include "gtest/gtest.h"
#include "memory/quota.h"
#include "proto/frames.h"

namespace warpline::server {
namespace {

using warpline_internal::HostMemoryRequest;
using warpline_internal::ToWorker;

constexpr uint64_t kBytes = 16 * kHostPageBytes;

class SessionWindowTest : public ::testing::Test, private WorkerLink, private HostWindowSource {
 protected:
  void SetUp() override {
    auto file = NewSealedMemory("window", kBytes);
    ASSERT_TRUE(file.ok());
    file_ = std::make_shared<const UniqueFd>(*std::move(file));
    free_ = HostWindow{3, kBytes, file_};
  }

  static HostMemoryRequest RequestAt(uint64_t va) {
    HostMemoryRequest request;
    request.set_va(va);
    request.set_bytes(4 * kHostPageBytes);
    request.set_staging(true);
    return request;
  }
  void Ask(const HostMemoryRequest& request) {
    control_loop.AssertOnLoop();
    window_.Request(request, [this](const HostSegments::Result& result) {
      results_.push_back(result.result);
      why_ = result.why;
      fd_ = result.fd;
    });
  }
  absl::Status Done(uint64_t id, CudaResult result = CudaResult::kSuccess) {
    control_loop.AssertOnLoop();
    EXPECT_TRUE(window_.Awaits(id));
    warpline_internal::MemoryDone done;
    done.set_id(id);
    done.set_error(static_cast<int>(result));
    return window_.OnDone(done);
  }
  bool IsEmpty() {
    char byte = 1;
    return pread(file_->get(), &byte, 1, 0) == 1 && byte == 0;
  }

  // WorkerLink.
  absl::Status Send(const ToWorker& message, absl::Span<const int> fds) override {
    sent_.push_back(message.host());
    files_.push_back(fds.size());
    return absl::OkStatus();
  }
  // HostWindowSource.
  std::optional<HostWindow> TakeWindow() override { return std::exchange(free_, std::nullopt); }
  std::optional<HostWindow> BringWindow(const HostWindow& former) override {
    if (!has_room_) return std::nullopt;
    return HostWindow{8, former.bytes, former.file};
  }

  std::shared_ptr<const UniqueFd> file_;
  std::optional<HostWindow> free_;
  bool has_room_ = true;
  std::vector<warpline_internal::HostSegment> sent_;
  std::vector<size_t> files_;
  std::vector<CudaResult> results_;
  std::string why_;
  int fd_ = -1;
  SessionWindow window_{this, this};
};

TEST_F(SessionWindowTest, TheClientGetsItsFileOnceTheWorkerShowsIt) {
  Ask(RequestAt(kHostArenaBase));
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].window(), 3u);
  EXPECT_EQ(sent_[0].va(), kHostArenaBase);
  EXPECT_EQ(sent_[0].bytes(), kBytes);
  EXPECT_EQ(files_[0], 0u) << "the process has it";
  EXPECT_TRUE(results_.empty());
  ASSERT_TRUE(Done(sent_[0].id()).ok());
  EXPECT_EQ(results_, std::vector{CudaResult::kSuccess});
  EXPECT_EQ(fd_, file_->get());
  control_loop.AssertOnLoop();
  EXPECT_EQ(window_.bytes(), kBytes);
  EXPECT_FALSE(window_.Awaits(sent_[0].id()));
}

TEST_F(SessionWindowTest, ASessionHasOne) {
  Ask(RequestAt(kHostArenaBase));
  ASSERT_TRUE(Done(sent_[0].id()).ok());
  free_ = HostWindow{4, kBytes, file_};
  Ask(RequestAt(kHostArenaBase + kBytes));
  EXPECT_EQ(results_.back(), CudaResult::kOutOfMemory);
  EXPECT_EQ(why_, "");
  EXPECT_TRUE(free_);
}

TEST_F(SessionWindowTest, WhoFindsNoneIsToldWhy) {
  free_.reset();
  Ask(RequestAt(kHostArenaBase));
  EXPECT_EQ(results_, std::vector{CudaResult::kOutOfMemory});
  EXPECT_NE(why_.find("no host window is free"), std::string::npos);
  EXPECT_TRUE(sent_.empty());
}

TEST_F(SessionWindowTest, ItCountsAgainstTheLeasesStaging) {
  control_loop.AssertOnLoop();
  const auto quota = Quota::Create(kBytes + kHostPageBytes);
  window_.SetTenantQuota(quota, kBytes);
  Ask(RequestAt(kHostArenaBase));
  EXPECT_TRUE(Done(sent_.back().id()).ok());
  EXPECT_EQ(results_, std::vector<CudaResult>{CudaResult::kSuccess});
  EXPECT_EQ(quota->used_bytes(), kBytes);
  window_.End();
  EXPECT_EQ(quota->used_bytes(), 0u);
}

TEST_F(SessionWindowTest, WhoHasNoStagingLeftTakesNoWindow) {
  control_loop.AssertOnLoop();
  const auto quota = Quota::Create(kBytes);
  const Reservation others = quota->Reserve(kHostPageBytes, kHostPageBytes, kHostPageBytes);
  window_.SetTenantQuota(quota, kBytes);
  Ask(RequestAt(kHostArenaBase));
  EXPECT_EQ(results_, std::vector<CudaResult>{CudaResult::kOutOfMemory});
  EXPECT_NE(why_.find("staging"), std::string::npos) << why_;
  EXPECT_TRUE(free_.has_value());
  EXPECT_EQ(quota->used_bytes(), kHostPageBytes);
  // Where there is no window, nothing is held for it.
  const auto plenty = Quota::Create(8 * kBytes);
  window_.SetTenantQuota(plenty, kBytes);
  free_.reset();
  Ask(RequestAt(kHostArenaBase));
  EXPECT_EQ(plenty->used_bytes(), 0u);
}

TEST_F(SessionWindowTest, RefusesPlacesThatAreNone) {
  Ask(RequestAt(0x1000));
  Ask(RequestAt(kHostArenaBase + 1));
  HostMemoryRequest request = RequestAt(kHostArenaBase);
  request.set_give_back(true);
  Ask(request);
  request = RequestAt(kHostArenaBase);
  request.set_outlives(true);
  Ask(request);
  EXPECT_TRUE(free_);
  Ask(RequestAt(kHostArenaBase + kHostArenaBytes - kBytes + kHostPageBytes));
  EXPECT_EQ(results_, std::vector(5, CudaResult::kInvalidValue));
  EXPECT_TRUE(sent_.empty());
}

TEST_F(SessionWindowTest, TheNextWorkerGetsTheFile) {
  Ask(RequestAt(kHostArenaBase));
  ASSERT_TRUE(Done(sent_[0].id()).ok());
  ASSERT_EQ(pwrite(file_->get(), "x", 1, 0), 1);
  control_loop.AssertOnLoop();
  window_.Suspend();
  window_.MapAgain();
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1].window(), 8u);
  EXPECT_EQ(sent_[1].va(), kHostArenaBase);
  EXPECT_EQ(files_[1], 1u);
  ASSERT_TRUE(Done(sent_[1].id()).ok());
  EXPECT_EQ(results_.size(), 1u);
  EXPECT_FALSE(IsEmpty()) << "what waits is copied from there";
}

TEST_F(SessionWindowTest, WhoWaitsIsAnsweredByTheNextWorker) {
  Ask(RequestAt(kHostArenaBase));
  control_loop.AssertOnLoop();
  window_.Suspend();
  window_.MapAgain();
  EXPECT_FALSE(window_.Awaits(sent_[0].id()));
  ASSERT_TRUE(Done(sent_[1].id()).ok());
  EXPECT_EQ(results_, std::vector{CudaResult::kSuccess});
}

TEST_F(SessionWindowTest, WithoutItTheSessionDoesNotGoOn) {
  Ask(RequestAt(kHostArenaBase));
  ASSERT_TRUE(Done(sent_[0].id()).ok());
  control_loop.AssertOnLoop();
  window_.Suspend();
  window_.MapAgain();
  EXPECT_EQ(Done(sent_[1].id(), CudaResult::kNotReady).code(), absl::StatusCode::kAborted);
}

TEST_F(SessionWindowTest, OneThatTheWorkerRefusesIsNone) {
  Ask(RequestAt(kHostArenaBase));
  ASSERT_TRUE(Done(sent_[0].id(), CudaResult::kInvalidValue).ok());
  EXPECT_EQ(results_, std::vector{CudaResult::kOutOfMemory});
  control_loop.AssertOnLoop();
  EXPECT_EQ(window_.bytes(), 0u);
}

TEST_F(SessionWindowTest, AtTheEndItIsEmptied) {
  Ask(RequestAt(kHostArenaBase));
  ASSERT_TRUE(Done(sent_[0].id()).ok());
  ASSERT_EQ(pwrite(file_->get(), "x", 1, 0), 1);
  control_loop.AssertOnLoop();
  window_.End();
  EXPECT_TRUE(IsEmpty());
  Ask(RequestAt(kHostArenaBase));
  EXPECT_EQ(results_.back(), CudaResult::kOutOfMemory);
}

TEST_F(SessionWindowTest, WhoWaitsAtTheEndIsTold) {
  Ask(RequestAt(kHostArenaBase));
  control_loop.AssertOnLoop();
  window_.Abandon();
  EXPECT_EQ(results_, std::vector{CudaResult::kLaunchFailed});
  window_.End();
  EXPECT_EQ(results_.size(), 1u);
}

}  // namespace
}  // namespace warpline::server
