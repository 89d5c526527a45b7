#include "server/gpu_server/memory/host_segments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "proto/frames.h"

namespace warpline::server {
namespace {

using warpline_internal::HostMemoryRequest;
using warpline_internal::MemoryDone;
using warpline_internal::ToWorker;

class HostSegmentsTest : public ::testing::Test, private WorkerLink {
 protected:
  HostSegmentsTest() { segments_.SetTenantQuota(tenant_quota_); }

  static constexpr uint64_t kPage = kHostPageBytes;

  void Ask(uint64_t va, uint64_t bytes, bool give_back = false, bool outlives = false) {
    HostMemoryRequest request;
    request.set_outlives(outlives);
    request.set_va(va);
    request.set_bytes(bytes);
    request.set_give_back(give_back);
    segments_.Request(request, [this](const HostSegments::Result& given) {
      const int fd = given.fd;
      results_.push_back(given.result);
      if (!given.why.empty()) refusals_.push_back(given.why);
      if (fd >= 0) fd_ = UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
      struct stat file = {};
      sizes_.push_back(fd >= 0 && fstat(fd, &file) == 0 ? static_cast<uint64_t>(file.st_size) : 0);
    });
  }
  absl::Status Done(uint64_t id, CudaResult result = CudaResult::kSuccess) {
    MemoryDone done;
    done.set_id(id);
    done.set_error(static_cast<int>(result));
    return segments_.OnDone(done);
  }

  WorkerLink* worker_link() { return this; }

  // WorkerLink.
  absl::Status Send(const ToWorker& message, absl::Span<const int>) override {
    sent_.push_back(message);
    return absl::OkStatus();
  }

  std::vector<std::string> refusals_;
  std::vector<ToWorker> sent_;
  std::vector<CudaResult> results_;
  std::vector<uint64_t> sizes_;
  UniqueFd fd_;  // The client's, of the last segment.
  std::shared_ptr<Quota> quota_ = Quota::Create(16 * kPage);
  std::shared_ptr<Quota> tenant_quota_ = Quota::Create(16 * kPage);
  HostSegments segments_{quota_, this};
};

TEST_F(HostSegmentsTest, ClientGetsTheSegmentOnceTheWorkerHasIt) {
  Ask(kHostArenaBase, 2 * kPage);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].host().va(), kHostArenaBase);
  EXPECT_TRUE(results_.empty());
  ASSERT_TRUE(Done(sent_[0].host().id()).ok());
  EXPECT_EQ(results_, std::vector{CudaResult::kSuccess});
  EXPECT_EQ(sizes_, std::vector{2 * kPage});
  EXPECT_EQ(quota_->used_bytes(), 2 * kPage);
  EXPECT_FALSE(Done(sent_[0].host().id()).ok());
}

TEST_F(HostSegmentsTest, ATenantHasItsPartOfTheQuota) {
  const Reservation siblings = tenant_quota_->Reserve(12 * kPage, 12 * kPage, 1);
  Ask(kHostArenaBase, 8 * kPage);
  EXPECT_EQ(results_, std::vector{CudaResult::kOutOfMemory});
  ASSERT_EQ(refusals_.size(), 1u);
  EXPECT_TRUE(absl::StrContains(refusals_[0], "the host memory of its tenant")) << refusals_[0];
  EXPECT_EQ(quota_->used_bytes(), 0u);
  Ask(kHostArenaBase, 4 * kPage);
  ASSERT_TRUE(Done(sent_[0].host().id()).ok());
  EXPECT_EQ(results_.back(), CudaResult::kSuccess);
  EXPECT_EQ(tenant_quota_->used_bytes(), 16 * kPage);
  segments_.End();
  EXPECT_EQ(tenant_quota_->used_bytes(), 12 * kPage);
}

TEST_F(HostSegmentsTest, WhatIsGivenBackIsEmptyWhoeverHasIt) {
  Ask(kHostArenaBase, 2 * kPage);
  ASSERT_TRUE(Done(sent_[0].host().id()).ok());
  auto* const bytes = static_cast<char*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
  ASSERT_NE(bytes, MAP_FAILED);
  bytes[0] = bytes[kPage] = 7;
  Ask(kHostArenaBase, 2 * kPage, /*give_back=*/true);
  ASSERT_TRUE(Done(sent_[1].host().id()).ok());
  struct stat file = {};
  ASSERT_EQ(fstat(fd_.get(), &file), 0);
  EXPECT_EQ(file.st_blocks, 0);
  EXPECT_EQ(bytes[0], 0);
  munmap(bytes, 2 * kPage);
}

TEST_F(HostSegmentsTest, WhatOutlivesTheSessionKeepsItsBytesAndItsChargeUntilTheClientIsGone) {
  Ask(kHostArenaBase, 2 * kPage, /*give_back=*/false, /*outlives=*/true);
  ASSERT_TRUE(Done(sent_[0].host().id()).ok());
  auto* const bytes = static_cast<char*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
  ASSERT_NE(bytes, MAP_FAILED);
  bytes[0] = 7;
  Ask(kHostArenaBase + 4 * kPage, kPage);
  KeptSegments kept = segments_.End();
  EXPECT_EQ(bytes[0], 7);
  EXPECT_EQ(quota_->used_bytes(), 2 * kPage);
  EXPECT_FALSE(kept.GiveBack(kHostArenaBase, kPage));
  EXPECT_FALSE(kept.GiveBack(kHostArenaBase + 4 * kPage, kPage));
  EXPECT_EQ(bytes[0], 7);
  // The server's own end leaves it alone.
  { const KeptSegments at_the_end = std::move(kept); }
  EXPECT_EQ(bytes[0], 7);
  EXPECT_EQ(quota_->used_bytes(), 0u);
  munmap(bytes, 2 * kPage);
}

TEST_F(HostSegmentsTest, WhatOutlivedTheSessionIsEmptyOnceItIsGivenBackOrTheClientIsGone) {
  char* bytes[2];
  for (const uint64_t i : {0, 1}) {
    Ask(kHostArenaBase + i * kPage, kPage, /*give_back=*/false, /*outlives=*/true);
    ASSERT_TRUE(Done(sent_[i].host().id()).ok());
    bytes[i] =
        static_cast<char*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
    ASSERT_NE(bytes[i], MAP_FAILED);
    *bytes[i] = 7;
  }
  KeptSegments kept = segments_.End();
  EXPECT_TRUE(kept.GiveBack(kHostArenaBase, kPage));
  EXPECT_EQ(*bytes[0], 0);
  EXPECT_EQ(*bytes[1], 7);
  EXPECT_EQ(quota_->used_bytes(), kPage);
  kept.EmptyAll();
  EXPECT_TRUE(kept.empty());
  EXPECT_EQ(*bytes[1], 0);
  EXPECT_EQ(quota_->used_bytes(), 0u);
  for (char* const page : bytes) munmap(page, kPage);
}

TEST_F(HostSegmentsTest, WhatIsHandedOverStaysAsItIsAndAnotherSessionHasIt) {
  Ask(kHostArenaBase, 2 * kPage, /*give_back=*/false, /*outlives=*/true);
  ASSERT_TRUE(Done(sent_[0].host().id()).ok());
  // The client asks for this one again, elsewhere.
  Ask(kHostArenaBase + 8 * kPage, kPage);
  EXPECT_TRUE(segments_.has_requests());
  const std::vector<HostSegments::Shared> shown = segments_.Show();
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0].va, kHostArenaBase);
  EXPECT_EQ(shown[0].bytes, 2 * kPage);
  EXPECT_TRUE(shown[0].outlives);
  auto* const bytes = static_cast<char*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
  ASSERT_NE(bytes, MAP_FAILED);
  bytes[kPage] = 7;
  segments_.SetHandedOver(true);
  EXPECT_TRUE(segments_.End().empty());
  EXPECT_EQ(bytes[kPage], 7);
  EXPECT_EQ(quota_->used_bytes(), 0u);
  EXPECT_EQ(results_, std::vector{CudaResult::kSuccess}) << "nothing else is answered";

  HostSegments next(quota_, worker_link());
  next.SetTenantQuota(tenant_quota_);
  next.Suspend();
  EXPECT_TRUE(absl::IsInvalidArgument(
      next.Adopt(kHostArenaBase, kPage, true, UniqueFd(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)))))
      << "another size";
  ASSERT_TRUE(
      next.Adopt(kHostArenaBase, 2 * kPage, true, UniqueFd(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)))
          .ok());
  EXPECT_EQ(quota_->used_bytes(), 2 * kPage);
  EXPECT_EQ(bytes[kPage], 7);
  next.End().EmptyAll();
  EXPECT_EQ(bytes[kPage], 0) << "it outlived that session, and was emptied";
  munmap(bytes, 2 * kPage);
}

TEST_F(HostSegmentsTest, MemoryThatIsTakenBackIsEmptiedAtTheEndAsBefore) {
  Ask(kHostArenaBase, kPage);
  ASSERT_TRUE(Done(sent_[0].host().id()).ok());
  segments_.SetHandedOver(true);
  segments_.SetHandedOver(false);
  segments_.End();
  struct stat file = {};
  ASSERT_EQ(fstat(fd_.get(), &file), 0);
  EXPECT_EQ(file.st_blocks, 0);
}

TEST_F(HostSegmentsTest, WhatIsNoRangeIsRefusedAndNothingIsSent) {
  Ask(kHostArenaBase - kPage, 2 * kPage);
  Ask(kHostArenaBase + kHostArenaBytes - kPage, 2 * kPage);
  Ask(kHostArenaBase + 1, kPage);
  Ask(kHostArenaBase, 100);
  Ask(kHostArenaBase, 0);
  Ask(kHostArenaBase, kPage, /*give_back=*/true);
  EXPECT_EQ(results_, std::vector(6, CudaResult::kInvalidValue));
  EXPECT_TRUE(refusals_.empty());
  tenant_quota_ = Quota::Create(32 * kPage);
  segments_.SetTenantQuota(tenant_quota_);
  Ask(kHostArenaBase, 17 * kPage);
  EXPECT_EQ(results_.back(), CudaResult::kOutOfMemory);
  ASSERT_EQ(refusals_.size(), 1u);
  EXPECT_TRUE(absl::StrContains(refusals_[0], "with all clients")) << refusals_[0];
  EXPECT_TRUE(sent_.empty());
  EXPECT_EQ(quota_->used_bytes(), 0u);
  Ask(kHostArenaBase + kPage, 2 * kPage);
  Ask(kHostArenaBase, 2 * kPage);
  EXPECT_EQ(results_.back(), CudaResult::kInvalidValue);
}

TEST_F(HostSegmentsTest, WhatAFailedSessionAskedForIsAnswered) {
  Ask(kHostArenaBase, kPage);
  segments_.Abandon();
  EXPECT_EQ(results_, std::vector{CudaResult::kLaunchFailed});
  Ask(kHostArenaBase + 4 * kPage, kPage);
  EXPECT_EQ(sent_.size(), 1u);
  segments_.End();
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(HostSegmentsTest, WhatTheWorkerCannotMapIsGone) {
  Ask(kHostArenaBase, kPage);
  ASSERT_TRUE(Done(1, CudaResult::kOutOfMemory).ok());
  EXPECT_EQ(results_, std::vector{CudaResult::kOutOfMemory});
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(HostSegmentsTest, GivenBackMemoryIsFreeOnceTheWorkerHasItNoLonger) {
  Ask(kHostArenaBase, kPage);
  ASSERT_TRUE(Done(1).ok());
  Ask(kHostArenaBase, kPage, /*give_back=*/true);
  EXPECT_TRUE(sent_.back().host().unmap());
  EXPECT_EQ(quota_->used_bytes(), kPage);
  // Not twice.
  Ask(kHostArenaBase, kPage, /*give_back=*/true);
  EXPECT_EQ(results_.back(), CudaResult::kInvalidValue);
  ASSERT_TRUE(Done(2).ok());
  EXPECT_EQ(results_.back(), CudaResult::kSuccess);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(HostSegmentsTest, TheNextWorkerGetsEverythingAndAnswersWhatTheFormerDidNot) {
  Ask(kHostArenaBase, kPage);
  ASSERT_TRUE(Done(1).ok());
  Ask(kHostArenaBase + kPage, kPage);
  segments_.Suspend();
  Ask(kHostArenaBase + 2 * kPage, kPage);
  EXPECT_EQ(sent_.size(), 2u);
  segments_.MapAgain();
  ASSERT_EQ(sent_.size(), 5u);
  EXPECT_EQ(results_.size(), 1u);
  for (size_t i = 2; i < 5; ++i) ASSERT_TRUE(Done(sent_[i].host().id()).ok());
  EXPECT_EQ(results_, std::vector(3, CudaResult::kSuccess));
}

TEST_F(HostSegmentsTest, ASessionWhoseNextWorkerCannotMapThemIsOver) {
  Ask(kHostArenaBase, kPage);
  ASSERT_TRUE(Done(1).ok());
  segments_.Suspend();
  segments_.MapAgain();
  EXPECT_EQ(Done(2, CudaResult::kOutOfMemory).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace warpline::server
