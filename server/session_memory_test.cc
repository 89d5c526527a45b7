#include "server/session_memory.h"

#include <fcntl.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

using warpline_internal::MemoryDone;
using warpline_internal::MemoryGrant;
using warpline_internal::MemoryRequest;
using warpline_internal::MemoryReturn;
using warpline_internal::ToWorker;

constexpr uint64_t kMiB = 1ull << 20;
constexpr ArenaRange kArena = {1ull << 40, 8ull << 30};

// Pool and worker in one, which answer when the test says so.
class FakeHost : public SessionMemoryHost {
 public:
  void TakeChunks(uint64_t, uint64_t want_bytes, Taken taken) override {
    ++takes;
    asked_bytes = want_bytes;
    pending = std::move(taken);
  }
  void ReturnChunks(std::vector<Chunk> chunks) override { returned += chunks.size(); }
  absl::Status SendToWorker(const ToWorker& message, absl::Span<const int> fds) override {
    sent.push_back(message);
    attached = fds.size();
    return send_status;
  }
  void OnGrant(MemoryGrant grant) override { grants.push_back(std::move(grant)); }
  void OnRequestDone() override { ++done; }
  void OnBadReturn(const absl::Status&) override { ++bad_returns; }

  // Answers the pool's request with `count` chunks of 2 MiB.
  void Deliver(size_t count) {
    std::vector<Chunk> chunks;
    for (size_t i = 0; i < count; ++i) {
      chunks.push_back(Chunk{2 * kMiB, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC))});
    }
    std::exchange(pending, nullptr)(std::move(chunks));
  }

  int takes = 0;
  uint64_t asked_bytes = 0;
  Taken pending;
  size_t returned = 0;
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
      SessionMemoryOptions{.arena = kArena, .max_chunks = 400}, quota_, &host_);
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
  EXPECT_EQ(host_.returned, 250u);
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

TEST_F(SessionMemoryTest, NumberOfChunksIsBounded) {
  Request(0, 2 * kMiB, 800 * kMiB);
  host_.Deliver(400);
  EXPECT_TRUE(Done().ok());
  EXPECT_TRUE(Done().ok());
  Request(2048 * kMiB, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(host_.grants.back().error(), static_cast<int>(CudaResult::kOutOfMemory));
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
  EXPECT_EQ(host_.returned, 1u);
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

}  // namespace
}  // namespace warpline
