// Memory handles of sessions, and what sessions share.
#include <fcntl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/memory/session_memory.h"

namespace warpline::server {
namespace {

using warpline_internal::MemoryDone;
using warpline_internal::MemoryGrant;
using warpline_internal::MemoryRequest;
using warpline_internal::MemoryReturn;
using warpline_internal::ToWorker;

constexpr uint64_t kMiB = 1ull << 20;
constexpr ArenaRange kArena = {1ull << 40, 8ull << 30};

// Pool and worker in one.
class FakeHost : public WorkerLink, public ClientLink, public ChunkSource {
 public:
  void Take(uint64_t, uint64_t want_bytes, uint64_t largest_bytes, Taken taken) override {
    asked_bytes = want_bytes;
    largest = largest_bytes;
    pending = std::move(taken);
  }
  void ReturnUnused(std::vector<Chunk>) override {}
  void Claim(uint64_t, std::function<void(bool)> claimed) override { claimed(false); }
  void Unclaim(uint64_t) override {}
  void Return(std::vector<Chunk> chunks, std::vector<Reservation> bill) override {
    returned += TakeUnshared(std::move(chunks), &bill).size();
  }
  void ReturnUnmapped(std::vector<Chunk>, std::function<void(uint64_t)>) override {}
  void MoveOut(std::shared_ptr<std::vector<Chunk>>, std::shared_ptr<AwayMemory>,
               Moved moved) override {
    moved(absl::OkStatus());
  }
  void MoveIn(std::shared_ptr<std::vector<Chunk>>, std::shared_ptr<const AwayMemory>,
              Moved moved) override {
    moved(absl::OkStatus());
  }
  MemoryRelief Relieve(const MemoryShortage&, Again) override { return {}; }
  void Store(std::shared_ptr<AwayMemory>, Moved) override { FAIL(); }
  void Fetch(std::shared_ptr<AwayMemory>, Moved) override { FAIL(); }
  uint64_t MostGrowth(bool) override { return ~uint64_t{0}; }
  uint64_t LeftOfLimit() override { return ~uint64_t{0}; }
  bool MayStay(uint64_t) override { return may_share; }
  void StopWaiting() override {}
  absl::Status Send(const ToWorker& message, absl::Span<const int> fds) override {
    sent.push_back(message);
    attached = fds.size();
    return absl::OkStatus();
  }
  void Push(MemoryGrant grant) override { grants.push_back(std::move(grant)); }
  void Done() override {}
  void SayRefused(const std::string&) override {}
  void Violated(const absl::Status&) override { ++bad_returns; }

  MemoryLinks links() { return {this, this, this}; }

  void Deliver(const std::vector<uint64_t>& sizes) {
    std::vector<Chunk> chunks;
    for (const uint64_t bytes : sizes) {
      chunks.push_back(Chunk{bytes, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC))});
    }
    std::exchange(pending, nullptr)(std::move(chunks));
  }

  uint64_t asked_bytes = 0;
  bool may_share = true;
  uint64_t largest = 0;
  Taken pending;
  size_t returned = 0;
  std::vector<ToWorker> sent;
  size_t attached = 0;
  std::vector<MemoryGrant> grants;
  int bad_returns = 0;
};

struct TestSession {
  TestSession(std::shared_ptr<Quota> quota, ShareBook* shares, std::string domain,
              std::string device = "a device", uint64_t max_handles = 1u << 20) {
    SessionMemoryOptions options;
    options.entitlement.slice.max_handles = max_handles;
    options.arena = kArena;
    options.shares = shares;
    options.entitlement.lease = std::move(domain);
    options.device_uuid = std::move(device);
    memory = std::make_shared<SessionMemory>(options, std::move(quota), host.links());
  }
  ~TestSession() { memory->End(); }

  void Create(uint64_t first, uint64_t bytes, uint64_t count) {
    MemoryRequest request;
    request.set_handle(first);
    request.set_min_bytes(bytes);
    request.set_want_bytes(bytes * count);
    memory->Request(request);
  }
  void Open(const std::string& token, uint64_t handle, uint64_t bytes) {
    MemoryRequest request;
    request.set_open(token);
    request.set_handle(handle);
    request.set_min_bytes(bytes);
    request.set_want_bytes(bytes);
    memory->Request(request);
  }
  MemoryGrant Share(uint64_t handle, uint64_t va = 0, uint64_t bytes = 0) {
    MemoryRequest request;
    request.mutable_share()->set_handle(handle);
    request.mutable_share()->set_va(va);
    request.mutable_share()->set_bytes(bytes);
    memory->Request(request);
    return host.grants.back();
  }
  void Drop(uint64_t handle) {
    MemoryReturn request;
    request.set_handle(handle);
    memory->Return(request);
  }
  void Done(int error = 0) {
    const ToWorker& last = host.sent.back();
    MemoryDone done;
    done.set_id(last.has_hold()      ? last.hold().id()
                : last.has_drop()    ? last.drop().id()
                : last.has_release() ? last.release().id()
                                     : last.map().id());
    done.set_error(error);
    EXPECT_TRUE(memory->OnMemoryDone(done).ok());
  }
  int Error() const { return host.grants.back().error(); }

  FakeHost host;
  std::shared_ptr<SessionMemory> memory;
};

class SessionHandlesTest : public testing::Test {
 protected:
  std::shared_ptr<Quota> quota_ = Quota::Create(1024 * kMiB);
  ShareBook shares_;
  TestSession first_{quota_, &shares_, "lease"};
  TestSession second_{quota_, &shares_, "lease"};
  TestSession stranger_{Quota::Create(1024 * kMiB), &shares_, "another"};
};

TEST_F(SessionHandlesTest, MemoryBehindHandlesLeavesAndComesBack) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  first_.Create(7, 20 * kMiB, 1);
  first_.host.Deliver({20 * kMiB});
  first_.Done();
  std::vector<absl::Status> paged;
  first_.memory->PageOut([&](const absl::Status& status) { paged.push_back(status); });
  const auto release = first_.host.sent.back().release();
  ASSERT_EQ(release.handle_size(), 2);
  EXPECT_EQ(release.handle(0), 1u);
  EXPECT_EQ(release.handle(1), 7u);
  EXPECT_EQ(first_.memory->away_bytes(), 22 * kMiB);
  first_.Done();
  ASSERT_EQ(paged.size(), 1u);
  EXPECT_TRUE(paged[0].ok()) << paged[0];
  EXPECT_EQ(first_.memory->backed_bytes(), 0u);
  EXPECT_FALSE(first_.memory->Backs(kArena.base, 2 * kMiB));

  first_.memory->PageIn([&](const absl::Status& status) { paged.push_back(status); });
  first_.host.Deliver({2 * kMiB});
  // The second one comes back in other pieces.
  first_.host.Deliver({16 * kMiB, 2 * kMiB, 2 * kMiB});
  const auto& hold = first_.host.sent.back().hold();
  ASSERT_EQ(hold.handle_size(), 4);
  EXPECT_EQ(hold.handle(0), 1u);
  EXPECT_EQ(hold.handle(3), 7u);
  first_.Done();
  ASSERT_EQ(paged.size(), 2u);
  EXPECT_TRUE(paged[1].ok()) << paged[1];
  EXPECT_EQ(first_.memory->backed_bytes(), 22 * kMiB);
}

TEST_F(SessionHandlesTest, MemoryThatIsSharedStaysAndTheRestLeaves) {
  for (const uint64_t handle : {1, 2}) {
    first_.Create(handle, 2 * kMiB, 1);
    first_.host.Deliver({2 * kMiB});
    first_.Done();
  }
  second_.Open(first_.Share(1).token(), 9, 2 * kMiB);
  second_.Done();
  std::vector<absl::Status> paged;
  const auto done = [&](const absl::Status& status) { paged.push_back(status); };
  EXPECT_EQ(first_.memory->staying_bytes(), 2 * kMiB);
  EXPECT_EQ(first_.memory->chunk_bytes(), 2 * kMiB);
  first_.memory->PageOut(done);
  const auto release = first_.host.sent.back().release();
  ASSERT_EQ(release.handle_size(), 1);
  EXPECT_EQ(release.handle(0), 2u);
  first_.Done();
  EXPECT_TRUE(first_.memory->away());
  EXPECT_EQ(first_.memory->away_bytes(), 2 * kMiB);
  EXPECT_EQ(first_.memory->held_bytes(), 2 * kMiB);
  EXPECT_EQ(first_.memory->total_bytes(), 4 * kMiB);
  // All that the other session has is shared.
  const size_t sent = second_.host.sent.size();
  second_.memory->PageOut(done);
  EXPECT_FALSE(second_.memory->away());
  EXPECT_EQ(second_.host.sent.size(), sent);

  first_.memory->PageIn(done);
  first_.host.Deliver({2 * kMiB});
  ASSERT_EQ(first_.host.sent.back().hold().handle_size(), 1);
  EXPECT_EQ(first_.host.sent.back().hold().handle(0), 2u);
  first_.Done();
  ASSERT_EQ(paged.size(), 3u);
  for (const absl::Status& status : paged) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(first_.memory->backed_bytes(), 4 * kMiB);
}

TEST_F(SessionHandlesTest, AWorkerThatTakesOverWhileMemoryIsAwayGetsWhatIsSharedToo) {
  for (const uint64_t handle : {1, 2}) {
    first_.Create(handle, 2 * kMiB, 1);
    first_.host.Deliver({2 * kMiB});
    first_.Done();
  }
  second_.Open(first_.Share(1).token(), 9, 2 * kMiB);
  second_.Done();
  first_.memory->PageOut([](const absl::Status&) {});
  first_.Done();
  CudaResult mapped = CudaResult::kNotReady;
  first_.memory->MapAgain(/*go_on=*/true, [&](CudaResult result) { mapped = result; });
  first_.host.Deliver({2 * kMiB});
  ASSERT_EQ(first_.host.sent.back().hold().handle_size(), 2);
  first_.Done();
  EXPECT_EQ(mapped, CudaResult::kSuccess);
}

TEST_F(SessionHandlesTest, MemoryLeavesAgainOnceTheOtherSessionHasGivenItBack) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  const std::string token = first_.Share(1).token();
  second_.Open(token, 9, 2 * kMiB);
  second_.Done();
  shares_.Remove(token, first_.memory.get());
  EXPECT_EQ(first_.memory->chunk_bytes(), 0u);
  // The other session's worker may have it still, whatever that says.
  second_.Drop(9);
  second_.Done();
  EXPECT_EQ(first_.memory->chunk_bytes(), 0u);
  second_.memory->End();
  EXPECT_EQ(first_.memory->chunk_bytes(), 2 * kMiB);
  first_.memory->PageOut([](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
  first_.Done();
  EXPECT_TRUE(first_.memory->away());
  EXPECT_EQ(quota_->used_bytes(), 2 * kMiB);
}

TEST_F(SessionHandlesTest, AWorkersWordIsNotEnoughForSharedMemoryToLeave) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  const std::string token = first_.Share(1).token();
  second_.Open(token, 9, 2 * kMiB);
  second_.Done();
  second_.Create(12, 2 * kMiB, 1);
  second_.host.Deliver({2 * kMiB});
  second_.Done();
  shares_.Remove(token, first_.memory.get());
  second_.Drop(9);
  second_.Done();
  // It goes away with what it says to have dropped, which its worker may have kept.
  EXPECT_EQ(second_.memory->chunk_bytes(), 2 * kMiB);
  second_.memory->PageOut([](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
  second_.Done();
  EXPECT_TRUE(second_.memory->away());
  EXPECT_EQ(second_.memory->kept_bytes(), 2 * kMiB);
  EXPECT_EQ(first_.memory->chunk_bytes(), 0u);
  second_.memory->End();
  EXPECT_EQ(first_.memory->chunk_bytes(), 2 * kMiB);
}

TEST_F(SessionHandlesTest, MemoryThatIsOfferedStaysUntilTheOfferEnds) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  const std::string token = first_.Share(1).token();
  EXPECT_EQ(first_.memory->WhyNotMovable(), "");
  EXPECT_EQ(first_.memory->staying_bytes(), 2 * kMiB);
  shares_.Remove(token, first_.memory.get());
  EXPECT_EQ(first_.memory->staying_bytes(), 0u);
}

TEST_F(SessionHandlesTest, WhereOthersCouldNotComeBackNothingIsOfferedOrOpened) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  first_.host.may_share = false;
  EXPECT_EQ(first_.Share(1).token(), "");
  EXPECT_EQ(first_.memory->WhyNotMovable(), "");
  first_.host.may_share = true;
  second_.host.may_share = false;
  const std::string token = first_.Share(1).token();
  const size_t sent = second_.host.sent.size();
  second_.Open(token, 9, 2 * kMiB);
  EXPECT_EQ(second_.host.sent.size(), sent);
  EXPECT_EQ(second_.host.grants.back().error(), static_cast<int>(CudaResult::kOutOfMemory));
}

TEST_F(SessionHandlesTest, HandlesAreHeldByTheWorkerAndChargedUntilTheyAreDropped) {
  first_.Create(1, 20 * kMiB, 2);
  EXPECT_EQ(first_.host.asked_bytes, 40 * kMiB);
  EXPECT_EQ(first_.host.largest, 20 * kMiB);
  first_.host.Deliver({20 * kMiB, 20 * kMiB});
  const auto& hold = first_.host.sent.back().hold();
  ASSERT_EQ(hold.handle_size(), 2);
  EXPECT_EQ(hold.handle(0), 1u);
  EXPECT_EQ(hold.handle(1), 2u);
  EXPECT_EQ(first_.host.attached, 2u);
  EXPECT_TRUE(first_.host.grants.empty());
  first_.Done();
  EXPECT_EQ(first_.host.grants.back().bytes(), 40 * kMiB);
  EXPECT_EQ(first_.memory->backed_bytes(), 40 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 40 * kMiB);
  first_.Drop(1);
  EXPECT_EQ(first_.host.sent.back().drop().handle(), 1u);
  first_.Done();
  // Nobody else's before the worker is gone, but the session's own.
  EXPECT_EQ(first_.host.returned, 0u);
  EXPECT_EQ(first_.memory->kept_bytes(), 20 * kMiB);
  first_.host.asked_bytes = 0;
  first_.Create(3, 20 * kMiB, 1);
  EXPECT_EQ(first_.host.asked_bytes, 0u);
  EXPECT_EQ(first_.host.sent.back().hold().handle(0), 3u);
  first_.Done();
  EXPECT_EQ(first_.memory->kept_bytes(), 0u);
  EXPECT_EQ(quota_->used_bytes(), 40 * kMiB);
}

TEST_F(SessionHandlesTest, ASessionHasNoMoreHandlesThanItsLeaseSays) {
  const auto out_of_memory = static_cast<int>(CudaResult::kOutOfMemory);
  TestSession bounded(quota_, &shares_, "lease", "a device", /*max_handles=*/2);
  bounded.Create(1, 2 * kMiB, 3);
  EXPECT_EQ(bounded.Error(), out_of_memory);
  bounded.Create(1, 2 * kMiB, 2);
  bounded.host.Deliver({2 * kMiB, 2 * kMiB});
  bounded.Done();
  EXPECT_EQ(bounded.Error(), 0);
  bounded.Create(3, 2 * kMiB, 1);
  EXPECT_EQ(bounded.Error(), out_of_memory);
  // Also for what others offer.
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  const std::string token = first_.Share(1).token();
  bounded.Open(token, 3, 2 * kMiB);
  EXPECT_EQ(bounded.Error(), out_of_memory);
  EXPECT_EQ(first_.host.bad_returns, 0);
  // What is dropped leaves room.
  bounded.Drop(1);
  bounded.Done();
  bounded.Open(token, 3, 2 * kMiB);
  bounded.Done();
  EXPECT_EQ(bounded.Error(), 0);
}

TEST_F(SessionHandlesTest, ChunksThatDoNotAddUpAreKeptForOtherUses) {
  first_.Create(1, 20 * kMiB, 4);
  first_.host.Deliver({20 * kMiB, 2 * kMiB, 2 * kMiB});
  first_.Done();
  EXPECT_EQ(first_.host.grants.back().bytes(), 20 * kMiB);
  EXPECT_EQ(first_.memory->kept_bytes(), 4 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 24 * kMiB);
}

TEST_F(SessionHandlesTest, OtherSizesComeOneAtATimeInPieces) {
  first_.Create(1, 22 * kMiB, 3);
  EXPECT_EQ(first_.host.asked_bytes, 22 * kMiB);
  first_.host.Deliver({20 * kMiB, 2 * kMiB});
  EXPECT_EQ(first_.host.sent.back().hold().handle(1), 1u);
  first_.Done();
  EXPECT_EQ(first_.host.grants.back().bytes(), 22 * kMiB);
}

TEST_F(SessionHandlesTest, MalformedRequestsAreRefused) {
  const int invalid = static_cast<int>(CudaResult::kInvalidValue);
  first_.Create(1, 3 * kMiB, 1);
  EXPECT_EQ(first_.Error(), invalid);
  first_.Create(1, 2 * kMiB, 257);
  EXPECT_EQ(first_.Error(), invalid);
  first_.Create(~uint64_t{0}, 2 * kMiB, 2);
  EXPECT_EQ(first_.Error(), invalid);
  // Of another device of the session.
  first_.Create(HandleOnDevice(1, 1), 2 * kMiB, 1);
  EXPECT_EQ(first_.Error(), invalid);
  first_.Create(HandleOnDevice(1, 0) - 1, 2 * kMiB, 2);
  EXPECT_EQ(first_.Error(), invalid);
  first_.Create(1, 2048 * kMiB, 1);
  EXPECT_EQ(first_.Error(), static_cast<int>(CudaResult::kOutOfMemory));
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  first_.Create(1, 2 * kMiB, 1);
  EXPECT_EQ(first_.Error(), invalid);
  first_.Drop(9);
  EXPECT_EQ(first_.host.bad_returns, 1);
}

TEST_F(SessionHandlesTest, WhatTheWorkerCannotLetGoOfGoesToNobodyUntilTheEnd) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  first_.Drop(1);
  first_.Done(static_cast<int>(CudaResult::kIllegalState));
  EXPECT_EQ(first_.host.returned, 0u);
  EXPECT_EQ(quota_->used_bytes(), 2 * kMiB);
  first_.memory->End();
  EXPECT_EQ(first_.host.returned, 1u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionHandlesTest, TheNextWorkerGetsTheHandles) {
  first_.Create(1, 2 * kMiB, 2);
  first_.host.Deliver({2 * kMiB, 2 * kMiB});
  first_.Done();
  first_.memory->Suspend();
  first_.Drop(2);
  CudaResult result = CudaResult::kUnknown;
  first_.memory->MapAgain(true, [&](CudaResult r) { result = r; });
  EXPECT_EQ(first_.host.sent.back().hold().handle_size(), 2);
  first_.Done();
  EXPECT_EQ(result, CudaResult::kSuccess);
  EXPECT_EQ(first_.host.sent.back().drop().handle(), 2u);
  first_.Done();
  EXPECT_EQ(first_.memory->kept_bytes(), 2 * kMiB);
}

TEST_F(SessionHandlesTest, WhatWasDroppedGoesBackWithTheWorker) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  first_.Drop(1);
  first_.Done();
  EXPECT_EQ(first_.host.returned, 0u);
  first_.memory->MapAgain(true, [](CudaResult) {});
  EXPECT_EQ(first_.host.returned, 1u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionHandlesTest, AReaderOfWhatIsLeftGetsNoHandles) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  const size_t sent = first_.host.sent.size();
  CudaResult result = CudaResult::kUnknown;
  first_.memory->MapAgain(false, [&](CudaResult r) { result = r; });
  EXPECT_EQ(result, CudaResult::kSuccess);
  EXPECT_EQ(first_.host.sent.size(), sent);
}

TEST_F(SessionHandlesTest, AnotherSessionOfTheLeaseOpensWhatIsOffered) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  const std::string token = first_.Share(1).token();
  ASSERT_EQ(token.size(), ShareBook::kTokenBytes);
  second_.Open(token, 5, 2 * kMiB);
  EXPECT_EQ(second_.host.sent.back().hold().handle(0), 5u);
  second_.Done();
  EXPECT_EQ(second_.host.grants.back().bytes(), 2 * kMiB);
  // One memory, charged once, for as long as anyone holds it.
  EXPECT_EQ(quota_->used_bytes(), 2 * kMiB);
  first_.memory->End();
  EXPECT_EQ(first_.host.returned, 0u);
  EXPECT_EQ(quota_->used_bytes(), 2 * kMiB);
  second_.Drop(5);
  second_.Done();
  EXPECT_EQ(second_.memory->kept_bytes(), 2 * kMiB);
  second_.memory->End();
  EXPECT_EQ(second_.host.returned, 1u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionHandlesTest, WhatOthersHoldIsUsedForNothingElse) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  const std::string token = first_.Share(1).token();
  for (uint64_t handle = 5; handle < 8; ++handle) {
    second_.Open(token, handle, 2 * kMiB);
    second_.Done();
    second_.Drop(handle);
    second_.Done();
  }
  // One hold is kept, however often it was opened.
  EXPECT_EQ(second_.memory->kept_bytes(), 2 * kMiB);
  first_.Drop(1);
  first_.Done();
  EXPECT_EQ(first_.memory->kept_bytes(), 2 * kMiB);
  first_.host.asked_bytes = 0;
  first_.Create(2, 2 * kMiB, 1);
  EXPECT_EQ(first_.host.asked_bytes, 2 * kMiB);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  EXPECT_EQ(quota_->used_bytes(), 4 * kMiB);
  first_.memory->End();
  second_.memory->End();
  EXPECT_EQ(first_.host.returned + second_.host.returned, 2u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionHandlesTest, WhoOpensMemoryOfAnotherQuotaIsChargedForIt) {
  const auto quota = Quota::Create(25 * kMiB);
  TestSession other(quota, &shares_, "lease");
  first_.Create(1, 20 * kMiB, 1);
  first_.host.Deliver({20 * kMiB});
  first_.Done();
  const std::string token = first_.Share(1).token();
  for (int i = 0; i < 3; ++i) {
    other.Open(token, 5, 20 * kMiB);
    other.Done();
    EXPECT_EQ(quota->used_bytes(), 20 * kMiB);
    other.Drop(5);
    other.Done();
    // One hold is kept.
    EXPECT_EQ(quota->used_bytes(), 20 * kMiB);
    other.memory->MapAgain(true, [](CudaResult) {});
    EXPECT_EQ(quota->used_bytes(), 0u);
  }
  const Reservation used = quota->Reserve(10 * kMiB, 10 * kMiB, 1);
  other.Open(token, 5, 20 * kMiB);
  EXPECT_EQ(other.Error(), static_cast<int>(CudaResult::kOutOfMemory));
}

TEST_F(SessionHandlesTest, MemoryThatIsOpenedAgainAndAgainIsChargedOnce) {
  const auto quota = Quota::Create(45 * kMiB);
  TestSession other(quota, &shares_, "lease");
  first_.Create(1, 20 * kMiB, 1);
  first_.host.Deliver({20 * kMiB});
  first_.Done();
  const std::string token = first_.Share(1).token();
  for (int i = 0; i < 5; ++i) {
    other.Open(token, 5, 20 * kMiB);
    other.Done();
    other.Drop(5);
    other.Done();
  }
  EXPECT_EQ(quota->used_bytes(), 20 * kMiB);
}

TEST_F(SessionHandlesTest, NobodyElseOpensIt) {
  const int invalid = static_cast<int>(CudaResult::kInvalidValue);
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  const std::string token = first_.Share(1).token();
  stranger_.Open(token, 5, 2 * kMiB);
  EXPECT_EQ(stranger_.Error(), invalid);
  second_.Open("no token at all", 5, 2 * kMiB);
  EXPECT_EQ(second_.Error(), invalid);
  second_.Open(token, 5, 4 * kMiB);
  EXPECT_EQ(second_.Error(), invalid);
  second_.Open(token, 0, 2 * kMiB);
  EXPECT_EQ(second_.Error(), invalid);
  EXPECT_EQ(first_.Share(7).error(), invalid);
  first_.memory->End();
  second_.Open(token, 5, 2 * kMiB);
  EXPECT_EQ(second_.Error(), invalid);
}

TEST_F(SessionHandlesTest, ARequestTakesBackNoMoreTokensThanItMay) {
  MemoryRequest request;
  request.set_id(9);
  for (int i = 0; i < 1025; ++i) request.mutable_share()->add_withdrawn("token");
  first_.memory->Request(request);
  EXPECT_EQ(first_.host.bad_returns, 1);
  request.mutable_share()->mutable_withdrawn()->RemoveLast();
  first_.memory->Request(request);
  EXPECT_EQ(first_.host.bad_returns, 1);
  EXPECT_NE(first_.host.grants.back().token(), "");
  first_.memory->End();
}

TEST_F(SessionHandlesTest, ARangeOfTheArenaIsSharedByChunks) {
  MemoryRequest request;
  request.set_va(kArena.base);
  request.set_min_bytes(66 * kMiB);
  request.set_want_bytes(66 * kMiB);
  first_.memory->Request(request);
  first_.host.Deliver({64 * kMiB, 2 * kMiB});
  first_.Done();
  const MemoryGrant offer = first_.Share(0, kArena.base + 10 * kMiB, 4096);
  EXPECT_EQ(offer.va(), kArena.base);
  EXPECT_EQ(offer.bytes(), 64 * kMiB);
  second_.Open(offer.token(), 3, offer.bytes());
  second_.Done();
  EXPECT_EQ(second_.host.grants.back().bytes(), 64 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 66 * kMiB);
  // Its owner gives it back while it is open elsewhere.
  MemoryReturn giving;
  giving.set_va(kArena.base);
  giving.set_bytes(66 * kMiB);
  first_.memory->Return(giving);
  MemoryDone done;
  done.set_id(first_.host.sent.back().unmap().id());
  EXPECT_TRUE(first_.memory->OnMemoryDone(done).ok());
  EXPECT_EQ(first_.memory->kept_bytes(), 66 * kMiB);
  EXPECT_NE(first_.Share(0, kArena.base, 4096).error(), 0);
  second_.memory->End();
  EXPECT_EQ(second_.host.returned, 0u);
  first_.memory->End();
  EXPECT_EQ(first_.host.returned, 2u);
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(SessionHandlesTest, AnEventIsKnownByItsTokenAlone) {
  const std::string token = first_.Share(0).token();
  second_.Open(token, 0, 2 * kMiB);
  EXPECT_EQ(second_.Error(), 0);
  EXPECT_NE(second_.host.grants.back().bytes(), 0u);
  stranger_.Open(token, 0, 2 * kMiB);
  EXPECT_NE(stranger_.Error(), 0);
  second_.Open(token, 5, 2 * kMiB);
  EXPECT_NE(second_.Error(), 0);
}

TEST_F(SessionHandlesTest, WhatIsOfferedIsOpenedOnItsDeviceOnly) {
  first_.Create(1, 2 * kMiB, 1);
  first_.host.Deliver({2 * kMiB});
  first_.Done();
  const std::string memory = first_.Share(1).token();
  const std::string event = first_.Share(0).token();
  TestSession elsewhere(quota_, &shares_, "lease", "another device");
  elsewhere.Open(memory, 1, 2 * kMiB);
  EXPECT_EQ(elsewhere.Error(), static_cast<int>(CudaResult::kInvalidValue));
  elsewhere.Open(event, 0, 2 * kMiB);
  EXPECT_EQ(elsewhere.Error(), 0);
  second_.Open(memory, HandleOnDevice(1, 1), 2 * kMiB);
  EXPECT_EQ(second_.Error(), static_cast<int>(CudaResult::kInvalidValue));
}

}  // namespace
}  // namespace warpline::server
