#include "server/gpu_server/memory/session_memory.h"

#include <fcntl.h>

#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

using warpline_internal::MemoryDone;
using warpline_internal::MemoryGrant;
using warpline_internal::MemoryRequest;
using warpline_internal::MemoryReturn;
using warpline_internal::ToWorker;

constexpr uint64_t kMiB = 1ull << 20;
constexpr ArenaRange kArena = {1ull << 40, 8ull << 30};

// Pool and worker in one, which answer when the test says so.
class FakeHost : public WorkerLink, public ClientLink, public ChunkSource {
 public:
  void Take(uint64_t, uint64_t want_bytes, uint64_t, Taken taken) override {
    ++takes;
    asked_bytes = want_bytes;
    pending = std::move(taken);
  }
  void Claim(uint64_t bytes, std::function<void(bool)> claimed) override {
    const bool has_room = bytes <= claimable;
    if (has_room) claimable -= bytes;
    claimed(has_room);
  }
  void Unclaim(uint64_t bytes) override { claimable += bytes; }
  void Return(std::vector<Chunk> chunks, std::vector<Reservation> bill) override {
    returned += chunks.size();
    if (frees_late) std::move(bill.begin(), bill.end(), std::back_inserter(billed));
  }
  void ReturnUnused(std::vector<Chunk> chunks) override { unused += chunks.size(); }
  void ReturnUnmapped(std::vector<Chunk> chunks, std::function<void(uint64_t)> judged) override {
    unmapped += chunks.size();
    judge = std::move(judged);
  }
  void MoveOut(std::shared_ptr<std::vector<Chunk>> chunks, std::shared_ptr<AwayMemory> away,
               Moved done) override {
    away->used.assign(TotalBytes(*chunks) / SwapSpace::kGranule, true);
    moved = std::move(done);
  }
  void MoveIn(std::shared_ptr<std::vector<Chunk>> chunks, std::shared_ptr<const AwayMemory> away,
              Moved done) override {
    EXPECT_EQ(TotalBytes(*chunks), away->bytes());
    moved = std::move(done);
  }
  uint64_t MostGrowth() override { return most_growth; }
  void StopWaiting() override { ++stops; }
  MemoryRelief Relieve(const MemoryShortage& shortage, Again again) override {
    seen = shortage;
    if (relief.kind == MemoryRelief::Kind::kWaiting || relief.kind == MemoryRelief::Kind::kMoving ||
        relief.kind == MemoryRelief::Kind::kReturning) {
      waited = std::move(again);
    }
    if (relief.kind != MemoryRelief::Kind::kNone) return relief;
    if (shortage.reclaimed) return {};
    ++reclaims;
    short_of_quota = shortage.of_quota;
    if (!can_reclaim) return {};
    reclaimed = std::move(again);
    return {MemoryRelief::Kind::kReclaiming, {}};
  }
  absl::Status Send(const ToWorker& message, absl::Span<const int> fds) override {
    sent.push_back(message);
    attached = fds.size();
    return send_status;
  }
  void Push(MemoryGrant grant) override { grants.push_back(std::move(grant)); }
  void Done() override { ++done; }
  void SayRefused(const std::string&) override {}
  void Violated(const absl::Status&) override { ++bad_returns; }

  MemoryLinks links() { return {this, this, this}; }

  // Ends the move that is under way.
  void EndMove(const absl::Status& status = absl::OkStatus()) {
    std::exchange(moved, nullptr)(status);
  }
  // Answers the pool's request with `count` chunks of 2 MiB.
  void Deliver(size_t count, uint64_t bytes = 2 * kMiB) {
    std::vector<Chunk> chunks;
    for (size_t i = 0; i < count; ++i) {
      chunks.push_back(Chunk{bytes, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC))});
    }
    std::exchange(pending, nullptr)(std::move(chunks));
  }
  // The pool has too little.
  void Refuse() { std::exchange(pending, nullptr)(absl::ResourceExhaustedError("none left")); }

  uint64_t claimable = 0;
  int takes = 0;
  uint64_t asked_bytes = 0;
  Taken pending;
  size_t returned = 0;
  size_t unused = 0;
  size_t unmapped = 0;
  std::function<void(uint64_t)> judge;
  Moved moved;
  bool frees_late = false;
  std::vector<Reservation> billed;
  int reclaims = 0;
  bool can_reclaim = false;
  bool short_of_quota = false;
  Again reclaimed;
  // What the policy says, where it says something, and of what.
  MemoryRelief relief;
  MemoryShortage seen;
  Again waited;
  uint64_t most_growth = ~uint64_t{0};
  int stops = 0;  // How often it was told that the session does not wait any more.
  std::vector<ToWorker> sent;
  size_t attached = 0;
  absl::Status send_status;
  std::vector<MemoryGrant> grants;
  int done = 0;
  int bad_returns = 0;
};

class SessionMemoryTest : public testing::Test {
 protected:
  void Request(uint64_t offset, uint64_t min_bytes, uint64_t want_bytes) {
    MemoryRequest request;
    request.set_id(++last_id_);
    request.set_va(kArena.base + offset);
    request.set_min_bytes(min_bytes);
    request.set_want_bytes(want_bytes);
    memory_->Request(request);
  }
  void Return(uint64_t offset, uint64_t bytes) {
    MemoryReturn request;
    request.set_va(kArena.base + offset);
    request.set_bytes(bytes);
    memory_->Return(request);
  }
  // So many chunks of 2 MiB.
  void GrantAndReturn(size_t count) {
    Request(0, 2 * kMiB, count * 2 * kMiB);
    host_.Deliver(count);
    EXPECT_TRUE(Done().ok());
    Return(0, count * 2 * kMiB);
    EXPECT_TRUE(Done().ok());
    EXPECT_EQ(memory_->kept_bytes(), count * 2 * kMiB);
  }
  // The worker's answer to the last message.
  absl::Status Done(int error = 0) {
    const ToWorker& last = host_.sent.back();
    MemoryDone done;
    done.set_id(last.has_map() ? last.map().id() : last.unmap().id());
    done.set_error(error);
    return memory_->OnMemoryDone(done);
  }

  FakeHost host_;
  std::shared_ptr<Quota> quota_ = Quota::Create(1024 * kMiB);
  std::shared_ptr<SessionMemory> memory_ = std::make_shared<SessionMemory>(
      SessionMemoryOptions{.arena = kArena, .max_chunks = 400}, quota_, host_.links());
  uint64_t last_id_ = 0;
};

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
  void MapAgain() {
    memory_->MapAgain(/*go_on=*/true, [this](CudaResult mapped) { mapped_ = mapped; });
  }

  std::vector<absl::Status> paged_;
  std::optional<CudaResult> mapped_;
};

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
  host_.Deliver(4);
  host_.Deliver(2);
  host_.EndMove();
  ExpectMapped();
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
  host_.Deliver(4);
  host_.Deliver(2);
  host_.EndMove();
  ExpectMapped();
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
  host_.Deliver(4);
  host_.Deliver(2);
  host_.EndMove();
  ExpectMapped();
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
  host_.Deliver(4);
  host_.Deliver(2);
  host_.EndMove();
  ExpectMapped();
  EXPECT_EQ(mapped_, CudaResult::kSuccess);
  EXPECT_FALSE(memory_->away());
  EXPECT_EQ(memory_->backed_bytes(), 12 * kMiB);
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
