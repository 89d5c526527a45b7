#include "server/gpu_server/memory/session_memory.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/memory/session_memory_fixture.h"

namespace warpline::server {
namespace {

TEST_F(SessionMemoryTest, GrantFollowsTheWorkersConfirmation) {
  Request(0, 2 * kMiB, 8 * kMiB);
  host_.Deliver(3);
  EXPECT_TRUE(host_.grants.empty());
  EXPECT_EQ(host_.sent.back().map().va(), kArena.base);
  EXPECT_EQ(host_.sent.back().map().chunk_bytes_size(), 3);
  EXPECT_EQ(host_.attached, 3u);
  EXPECT_TRUE(Done().ok());
  ASSERT_EQ(host_.grants.size(), 1u);
  EXPECT_EQ(host_.grants[0].bytes(), 6 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 6 * kMiB);
  EXPECT_EQ(host_.done, 1);
}

TEST_F(SessionMemoryTest, WhatTheWorkerTakesElsewhereCountsAgainstTheQuota) {
  EXPECT_EQ(memory_->Charge(1000 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(memory_->backed_bytes(), 1000 * kMiB);
  EXPECT_EQ(memory_->Charge(25 * kMiB), CudaResult::kOutOfMemory);
  Request(0, 32 * kMiB, 32 * kMiB);
  ASSERT_EQ(host_.grants.size(), 1u);
  EXPECT_EQ(host_.grants[0].error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_FALSE(memory_->Uncharge(999 * kMiB));
  EXPECT_TRUE(memory_->Uncharge(1000 * kMiB));
  EXPECT_FALSE(memory_->Uncharge(1000 * kMiB));
  EXPECT_EQ(quota_->used_bytes(), 0u);
  EXPECT_EQ(memory_->Charge(0), CudaResult::kInvalidValue);
  EXPECT_EQ(memory_->Charge(~uint64_t{0}), CudaResult::kOutOfMemory);
  EXPECT_EQ(memory_->Charge(64 * kMiB), CudaResult::kSuccess);
  memory_->End();
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, WhatItsWorkerTakesToOpenCountsUntilItsEnd) {
  const auto take = [&](uint64_t bytes) {
    absl::Status result = absl::UnknownError("not called");
    memory_->TakeOwn(bytes, [&](const absl::Status& status) { result = status; });
    return result;
  };
  host_.claimable = 100 * kMiB;
  EXPECT_TRUE(absl::IsResourceExhausted(take(1025 * kMiB))) << "of the quota";
  EXPECT_TRUE(absl::IsResourceExhausted(take(101 * kMiB))) << "of the device";
  EXPECT_EQ(quota_->used_bytes(), 0u);
  EXPECT_TRUE(take(82 * kMiB).ok());
  EXPECT_EQ(quota_->used_bytes(), 82 * kMiB);
  EXPECT_EQ(memory_->backed_bytes(), 82 * kMiB);
  EXPECT_EQ(host_.claimable, 18 * kMiB);
  memory_->End();
  EXPECT_EQ(quota_->used_bytes(), 0u);
  EXPECT_EQ(host_.claimable, 100 * kMiB);
}

TEST_F(SessionMemoryTest, WhatASessionHadIsOnItsBillUntilItIsFree) {
  host_.frees_late = true;
  Request(0, 8 * kMiB, 8 * kMiB);
  host_.Deliver(4);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(memory_->Charge(2 * kMiB), CudaResult::kSuccess);
  Return(0, 8 * kMiB);
  EXPECT_TRUE(Done().ok());
  Request(0, 2 * kMiB, 2 * kMiB);
  EXPECT_TRUE(Done().ok());
  memory_->End();
  EXPECT_EQ(host_.returned, 4u);
  EXPECT_EQ(quota_->used_bytes(), 10 * kMiB);
  host_.billed.clear();
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, WhatAFormerWorkerHadIsOnTheBillUntilItIsFree) {
  host_.frees_late = true;
  GrantAndReturn(4);
  memory_->Suspend();
  memory_->MapAgain(/*go_on=*/true, [](CudaResult) {});
  EXPECT_EQ(host_.returned, 4u);
  EXPECT_EQ(quota_->used_bytes(), 8 * kMiB);
  host_.billed.clear();
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, OneMessageCarriesAtMost200Chunks) {
  Request(0, 2 * kMiB, 500 * kMiB);
  host_.Deliver(250);
  EXPECT_EQ(host_.sent.back().map().chunk_bytes_size(), 200);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.sent.back().map().chunk_bytes_size(), 50);
  EXPECT_EQ(host_.sent.back().map().va(), kArena.base + 400 * kMiB);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 500 * kMiB);
  Return(0, 500 * kMiB);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.returned, 0u);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(memory_->kept_bytes(), 500 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 500 * kMiB);
  memory_->End();
  EXPECT_EQ(host_.returned, 250u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, ReturnedMemoryIsKeptForTheSameSession) {
  GrantAndReturn(4);
  EXPECT_EQ(memory_->backed_bytes(), 0u);
  for (int i = 0; i < 10; ++i) {
    // Elsewhere, and without asking anybody.
    Request(64 * kMiB, 2 * kMiB, 8 * kMiB);
    EXPECT_EQ(host_.sent.back().map().chunk_bytes_size(), 4);
    EXPECT_TRUE(Done().ok());
    EXPECT_EQ(memory_->kept_bytes(), 0u);
    Return(64 * kMiB, 8 * kMiB);
    EXPECT_TRUE(Done().ok());
    EXPECT_EQ(quota_->used_bytes(), 8 * kMiB);
  }
  EXPECT_EQ(host_.takes, 1);
  EXPECT_EQ(host_.returned, 0u);
}

TEST_F(SessionMemoryTest, WhatIsKeptIsToppedUp) {
  GrantAndReturn(2);
  Request(0, 6 * kMiB, 16 * kMiB);
  EXPECT_EQ(host_.asked_bytes, 12 * kMiB);
  host_.Deliver(3);
  EXPECT_EQ(host_.sent.back().map().chunk_bytes_size(), 5);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 10 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 10 * kMiB);
}

TEST_F(SessionMemoryTest, WhatIsKeptIsGrantedAloneIfItIsEnough) {
  GrantAndReturn(2);
  Request(0, 4 * kMiB, 16 * kMiB);
  host_.Refuse();
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 4 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 4 * kMiB);
}

TEST_F(SessionMemoryTest, RequestThatFailsLeavesWhatIsKept) {
  GrantAndReturn(2);
  Request(0, 8 * kMiB, 16 * kMiB);
  host_.Refuse();
  EXPECT_EQ(host_.grants.back().error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_EQ(host_.reclaims, 1);
  EXPECT_FALSE(host_.short_of_quota);
  EXPECT_EQ(memory_->kept_bytes(), 4 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 4 * kMiB);
}

TEST_F(SessionMemoryTest, RequestWaitsWhileOthersGiveUpWhatTheyKeep) {
  host_.can_reclaim = true;
  Reservation others = quota_->Reserve(1020 * kMiB, 1020 * kMiB, 1);
  Request(0, 8 * kMiB, 8 * kMiB);
  EXPECT_TRUE(host_.grants.empty());
  EXPECT_TRUE(host_.short_of_quota);
  others.ShrinkTo(0);
  std::exchange(host_.reclaimed, nullptr)(absl::OkStatus());
  host_.Deliver(4);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 8 * kMiB);
}

TEST_F(SessionMemoryTest, RequestTriesOnceToReclaim) {
  host_.can_reclaim = true;
  const Reservation others = quota_->Reserve(1020 * kMiB, 1020 * kMiB, 1);
  Request(0, 8 * kMiB, 8 * kMiB);
  Request(0, 2 * kMiB, 2 * kMiB);
  std::exchange(host_.reclaimed, nullptr)(absl::OkStatus());
  EXPECT_EQ(host_.grants.back().error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_EQ(host_.reclaims, 1);
  // The next one is served.
  host_.Deliver(1);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 2 * kMiB);
}

TEST_F(SessionMemoryTest, RequestIsTriedAgainAsLongAsMemoryComesBack) {
  host_.relief = {MemoryRelief::Kind::kReturning, {}};
  Reservation others = quota_->Reserve(1020 * kMiB, 1020 * kMiB, 1);
  Request(0, 8 * kMiB, 8 * kMiB);
  const absl::Time since = host_.seen.since;
  for (int i = 0; i < 3; ++i) {
    std::exchange(host_.waited, nullptr)(absl::OkStatus());
    EXPECT_EQ(host_.seen.since, since);
    EXPECT_EQ(host_.seen.waited, absl::ZeroDuration());
    EXPECT_FALSE(host_.seen.reclaimed);
  }
  EXPECT_TRUE(host_.grants.empty());
  others.ShrinkTo(1000 * kMiB);
  std::exchange(host_.waited, nullptr)(absl::OkStatus());
  host_.Deliver(4);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 8 * kMiB);
}

TEST_F(SessionMemoryTest, RequestWaitsAndFailsAsThePolicyWillHaveIt) {
  host_.relief = {MemoryRelief::Kind::kWaiting, absl::Milliseconds(300)};
  Reservation others = quota_->Reserve(1020 * kMiB, 1020 * kMiB, 1);
  Request(0, 8 * kMiB, 8 * kMiB);
  EXPECT_TRUE(host_.grants.empty());
  EXPECT_TRUE(host_.seen.of_quota);
  EXPECT_EQ(host_.seen.wanted_bytes, 8 * kMiB);
  EXPECT_EQ(host_.seen.used_bytes, 1020 * kMiB);
  EXPECT_EQ(host_.seen.quota_bytes, 1024 * kMiB);
  EXPECT_EQ(host_.seen.waited, absl::ZeroDuration());
  std::exchange(host_.waited, nullptr)(absl::OkStatus());
  EXPECT_TRUE(host_.grants.empty());
  EXPECT_EQ(host_.seen.waited, absl::Milliseconds(300));
  // Somebody has freed some.
  others.ShrinkTo(1000 * kMiB);
  std::exchange(host_.waited, nullptr)(absl::OkStatus());
  host_.Deliver(4);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 8 * kMiB);
  EXPECT_EQ(host_.reclaims, 0);
  host_.relief = {MemoryRelief::Kind::kRefused, {}};
  Request(8 * kMiB, 512 * kMiB, 512 * kMiB);
  EXPECT_EQ(host_.grants.back().error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_NE(host_.grants.back().message().find("policy"), std::string::npos);
}

TEST_F(SessionMemoryTest, WhoEndsWhileThePolicyHasItWaitIsForgotten) {
  host_.relief = {MemoryRelief::Kind::kWaiting, absl::Milliseconds(300)};
  const Reservation others = quota_->Reserve(1024 * kMiB, 1024 * kMiB, 1);
  Request(0, 8 * kMiB, 8 * kMiB);
  memory_->End();
  const size_t grants = host_.grants.size();
  std::exchange(host_.waited, nullptr)(absl::OkStatus());
  EXPECT_EQ(host_.grants.size(), grants);
}

TEST_F(SessionMemoryTest, LargeChunkThatIsKeptGoesToOthersWithItsWorker) {
  host_.can_reclaim = true;
  Request(0, 1024 * kMiB, 1024 * kMiB);
  host_.Deliver(1, 1024 * kMiB);
  EXPECT_TRUE(Done().ok());
  Return(0, 1024 * kMiB);
  EXPECT_TRUE(Done().ok());
  // Too large for this, and all of the quota.
  Request(0, 2 * kMiB, 64 * kMiB);
  ASSERT_TRUE(host_.reclaimed);
  memory_->Suspend();
  CudaResult mapped = CudaResult::kUnknown;
  memory_->MapAgain(/*go_on=*/true, [&](CudaResult result) { mapped = result; });
  EXPECT_EQ(mapped, CudaResult::kSuccess);
  EXPECT_EQ(host_.returned, 1u);
  std::exchange(host_.reclaimed, nullptr)(absl::OkStatus());
  host_.Deliver(1, 64 * kMiB);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 64 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 64 * kMiB);
}

TEST_F(SessionMemoryTest, WhatWasReturnedToADyingWorkerGoesToThePool) {
  Request(0, 2 * kMiB, 2 * kMiB);
  host_.Deliver(1);
  EXPECT_TRUE(Done().ok());
  Return(0, 2 * kMiB);
  memory_->Suspend();
  memory_->MapAgain(/*go_on=*/true, [](CudaResult) {});
  EXPECT_EQ(host_.returned, 1u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, RequestsAreServedOneAfterAnother) {
  Request(0, 2 * kMiB, 2 * kMiB);
  Request(64 * kMiB, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(host_.takes, 1);
  host_.Deliver(1);
  EXPECT_EQ(host_.takes, 1);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.takes, 2);
  host_.Deliver(1);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants[0].id(), 1u);
  EXPECT_EQ(host_.grants[1].id(), 2u);
}

TEST_F(SessionMemoryTest, QuotaIsAskedBeforeThePool) {
  Request(0, 2 * kMiB, 4096 * kMiB);
  EXPECT_EQ(host_.asked_bytes, 1024 * kMiB);
  host_.Deliver(200);
  EXPECT_TRUE(Done().ok());
  Request(4096 * kMiB, 1024 * kMiB, 1024 * kMiB);
  EXPECT_EQ(host_.takes, 1);
  EXPECT_EQ(host_.grants.back().error(), static_cast<int>(CudaResult::kOutOfMemory));
}

TEST_F(SessionMemoryTest, WithoutTheRightToMemoryNothingIsGranted) {
  memory_ = std::make_shared<SessionMemory>(
      SessionMemoryOptions{.arena = kArena,
                           .entitlement = {.rights = RightOf(Capability::kLaunch)}},
      quota_, host_.links());
  Request(0, 2 * kMiB, 8 * kMiB);
  ASSERT_EQ(host_.grants.size(), 1u);
  EXPECT_EQ(host_.grants[0].error(), static_cast<int>(CudaResult::kNotPermitted));
  EXPECT_EQ(host_.grants[0].bytes(), 0u);
  EXPECT_EQ(host_.takes, 0);
}

TEST_F(SessionMemoryTest, NumberOfChunksIsBounded) {
  Request(0, 2 * kMiB, 800 * kMiB);
  host_.Deliver(400);
  EXPECT_TRUE(Done().ok());
  EXPECT_TRUE(Done().ok());
  Request(2048 * kMiB, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(host_.grants.back().error(), static_cast<int>(CudaResult::kOutOfMemory));
}

TEST_F(SessionMemoryTest, TheQuotaIsHeldInAsManyChunksAsItHasPieces) {
  const auto quota = Quota::Create(1024 * kMiB, 5);
  memory_ = std::make_shared<SessionMemory>(
      SessionMemoryOptions{.arena = kArena, .max_chunks = 400}, quota, host_.links());
  Request(0, 6 * kMiB, 8 * kMiB);
  host_.Deliver(4);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 8 * kMiB);
  // The rest goes back as it came.
  Request(64 * kMiB, 2 * kMiB, 8 * kMiB);
  host_.Deliver(4);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 2 * kMiB);
  EXPECT_EQ(host_.unused, 3u);
  EXPECT_EQ(quota->used_bytes(), 10 * kMiB);
  Request(128 * kMiB, 2 * kMiB, 2 * kMiB);
  host_.Deliver(1);
  EXPECT_EQ(host_.grants.back().error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_EQ(host_.unused, 4u);
  memory_->End();
  EXPECT_EQ(quota->pieces()->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, PoolsFailureIsOutOfMemory) {
  Request(0, 2 * kMiB, 2 * kMiB);
  std::exchange(host_.pending, nullptr)(absl::UnavailableError("the keeper died"));
  EXPECT_EQ(host_.grants.back().error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, FailedMappingKeepsItsChunksFromOthersUntilTheEnd) {
  Request(0, 2 * kMiB, 2 * kMiB);
  host_.Deliver(1);
  EXPECT_TRUE(Done(2).ok());
  EXPECT_EQ(host_.grants.back().bytes(), 0u);
  EXPECT_EQ(host_.grants.back().error(), 2);
  EXPECT_EQ(host_.returned, 0u);
  EXPECT_EQ(quota_->used_bytes(), 2 * kMiB);
  memory_->End();
  EXPECT_EQ(host_.returned, 1u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, WhatWasMappedBeforeAFailureIsGrantedIfItIsEnough) {
  Request(0, 2 * kMiB, 500 * kMiB);
  host_.Deliver(250);
  EXPECT_TRUE(Done().ok());
  EXPECT_TRUE(Done(2).ok());
  EXPECT_EQ(host_.grants.back().bytes(), 400 * kMiB);
  EXPECT_EQ(host_.grants.back().error(), 0);
  memory_->End();
  EXPECT_EQ(host_.returned, 250u);
}

TEST_F(SessionMemoryTest, FailedUnmappingKeepsChunksAndQuotaUntilTheEnd) {
  Request(0, 2 * kMiB, 2 * kMiB);
  host_.Deliver(1);
  EXPECT_TRUE(Done().ok());
  Return(0, 2 * kMiB);
  EXPECT_TRUE(Done(700).ok());
  EXPECT_EQ(host_.returned, 0u);
  EXPECT_EQ(quota_->used_bytes(), 2 * kMiB);
  memory_->End();
  EXPECT_EQ(host_.returned, 1u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, AnswersThatNobodyAskedForAreRefused) {
  MemoryDone done;
  done.set_id(1);
  EXPECT_FALSE(memory_->OnMemoryDone(done).ok());
  Request(0, 2 * kMiB, 2 * kMiB);
  host_.Deliver(1);
  done.set_id(99);
  EXPECT_FALSE(memory_->OnMemoryDone(done).ok());
}

TEST_F(SessionMemoryTest, BadReturnIsReportedAndTheNextRequestServed) {
  Return(0, 2 * kMiB);
  EXPECT_EQ(host_.bad_returns, 1);
  EXPECT_EQ(host_.done, 1);
  Request(0, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(host_.takes, 1);
}

TEST_F(SessionMemoryTest, ChunksThatComeAfterTheEndGoBack) {
  Request(0, 2 * kMiB, 2 * kMiB);
  memory_->End();
  host_.Deliver(1);
  EXPECT_EQ(host_.unused, 1u);
  EXPECT_TRUE(host_.grants.empty());
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, EndInTheMiddleOfMappingGivesEverythingBack) {
  Request(0, 2 * kMiB, 500 * kMiB);
  host_.Deliver(250);
  EXPECT_TRUE(Done().ok());
  memory_->End();
  EXPECT_EQ(host_.returned, 250u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, AbandonedSessionGivesBackWhatComesForIt) {
  Request(0, 2 * kMiB, 2 * kMiB);
  host_.Deliver(1);
  EXPECT_TRUE(Done().ok());
  Request(64 * kMiB, 8 * kMiB, 8 * kMiB);
  Request(128 * kMiB, 2 * kMiB, 2 * kMiB);
  host_.sent.clear();
  memory_->Abandon();
  EXPECT_EQ(host_.done, 3);  // The client may have as many under way as before.
  host_.Deliver(4);
  EXPECT_EQ(host_.unused, 4u);
  EXPECT_TRUE(host_.sent.empty());
  EXPECT_EQ(host_.grants.size(), 1u);
  EXPECT_EQ(quota_->used_bytes(), 2 * kMiB);
  Request(128 * kMiB, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(host_.done, 4);
  EXPECT_EQ(host_.pending, nullptr);
  // What it held can still be mapped, for who reads it.
  CudaResult mapped = CudaResult::kUnknown;
  memory_->MapAgain(/*go_on=*/false, [&](CudaResult result) { mapped = result; });
  ASSERT_EQ(host_.sent.size(), 1u);
  EXPECT_EQ(host_.sent[0].map().va(), kArena.base);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(mapped, CudaResult::kSuccess);
  memory_->End();
  EXPECT_EQ(quota_->used_bytes(), 0u);
  EXPECT_EQ(host_.returned, 1u);
}

TEST_F(SessionMemoryTest, AnswersOfTheLostWorkerComeToNothing) {
  Request(0, 2 * kMiB, 2 * kMiB);
  host_.Deliver(1);
  memory_->Abandon();
  EXPECT_TRUE(Done().ok());
  EXPECT_TRUE(host_.grants.empty());
  EXPECT_FALSE(memory_->Backs(kArena.base, 2 * kMiB));
  memory_->End();
  EXPECT_EQ(host_.returned, 1u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionMemoryTest, ARequestIsTriedAgainWhenOthersWereMovedAndIsNotWhenNoneCanBe) {
  host_.relief = {MemoryRelief::Kind::kMoving, {}};
  Request(0, 8 * kMiB, 8 * kMiB);
  host_.Refuse();
  EXPECT_TRUE(memory_->waits_for_room());
  EXPECT_EQ(memory_->requested_bytes(), 8 * kMiB);
  std::exchange(host_.waited, nullptr)(absl::OkStatus());
  EXPECT_FALSE(memory_->waits_for_room());
  host_.Refuse();
  EXPECT_FALSE(host_.seen.nothing_moves);
  host_.relief = {};
  std::exchange(host_.waited, nullptr)(absl::ResourceExhaustedError("session 7 shares it"));
  host_.Refuse();
  EXPECT_TRUE(host_.seen.nothing_moves);
  ASSERT_EQ(host_.grants.size(), 1u);
  EXPECT_NE(host_.grants[0].message().find("session 7 shares it"), std::string::npos)
      << host_.grants[0].message();
  EXPECT_GE(host_.stops, 1);
}

TEST_F(SessionMemoryTest, ASessionGetsWhatIsLeftOfItsLeasesLimitAndWaitsForMore) {
  host_.left_of_limit = 5 * kMiB;
  Request(0, 2 * kMiB, 8 * kMiB);
  EXPECT_EQ(host_.asked_bytes, 4 * kMiB);
  EXPECT_EQ(memory_->held_bytes(), 4 * kMiB);
  host_.Deliver(2);
  EXPECT_EQ(memory_->held_bytes(), 4 * kMiB);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(memory_->held_bytes(), 4 * kMiB);

  host_.left_of_limit = 0;
  host_.relief = {MemoryRelief::Kind::kMoving, {}};
  Request(64 * kMiB, 2 * kMiB, 2 * kMiB);
  EXPECT_TRUE(memory_->waits_for_room());
  EXPECT_FALSE(host_.seen.of_quota);
  EXPECT_EQ(host_.takes, 1);
  EXPECT_EQ(quota_->used_bytes(), 4 * kMiB);
  host_.left_of_limit = 2 * kMiB;
  std::exchange(host_.waited, nullptr)(absl::OkStatus());
  host_.Deliver(1);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 2 * kMiB);

  host_.left_of_limit = 0;
  host_.relief = {};
  Request(128 * kMiB, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(host_.grants.back().error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_NE(host_.grants.back().message().find("of the lease may have 0 bytes more"),
            std::string::npos)
      << host_.grants.back().message();
}

TEST_F(SessionMemoryTest, ASessionGrowsByNoMoreThanTheServerMayGiveOut) {
  host_.most_growth = 5 * kMiB;
  Request(0, 2 * kMiB, 8 * kMiB);
  EXPECT_EQ(host_.asked_bytes, 4 * kMiB);
  EXPECT_EQ(memory_->total_bytes(), 4 * kMiB);
  host_.Deliver(2);
  EXPECT_EQ(memory_->total_bytes(), 4 * kMiB);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(memory_->total_bytes(), 4 * kMiB);
  Request(64 * kMiB, 6 * kMiB, 8 * kMiB);
  ASSERT_EQ(host_.grants.size(), 2u);
  EXPECT_EQ(host_.grants[1].error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_EQ(host_.takes, 1);
  EXPECT_EQ(quota_->used_bytes(), 4 * kMiB);
}

TEST_F(SessionMemoryTest, NothingIsTriedAgainForAnAbandonedSession) {
  host_.can_reclaim = true;
  Request(0, 2048 * kMiB, 2048 * kMiB);
  ASSERT_NE(host_.reclaimed, nullptr);
  memory_->Abandon();
  host_.reclaimed(absl::OkStatus());
  EXPECT_EQ(host_.takes, 0);
  EXPECT_TRUE(host_.grants.empty());
}

}  // namespace
}  // namespace warpline::server
