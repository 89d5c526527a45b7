// The order of a session's streams, and whether anything of theirs is under way.
#include "server/device/cuda/shared/session_streams.h"

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/shared/legacy_order.h"
#include "server/device/cuda/testing/timeline_driver.h"

namespace warpline::device {
namespace {

class SessionStreamsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto streams = SessionStreams::Open(driver_.api(), nullptr);
    ASSERT_TRUE(streams.ok()) << streams.status();
    streams_ = *std::move(streams);
    ASSERT_EQ(streams_->Create(CU_STREAM_DEFAULT, &blocking_), CUDA_SUCCESS);
    ASSERT_EQ(streams_->Create(CU_STREAM_DEFAULT, &other_), CUDA_SUCCESS);
    ASSERT_EQ(streams_->Create(CU_STREAM_NON_BLOCKING, &apart_), CUDA_SUCCESS);
  }
  void TearDown() override {
    streams_.reset();
    EXPECT_EQ(driver_.Misuse(), "");
    EXPECT_EQ(driver_.Live(), "");
  }

  // Issues the operation with this name.
  CUresult Issue(StreamId id, uint64_t name) {
    SessionStream* const stream = streams_->Of(id);
    const LegacyOrder::Scope scope(streams_->order(), stream);
    if (scope.error() != CUDA_SUCCESS) return scope.error();
    return driver_.api()->p_cuMemsetD8Async(name, 0, 1, stream->native());
  }
  int OrderCalls() { return driver_.Count("cuEventRecord") + driver_.Count("cuStreamWaitEvent"); }

  TimelineDriver driver_;
  std::unique_ptr<SessionStreams> streams_;
  StreamId blocking_{}, other_{}, apart_{};
};

TEST_F(SessionStreamsTest, LegacyAndBlockingStreamsWaitForEachOther) {
  EXPECT_EQ(Issue(blocking_, 1), CUDA_SUCCESS);
  EXPECT_EQ(Issue(other_, 2), CUDA_SUCCESS);
  EXPECT_EQ(Issue(apart_, 3), CUDA_SUCCESS);
  EXPECT_EQ(Issue(kLegacyStream, 4), CUDA_SUCCESS);
  EXPECT_EQ(Issue(blocking_, 5), CUDA_SUCCESS);
  EXPECT_EQ(Issue(other_, 6), CUDA_SUCCESS);
  EXPECT_EQ(Issue(apart_, 7), CUDA_SUCCESS);
  EXPECT_EQ(Issue(kLegacyStream, 8), CUDA_SUCCESS);
  EXPECT_TRUE(driver_.ComesAfter(4, 1));
  EXPECT_TRUE(driver_.ComesAfter(4, 2));
  EXPECT_TRUE(driver_.ComesAfter(5, 4));
  EXPECT_TRUE(driver_.ComesAfter(6, 4));
  EXPECT_TRUE(driver_.ComesAfter(8, 5));
  EXPECT_TRUE(driver_.ComesAfter(8, 6));
  EXPECT_FALSE(driver_.ComesAfter(2, 1)) << "two blocking streams";
  EXPECT_FALSE(driver_.ComesAfter(6, 5));
  EXPECT_FALSE(driver_.ComesAfter(4, 3)) << "a non-blocking stream";
  EXPECT_FALSE(driver_.ComesAfter(7, 4));
  EXPECT_FALSE(driver_.ComesAfter(8, 7));
}

TEST_F(SessionStreamsTest, NothingIsIssuedThatIsNotNeeded) {
  uint64_t name = 1;
  for (const StreamId alone : {blocking_, apart_}) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Issue(alone, name++), CUDA_SUCCESS);
  }
  EXPECT_EQ(OrderCalls(), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Issue(kLegacyStream, name++), CUDA_SUCCESS);
  EXPECT_EQ(OrderCalls(), 2) << "a record and a wait";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Issue(blocking_, name++), CUDA_SUCCESS);
  EXPECT_EQ(OrderCalls(), 4);
  EXPECT_EQ(Issue(other_, name++), CUDA_SUCCESS);
  EXPECT_EQ(OrderCalls(), 5) << "the legacy stream's mark stands already";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Issue(apart_, name++), CUDA_SUCCESS);
  EXPECT_EQ(OrderCalls(), 5);
}

TEST_F(SessionStreamsTest, TheWorkOfADestroyedStreamCountsStill) {
  EXPECT_EQ(Issue(blocking_, 1), CUDA_SUCCESS);
  EXPECT_EQ(Issue(apart_, 2), CUDA_SUCCESS);
  EXPECT_EQ(streams_->Destroy(blocking_), CUDA_SUCCESS);
  EXPECT_EQ(streams_->Destroy(apart_), CUDA_SUCCESS);
  EXPECT_EQ(streams_->Destroy(apart_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(streams_->Destroy(kLegacyStream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(streams_->QueryIdle(), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(Issue(kLegacyStream, 3), CUDA_SUCCESS);
  EXPECT_TRUE(driver_.ComesAfter(3, 1));
  EXPECT_FALSE(driver_.ComesAfter(3, 2));
  const int calls = OrderCalls();
  EXPECT_EQ(Issue(kLegacyStream, 4), CUDA_SUCCESS);
  EXPECT_EQ(OrderCalls(), calls) << "once";
  driver_.Complete();
  EXPECT_EQ(streams_->QueryIdle(), CUDA_SUCCESS);
}

// What is kept of destroyed streams does not add up.
TEST_F(SessionStreamsTest, WhatIsCompleteIsForgotten) {
  for (uint64_t name = 1; name < 20; ++name) {
    StreamId stream{};
    ASSERT_EQ(streams_->Create(CU_STREAM_DEFAULT, &stream), CUDA_SUCCESS);
    EXPECT_EQ(Issue(stream, name), CUDA_SUCCESS);
    driver_.Complete();
    EXPECT_EQ(streams_->Destroy(stream), CUDA_SUCCESS);
  }
  EXPECT_EQ(streams_->QueryIdle(), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Live(), "event 4, stream 4");
}

TEST_F(SessionStreamsTest, IdleIsWhenNothingIsUnderWay) {
  EXPECT_EQ(streams_->QueryIdle(), CUDA_SUCCESS);
  for (const StreamId stream : {kLegacyStream, blocking_, apart_}) {
    EXPECT_EQ(Issue(stream, static_cast<uint64_t>(stream)), CUDA_SUCCESS);
    EXPECT_EQ(streams_->QueryIdle(), CUDA_ERROR_NOT_READY);
    driver_.Complete();
    EXPECT_EQ(streams_->QueryIdle(), CUDA_SUCCESS);
  }
}

TEST_F(SessionStreamsTest, AFailureToOrderIsReturnedAndMadeUpFor) {
  EXPECT_EQ(Issue(blocking_, 1), CUDA_SUCCESS);
  for (const char* call : {"cuEventRecord", "cuStreamWaitEvent"}) {
    driver_.Fail(call, 1);
    EXPECT_EQ(Issue(kLegacyStream, 2), CUDA_ERROR_OUT_OF_MEMORY);
    driver_.Fail(call, 0);
  }
  EXPECT_EQ(Issue(kLegacyStream, 3), CUDA_SUCCESS);
  EXPECT_TRUE(driver_.ComesAfter(3, 1));
  StreamId stream{};
  driver_.Fail("cuEventCreate", 1);
  EXPECT_EQ(streams_->Create(CU_STREAM_DEFAULT, &stream), CUDA_ERROR_OUT_OF_MEMORY);
  driver_.Fail("cuEventCreate", 0);
  EXPECT_EQ(streams_->Create(2, &stream), CUDA_ERROR_INVALID_VALUE);
}

// Streams are issued to, made and destroyed at the same time, and in turns all have to meet.
TEST_F(SessionStreamsTest, ThreadsIssueAtTheSameTime) {
  constexpr uint64_t kOperations = 50;
  constexpr uint64_t kRounds = 4;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    const auto run = [&](StreamId stream, uint64_t first) {
      for (uint64_t i = 0; i < kOperations; ++i) {
        EXPECT_EQ(Issue(stream, (round << 32) + first + i), CUDA_SUCCESS);
      }
    };
    std::vector<std::thread> threads;
    threads.emplace_back(run, kLegacyStream, 1000);
    threads.emplace_back(run, kLegacyStream, 2000);
    threads.emplace_back(run, blocking_, 3000);
    threads.emplace_back(run, other_, 4000);
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kOperations; ++i) {
        StreamId stream{};
        EXPECT_EQ(streams_->Create(CU_STREAM_DEFAULT, &stream), CUDA_SUCCESS);
        EXPECT_EQ(Issue(stream, (round << 32) + 5000 + i), CUDA_SUCCESS);
        EXPECT_EQ(streams_->Destroy(stream), CUDA_SUCCESS);
      }
    });
    for (std::thread& thread : threads) thread.join();
    const uint64_t last = (round << 32) + 10;
    EXPECT_EQ(Issue(kLegacyStream, last), CUDA_SUCCESS);
    EXPECT_EQ(Issue(other_, last + 1), CUDA_SUCCESS);
    for (uint64_t i = 0; i < kOperations; ++i) {
      for (const uint64_t first : {1000, 2000, 3000, 4000, 5000}) {
        EXPECT_TRUE(driver_.ComesAfter(last, (round << 32) + first + i)) << first + i;
        EXPECT_TRUE(driver_.ComesAfter(last + 1, (round << 32) + first + i)) << first + i;
      }
    }
  }
}

}  // namespace
}  // namespace warpline::device
