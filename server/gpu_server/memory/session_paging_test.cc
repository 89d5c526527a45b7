#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/memory/session_memory.h"
#include "server/gpu_server/memory/session_memory_fixture.h"

namespace warpline::server {
namespace {

// Memory that is moved to the host and back.
class SessionPagingTest : public SessionMemoryTest {
 protected:
  // Two ranges of four and two chunks.
  void Grant() {
    Request(0, 8 * kMiB, 8 * kMiB);
    host_.Deliver(4);
    EXPECT_TRUE(Done().ok());
    Request(64 * kMiB, 4 * kMiB, 4 * kMiB);
    host_.Deliver(2);
    EXPECT_TRUE(Done().ok());
  }
  void PageOut() {
    memory_->PageOut([this](const absl::Status& status) { paged_.push_back(status); });
  }
  void PageIn() {
    memory_->PageIn([this](const absl::Status& status) { paged_.push_back(status); });
  }
  void GoAway() {
    Grant();
    PageOut();
    host_.EndMove();
    EXPECT_TRUE(Done().ok());
    EXPECT_TRUE(Done().ok());
    ASSERT_EQ(paged_.size(), 1u);
    EXPECT_TRUE(paged_[0].ok()) << paged_[0];
    paged_.clear();
  }
  // The worker maps all six chunks again.
  void ExpectMapped() {
    EXPECT_EQ(host_.sent.back().map().va(), kArena.base);
    EXPECT_EQ(host_.sent.back().map().chunk_bytes_size(), 4);
    EXPECT_TRUE(Done().ok());
    EXPECT_EQ(host_.sent.back().map().va(), kArena.base + 64 * kMiB);
    EXPECT_EQ(host_.sent.back().map().chunk_bytes_size(), 2);
    EXPECT_TRUE(Done().ok());
  }
  // The pool and the pager give the memory back, and the worker maps it.
  void ComeBack() {
    host_.Deliver(4);
    host_.Deliver(2);
    host_.EndMove();
    ExpectMapped();
  }
  void MapAgain() {
    memory_->MapAgain(/*go_on=*/true, [this](CudaResult mapped) { mapped_ = mapped; });
  }

  void BringBack() {
    memory_->BringBack([this](const absl::Status& status) { paged_.push_back(status); });
  }
  void Store() {
    memory_->Store([this](const absl::Status& status) { stored_.push_back(status); });
  }
  // Ends the writing of the file, which is a real one.
  void EndStore() {
    host_.stored->file = *SwapFile::Create(testing::TempDir());
    host_.EndMove();
  }
  void EndFetch() {
    host_.stored->file = nullptr;
    host_.EndMove();
  }

  std::vector<absl::Status> paged_;
  std::vector<absl::Status> stored_;
  std::optional<CudaResult> mapped_;
};

TEST_F(SessionPagingTest, AGuardedWorkerThatCannotTellThatNothingRunsKeepsItsMemory) {
  SessionMemoryOptions options;
  options.arena = kArena;
  options.max_chunks = 400;
  options.at_once = true;
  memory_ = std::make_shared<SessionMemory>(options, quota_, host_.links());
  Grant();
  memory_->Seal();
  PageOut();
  host_.EndMove();
  EXPECT_TRUE(Done(static_cast<int>(CudaResult::kNotReady)).ok());
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(paged_[0])) << paged_[0];
  EXPECT_FALSE(memory_->away());
  EXPECT_EQ(memory_->backed_bytes(), 12 * kMiB);
  // The next try succeeds.
  PageOut();
  host_.EndMove();
  EXPECT_TRUE(Done().ok());
  EXPECT_TRUE(Done().ok());
  ASSERT_EQ(paged_.size(), 2u);
  EXPECT_TRUE(paged_[1].ok()) << paged_[1];
}

TEST_F(SessionPagingTest, AnIsolatedWorkersSuchAnswerIsNoExcuse) {
  Grant();
  PageOut();
  host_.EndMove();
  EXPECT_TRUE(Done(static_cast<int>(CudaResult::kNotReady)).ok());
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(absl::IsInternal(paged_[0])) << paged_[0];
}

TEST_F(SessionPagingTest, ASessionThatWaitsForRoomMayGoAndItsRequestIsTriedAgainOnceItIsBack) {
  Grant();
  host_.relief = {MemoryRelief::Kind::kMoving, {}};
  Request(128 * kMiB, 8 * kMiB, 8 * kMiB);
  host_.Refuse();
  ASSERT_TRUE(memory_->waits_for_room());
  PageOut();
  EXPECT_FALSE(memory_->waits_for_room());
  EXPECT_EQ(host_.stops, 3);
  host_.EndMove();
  EXPECT_TRUE(Done().ok());
  EXPECT_TRUE(Done().ok());
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(paged_[0].ok()) << paged_[0];
  // The room comes too late.
  const int takes = host_.takes;
  std::exchange(host_.waited, nullptr)(absl::OkStatus());
  EXPECT_EQ(host_.takes, takes);
  EXPECT_TRUE(memory_->has_requests());
  EXPECT_EQ(memory_->requested_bytes(), 8 * kMiB);

  PageIn();
  ComeBack();
  EXPECT_EQ(host_.asked_bytes, 8 * kMiB);
  host_.Deliver(4);
  EXPECT_EQ(host_.sent.back().map().va(), kArena.base + 128 * kMiB);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.back().bytes(), 8 * kMiB);
}

TEST_F(SessionPagingTest, GoesWhenItIsCopiedAndUnmappedAndComesBackToItsPlace) {
  Grant();
  PageOut();
  EXPECT_FALSE(host_.sent.back().has_unmap());  // Nothing is unmapped before it is copied.
  EXPECT_EQ(memory_->away_bytes(), 12 * kMiB);
  EXPECT_EQ(memory_->total_bytes(), 12 * kMiB);
  host_.EndMove();
  EXPECT_EQ(host_.sent.back().unmap().va(), kArena.base);
  EXPECT_EQ(host_.sent.back().unmap().chunk_bytes_size(), 4);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.sent.back().unmap().va(), kArena.base + 64 * kMiB);
  EXPECT_EQ(host_.unmapped, 0u);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.unmapped, 6u);
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(paged_[0].ok()) << paged_[0];
  EXPECT_EQ(memory_->away_bytes(), 12 * kMiB);
  EXPECT_EQ(memory_->total_bytes(), 12 * kMiB);
  EXPECT_EQ(memory_->backed_bytes(), 0u);
  EXPECT_EQ(quota_->used_bytes(), 12 * kMiB);  // It is the session's all the same.
  EXPECT_TRUE(memory_->Backs(kArena.base + 2 * kMiB, 4 * kMiB));
  EXPECT_FALSE(memory_->Backs(kArena.base + 6 * kMiB, 4 * kMiB));

  PageIn();
  EXPECT_EQ(host_.asked_bytes, 8 * kMiB);
  host_.Deliver(4);
  EXPECT_EQ(host_.asked_bytes, 4 * kMiB);
  EXPECT_EQ(memory_->total_bytes(), 12 * kMiB);
  host_.Deliver(2);
  host_.EndMove();
  ExpectMapped();
  ASSERT_EQ(paged_.size(), 2u);
  EXPECT_TRUE(paged_[1].ok()) << paged_[1];
  EXPECT_FALSE(memory_->away());
  EXPECT_EQ(memory_->backed_bytes(), 12 * kMiB);
}

TEST_F(SessionPagingTest, WhatIsAskedForMeanwhileWaits) {
  GoAway();
  const int takes = host_.takes;
  Request(128 * kMiB, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(host_.takes, takes);
  PageIn();
  ComeBack();
  EXPECT_EQ(host_.takes, takes + 3);
  host_.Deliver(1);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(host_.grants.size(), 3u);
}

TEST_F(SessionPagingTest, WhatCannotBeCopiedStays) {
  Grant();
  PageOut();
  host_.EndMove(absl::ResourceExhaustedError("no host memory"));
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(paged_[0]));
  EXPECT_FALSE(memory_->away());
  EXPECT_EQ(memory_->backed_bytes(), 12 * kMiB);
  Return(0, 8 * kMiB);
  EXPECT_TRUE(Done().ok());
  EXPECT_EQ(memory_->kept_bytes(), 8 * kMiB);
}

TEST_F(SessionPagingTest, AWorkerThatDoesNotUnmapIsSaid) {
  Grant();
  PageOut();
  host_.EndMove();
  EXPECT_TRUE(Done(/*error=*/1).ok());
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(absl::IsInternal(paged_[0]));
  MapAgain();
  ExpectMapped();
  EXPECT_EQ(mapped_, CudaResult::kSuccess);
}

TEST_F(SessionPagingTest, AWorkerThatKeepsItsMemoryEndsTheSession) {
  GoAway();
  host_.judge(1024 * kMiB);
  EXPECT_EQ(host_.bad_returns, 0);  // The device's count is no more exact.
  PageIn();
  ComeBack();
  PageOut();
  host_.EndMove();
  EXPECT_TRUE(Done().ok());
  EXPECT_TRUE(Done().ok());
  host_.judge(2 * kMiB);
  EXPECT_EQ(host_.bad_returns, 1);
}

TEST_F(SessionPagingTest, WhereTheDeviceHasNoRoomItStaysAway) {
  GoAway();
  PageIn();
  host_.Deliver(4);
  std::exchange(host_.pending, nullptr)(absl::ResourceExhaustedError("no room"));
  EXPECT_EQ(host_.unused, 4u);
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(paged_[0]));
  EXPECT_TRUE(memory_->away());
  PageIn();
  host_.Deliver(1, 8 * kMiB);  // In chunks of other sizes.
  host_.Deliver(2);
  host_.EndMove();
  EXPECT_EQ(host_.sent.back().map().chunk_bytes_size(), 1);
  EXPECT_TRUE(Done().ok());
  EXPECT_TRUE(Done().ok());
  ASSERT_EQ(paged_.size(), 2u);
  EXPECT_TRUE(paged_[1].ok());
}

TEST_F(SessionPagingTest, ChunksThatWereFilledInPartAreNobodysElse) {
  GoAway();
  PageIn();
  host_.Deliver(4);
  host_.Deliver(2);
  host_.EndMove(absl::UnavailableError("the pager died"));
  EXPECT_EQ(host_.unused, 0u);
  EXPECT_EQ(host_.returned, 6u);
  EXPECT_TRUE(memory_->away());
}

TEST_F(SessionPagingTest, AnotherWorkerHasTheMemoryWhateverWasUnderWay) {
  // While it is copied.
  Grant();
  PageOut();
  memory_->Suspend();
  MapAgain();
  EXPECT_EQ(mapped_, std::nullopt);
  host_.EndMove();
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(paged_[0]));
  ExpectMapped();
  EXPECT_EQ(mapped_, CudaResult::kSuccess);
  // While it is unmapped.
  mapped_.reset();
  PageOut();
  host_.EndMove();
  EXPECT_TRUE(Done().ok());
  memory_->Suspend();
  MapAgain();
  EXPECT_TRUE(absl::IsAborted(paged_.back()));
  ExpectMapped();
  EXPECT_EQ(mapped_, CudaResult::kSuccess);
  // While it is away.
  mapped_.reset();
  PageOut();
  host_.EndMove();
  EXPECT_TRUE(Done().ok());
  EXPECT_TRUE(Done().ok());
  memory_->Suspend();
  MapAgain();
  ComeBack();
  EXPECT_EQ(mapped_, CudaResult::kSuccess);
  EXPECT_FALSE(memory_->away());
  EXPECT_EQ(memory_->backed_bytes(), 12 * kMiB);
}

TEST_F(SessionPagingTest, WithoutAWorkerItComesBackForTheNextOne) {
  GoAway();
  memory_->Suspend();
  const size_t sent = host_.sent.size();
  BringBack();
  host_.Deliver(4);
  host_.Deliver(2);
  host_.EndMove();
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(paged_[0].ok()) << paged_[0];
  EXPECT_EQ(host_.sent.size(), sent);
  MapAgain();
  ExpectMapped();
  EXPECT_EQ(mapped_, CudaResult::kSuccess);
}

TEST_F(SessionPagingTest, WhatWasOnItsWayWhenTheWorkerDiedIsThereForTheNextOne) {
  GoAway();
  PageIn();
  host_.Deliver(4);
  host_.Deliver(2);
  memory_->Suspend();
  const size_t sent = host_.sent.size();
  host_.EndMove();
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(paged_[0].ok()) << paged_[0];
  EXPECT_EQ(host_.sent.size(), sent);
  EXPECT_FALSE(memory_->away());
  MapAgain();
  ExpectMapped();
  EXPECT_EQ(mapped_, CudaResult::kSuccess);
}

TEST_F(SessionPagingTest, ThatItCannotComeBackYetIsSaidToAnotherWorker) {
  GoAway();
  memory_->Suspend();
  MapAgain();
  host_.Deliver(4);
  host_.Deliver(2);
  host_.EndMove(absl::UnavailableError("the pager died"));
  EXPECT_EQ(mapped_, CudaResult::kDeviceUnavailable);
  EXPECT_TRUE(memory_->away());
  mapped_.reset();
  MapAgain();
  ComeBack();
  EXPECT_EQ(mapped_, CudaResult::kSuccess);
}

TEST_F(SessionPagingTest, FromAFileItComesBackByHostMemory) {
  GoAway();
  Store();
  EndStore();
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_TRUE(stored_[0].ok());
  Store();  // It is there already.
  EXPECT_EQ(stored_.size(), 1u);
  PageIn();
  EndFetch();
  ComeBack();
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(paged_[0].ok()) << paged_[0];
}

TEST_F(SessionPagingTest, WantedWhileItIsWrittenItComesBackOnceTheFileIsLeftAlone) {
  for (const bool written : {false, true}) {
    SCOPED_TRACE(written);
    GoAway();
    Store();
    PageIn();
    EXPECT_TRUE(host_.stored->wanted);
    EXPECT_TRUE(host_.pending == nullptr);
    if (written) {
      EndStore();
      EndFetch();
    } else {
      host_.EndMove(absl::CancelledError("wanted"));
    }
    ComeBack();
    ASSERT_EQ(paged_.size(), 1u);
    EXPECT_TRUE(paged_[0].ok()) << paged_[0];
    Return(0, 8 * kMiB);
    EXPECT_TRUE(Done().ok());
    Return(64 * kMiB, 4 * kMiB);
    EXPECT_TRUE(Done().ok());
    memory_->Suspend();
    MapAgain();  // It gives up the memory that was returned.
    paged_.clear();
  }
}

TEST_F(SessionPagingTest, WhatCannotBeWrittenStaysInHostMemory) {
  GoAway();
  Store();
  host_.EndMove(absl::ResourceExhaustedError("the disk is full"));
  ASSERT_EQ(stored_.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(stored_[0]));
  PageIn();
  ComeBack();
  EXPECT_TRUE(paged_.at(0).ok());
}

TEST_F(SessionPagingTest, WithoutHostMemoryItStaysInTheFile) {
  GoAway();
  Store();
  EndStore();
  for (int i = 0; i < 2; ++i) {
    PageIn();
    host_.EndMove(absl::ResourceExhaustedError("no host memory"));
    EXPECT_TRUE(absl::IsResourceExhausted(paged_.back()));
  }
  PageIn();
  EndFetch();
  ComeBack();
  EXPECT_TRUE(paged_.back().ok());
}

TEST_F(SessionPagingTest, WhatCannotBeReadIsSaidToBeLost) {
  GoAway();
  Store();
  EndStore();
  PageIn();
  host_.EndMove(absl::DataLossError("changed"));
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(absl::IsInternal(paged_[0])) << paged_[0];
}

TEST_F(SessionPagingTest, AReaderHasWhatIsInAFile) {
  GoAway();
  memory_->Suspend();
  Store();
  memory_->Abandon();
  memory_->MapAgain(/*go_on=*/false, [this](CudaResult mapped) { mapped_ = mapped; });
  EndStore();
  EndFetch();
  ComeBack();
  EXPECT_EQ(mapped_, CudaResult::kSuccess);
}

TEST_F(SessionPagingTest, ItsEndGivesAllBackWhateverIsUnderWay) {
  for (int phase = 0; phase < 5; ++phase) {
    SCOPED_TRACE(phase);
    FakeHost host;
    const auto quota = Quota::Create(1024 * kMiB);
    const auto memory = std::make_shared<SessionMemory>(
        SessionMemoryOptions{.arena = kArena, .max_chunks = 400}, quota, host.links());
    MemoryRequest request;
    request.set_id(1);
    request.set_va(kArena.base);
    request.set_min_bytes(4 * kMiB);
    request.set_want_bytes(4 * kMiB);
    memory->Request(request);
    host.Deliver(2);
    const auto done = [&] {
      const ToWorker& last = host.sent.back();
      MemoryDone answer;
      answer.set_id(last.has_map() ? last.map().id() : last.unmap().id());
      EXPECT_TRUE(memory->OnMemoryDone(answer).ok());
    };
    done();
    const auto ignore = [](const absl::Status&) {};
    memory->PageOut(ignore);
    if (phase >= 1) host.EndMove();
    if (phase >= 2) done();
    if (phase >= 3) memory->PageIn(ignore);
    if (phase >= 4) host.Deliver(2);
    memory->End();
    if (phase == 0 || phase == 4) host.EndMove();
    if (phase == 3) host.Deliver(2);
    EXPECT_EQ(host.returned, phase == 2 ? 0u : 2u);
    EXPECT_EQ(quota->used_bytes(), 0u);
    EXPECT_EQ(quota->pieces()->used_bytes(), 0u);
  }
}

TEST_F(SessionPagingTest, WhatIsOnItsWayIsNotMovedAgain) {
  PageOut();
  ASSERT_EQ(paged_.size(), 1u);
  EXPECT_TRUE(paged_[0].ok());  // There is nothing.
  Grant();
  Request(128 * kMiB, 2 * kMiB, 2 * kMiB);
  PageOut();
  EXPECT_TRUE(absl::IsFailedPrecondition(paged_.back()));
  host_.Deliver(1);
  EXPECT_TRUE(Done().ok());
  PageOut();
  PageOut();
  EXPECT_TRUE(absl::IsFailedPrecondition(paged_.back()));
  PageIn();
  EXPECT_TRUE(absl::IsFailedPrecondition(paged_.back()));
}

}  // namespace
}  // namespace warpline::server
