// The order of a session's streams, and whether anything of theirs is under way.
#include "server/device/cuda/shared/session_streams.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/shared/green_contexts.h"
#include "server/device/cuda/shared/legacy_order.h"
#include "server/device/cuda/shared/quiet_moments.h"
#include "server/device/cuda/shared/session_stream.h"
#include "server/device/cuda/shared/share_planner.h"
#include "server/device/cuda/testing/timeline_driver.h"

namespace warpline::device {
namespace {

int64_t g_now_ms = 1000;

class SessionStreamsTest : public testing::Test {
 protected:
  void SetUp() override {
    contexts_ = std::make_unique<GreenContexts>(driver_.api(), 0);
    planner_ = std::make_unique<SharePlanner>(contexts_->slots());
    session_ = planner_->Join({.on_share = [this](uint32_t share) { share_ = share; }});
    neighbour_ = planner_->Join({});
    moments_ = std::make_unique<QuietMoments>(driver_.api());
    auto streams = SessionStreams::Open(driver_.api(), contexts_.get(), session_.get(),
                                        moments_.get(), nullptr);
    ASSERT_TRUE(streams.ok()) << streams.status();
    streams_ = *std::move(streams);
    ASSERT_EQ(streams_->Create(CU_STREAM_DEFAULT, &blocking_), CUDA_SUCCESS);
    ASSERT_EQ(streams_->Create(CU_STREAM_DEFAULT, &other_), CUDA_SUCCESS);
    ASSERT_EQ(streams_->Create(CU_STREAM_NON_BLOCKING, &apart_), CUDA_SUCCESS);
  }
  void TearDown() override {
    streams_.reset();
    moments_.reset();
    neighbour_.reset();
    session_.reset();
    planner_.reset();
    contexts_.reset();
    EXPECT_EQ(driver_.Misuse(), "");
    EXPECT_EQ(driver_.Live(), "");
  }

  // Issues the operation with this name.
  CUresult Issue(StreamId id, uint64_t name, const StreamWork& work = {}) {
    return Issue(streams_.get(), id, name, work);
  }
  CUresult Issue(SessionStreams* streams, StreamId id, uint64_t name, const StreamWork& work) {
    SessionStream* const stream = streams->Of(id);
    const LegacyOrder::Scope scope(streams->order(), stream, work);
    if (scope.error() != CUDA_SUCCESS) return scope.error();
    if (work.blocks > 0) stream->AddKernel();
    return driver_.api()->p_cuMemsetD8Async(name, 0, 1, scope.native());
  }
  // The neighbour begins to work, which takes multiprocessors from this session.
  void NeighbourWorks() { neighbour_->Use(&neighbour_stream_, SharePlanner::kAll); }
  CUstream Native(StreamId id) { return SessionStream::Use(streams_->Of(id)).native(); }
  int OrderCalls() { return driver_.Count("cuEventRecord") + driver_.Count("cuStreamWaitEvent"); }

  TimelineDriver driver_;
  std::unique_ptr<GreenContexts> contexts_;
  std::unique_ptr<SharePlanner> planner_;
  std::unique_ptr<QuietMoments> moments_;
  std::unique_ptr<SharePlanner::Session> session_, neighbour_;
  SharePlanner::StreamUse neighbour_stream_;
  std::atomic<uint32_t> share_{0};  // Of the session's, in thousandths.
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
  EXPECT_EQ(driver_.Live(), "event 12, green context 77, stream 4");
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

TEST_F(SessionStreamsTest, TheSessionHearsWhenKernelsAreOver) {
  EXPECT_EQ(Issue(apart_, 1, {.blocks = 8}), CUDA_SUCCESS);
  streams_->Look();
  EXPECT_NE(session_->busy(), SlotSet{0});
  EXPECT_EQ(streams_->QueryIdle(), CUDA_ERROR_NOT_READY);
  EXPECT_NE(session_->busy(), SlotSet{0});
  driver_.Complete();
  EXPECT_EQ(streams_->QueryIdle(), CUDA_SUCCESS);
  EXPECT_EQ(session_->busy(), SlotSet{0});
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

// Kernels of the second operation run elsewhere, and yet come after those of the first.
TEST_F(SessionStreamsTest, AStreamGoesOnInOrderWhereItsSessionGetsItsPlace) {
  constexpr StreamWork kWork = {SharePlanner::kAll, false};
  EXPECT_EQ(Issue(apart_, 1, kWork), CUDA_SUCCESS);
  EXPECT_EQ(Issue(kLegacyStream, 2, kWork), CUDA_SUCCESS);
  const CUstream before = Native(apart_);
  EXPECT_EQ(streams_->Of(apart_)->place(), contexts_->whole());
  NeighbourWorks();
  EXPECT_EQ(Issue(apart_, 3, kWork), CUDA_SUCCESS);
  EXPECT_NE(Native(apart_), before);
  EXPECT_EQ(streams_->Of(apart_)->place(), session_->place());
  EXPECT_NE(session_->place(), contexts_->whole());
  EXPECT_TRUE(driver_.ComesAfter(3, 1));
  // The order of legacy and blocking streams goes on, whichever of them has moved.
  EXPECT_EQ(Issue(blocking_, 4, kWork), CUDA_SUCCESS);
  EXPECT_EQ(Issue(kLegacyStream, 5, kWork), CUDA_SUCCESS);
  EXPECT_EQ(Issue(other_, 6, kWork), CUDA_SUCCESS);
  EXPECT_TRUE(driver_.ComesAfter(4, 2));
  EXPECT_TRUE(driver_.ComesAfter(5, 4));
  EXPECT_TRUE(driver_.ComesAfter(5, 2));
  EXPECT_TRUE(driver_.ComesAfter(6, 5));
  EXPECT_EQ(streams_->QueryIdle(), CUDA_ERROR_NOT_READY);
  driver_.Complete();
  EXPECT_EQ(streams_->QueryIdle(), CUDA_SUCCESS);
}

TEST_F(SessionStreamsTest, WorkThatNeedsTheWholeDeviceHasItForAsLong) {
  NeighbourWorks();
  EXPECT_EQ(Issue(apart_, 1, {SharePlanner::kAll, false}), CUDA_SUCCESS);
  EXPECT_NE(streams_->Of(apart_)->place(), contexts_->whole());
  EXPECT_LT(share_, 1000u);
  for (uint64_t name : {2, 12}) {
    EXPECT_EQ(Issue(apart_, name, {SharePlanner::kAll, true}), CUDA_SUCCESS);
    EXPECT_EQ(streams_->Of(apart_)->place(), contexts_->whole());
    EXPECT_EQ(share_, 1000u);
    driver_.Complete();
    streams_->Look();
    EXPECT_LT(share_, 1000u) << "nothing is seen elsewhere any more";
  }
  EXPECT_EQ(Issue(apart_, 3, {SharePlanner::kAll, false}), CUDA_SUCCESS);
  EXPECT_EQ(streams_->Of(apart_)->place(), session_->place());
  EXPECT_TRUE(driver_.ComesAfter(2, 1));
  EXPECT_TRUE(driver_.ComesAfter(3, 2));
}

TEST_F(SessionStreamsTest, AStreamInUseElsewhereStaysWhereItIs) {
  NeighbourWorks();
  const CUstream before = Native(apart_);
  {
    const SessionStream::Use use(streams_->Of(apart_));
    EXPECT_EQ(Issue(apart_, 1, {SharePlanner::kAll, false}), CUDA_SUCCESS);
    EXPECT_EQ(use.native(), before);
  }
  EXPECT_EQ(Issue(apart_, 2), CUDA_SUCCESS);
  EXPECT_NE(Native(apart_), before);
  EXPECT_TRUE(driver_.ComesAfter(2, 1));
}

TEST_F(SessionStreamsTest, AStreamThatCannotMoveGoesOnWhereItIs) {
  const SlotSet whole = SetOf(contexts_->whole());
  EXPECT_EQ(Issue(apart_, 1), CUDA_SUCCESS);
  EXPECT_EQ(Issue(other_, 11), CUDA_SUCCESS);
  NeighbourWorks();
  uint64_t name = 1;
  for (const char* call : {"cuGreenCtxStreamCreate", "cuStreamWaitEvent"}) {
    const StreamId id = name == 1 ? apart_ : other_;
    const CUstream before = Native(id);
    driver_.Fail(call, 1);
    EXPECT_EQ(Issue(id, name + 1, {1056, false}), CUDA_SUCCESS) << call;
    const int tried = driver_.Count(call);
    EXPECT_EQ(Issue(id, name + 2, {1056, false}), CUDA_SUCCESS) << call;
    EXPECT_EQ(driver_.Count(call), tried) << "not tried again";
    EXPECT_EQ(Native(id), before);
    driver_.Fail(call, 0);
    EXPECT_TRUE(driver_.ComesAfter(name + 1, name));
    EXPECT_EQ(streams_->Busy(), whole) << call;
    EXPECT_EQ(share_, 1000u) << "it does not run where it should";
    streams_->Look();
    EXPECT_EQ(share_, 1000u);
    driver_.Complete();
    name += 10;
  }
}

TEST_F(SessionStreamsTest, KernelsAreWaitedForAndCopiesAreNot) {
  EXPECT_TRUE(streams_->Quiet());
  EXPECT_EQ(Issue(apart_, 1), CUDA_SUCCESS);
  EXPECT_TRUE(streams_->Quiet());
  EXPECT_EQ(Issue(apart_, 2, {1, false}), CUDA_SUCCESS);
  EXPECT_FALSE(streams_->Quiet());
  driver_.Complete();
  EXPECT_EQ(Issue(apart_, 3), CUDA_SUCCESS);
  EXPECT_TRUE(streams_->Quiet()) << "a copy behind the kernel";
  EXPECT_TRUE(streams_->Quiet());
  EXPECT_EQ(Issue(apart_, 4, {1, false}), CUDA_SUCCESS);
  EXPECT_EQ(streams_->Destroy(apart_), CUDA_SUCCESS);
  EXPECT_FALSE(streams_->Quiet()) << "of a stream that was destroyed";
  driver_.Complete();
  EXPECT_TRUE(streams_->Quiet());
}

TEST_F(SessionStreamsTest, KernelsAreBusyWhereTheyWereIssued) {
  EXPECT_EQ(streams_->Busy(), 0u);
  EXPECT_EQ(Issue(apart_, 1, {1056, false}), CUDA_SUCCESS);
  const SlotSet whole = SetOf(streams_->Of(apart_)->place());
  NeighbourWorks();
  EXPECT_EQ(streams_->Busy(), whole);
  EXPECT_EQ(Issue(apart_, 2), CUDA_SUCCESS);
  EXPECT_NE(SetOf(streams_->Of(apart_)->place()), whole);
  EXPECT_EQ(streams_->Busy(), whole) << "a copy behind the kernel has moved the stream";
  streams_->Look();
  EXPECT_EQ(session_->busy(), whole);
  driver_.Complete();
  EXPECT_EQ(streams_->Busy(), 0u);
  EXPECT_EQ(Issue(apart_, 3, {1056, false}), CUDA_SUCCESS);
  EXPECT_EQ(streams_->Busy(), SetOf(session_->place()));
  EXPECT_NE(streams_->Busy(), whole);
  driver_.Complete();
}

TEST_F(SessionStreamsTest, ASessionRunsElsewhereWhenWhatItLeftIsComplete) {
  EXPECT_EQ(share_, 1000u);
  EXPECT_EQ(Issue(apart_, 1, {1056, false}), CUDA_SUCCESS);
  NeighbourWorks();
  EXPECT_EQ(Issue(apart_, 2, {1056, false}), CUDA_SUCCESS);
  EXPECT_EQ(Issue(apart_, 3, {1056, false}), CUDA_SUCCESS);
  EXPECT_EQ(share_, 1000u) << "the first kernel is where it was";
  driver_.Complete();
  EXPECT_EQ(Issue(apart_, 4, {1056, false}), CUDA_SUCCESS);
  EXPECT_LT(share_, 1000u);
  EXPECT_EQ(streams_->Busy(), SetOf(session_->place())) << "and nowhere else";
  driver_.Complete();
}

TEST_F(SessionStreamsTest, KernelsOfADestroyedStreamAreBusyWhereItWas) {
  NeighbourWorks();
  EXPECT_EQ(Issue(apart_, 1, {1056, false}), CUDA_SUCCESS);
  const SlotSet place = SetOf(session_->place());
  EXPECT_NE(place, SetOf(contexts_->whole()));
  EXPECT_EQ(streams_->Destroy(apart_), CUDA_SUCCESS);
  EXPECT_EQ(streams_->Busy(), place);
  streams_->Look();
  EXPECT_LT(share_, 1000u);
  driver_.Complete();
  EXPECT_EQ(streams_->Busy(), 0u);
}

TEST_F(SessionStreamsTest, ACopyingStreamDoesNotSayWhereKernelsAre) {
  EXPECT_EQ(Issue(apart_, 1, {1056, false}), CUDA_SUCCESS);
  NeighbourWorks();
  EXPECT_EQ(Issue(apart_, 2, {1056, false}), CUDA_SUCCESS);
  EXPECT_EQ(Issue(other_, 3), CUDA_SUCCESS);
  EXPECT_EQ(share_, 1000u);
  streams_->Look();
  EXPECT_EQ(share_, 1000u);
  driver_.Complete();
}

TEST_F(SessionStreamsTest, ASessionThatIsQuietRunsElsewhereAtOnce) {
  EXPECT_EQ(Issue(apart_, 1, {1056, false}), CUDA_SUCCESS);
  driver_.Complete();
  NeighbourWorks();
  EXPECT_EQ(share_, 1000u);
  EXPECT_EQ(Issue(apart_, 2, {1056, false}), CUDA_SUCCESS);
  EXPECT_LT(share_, 1000u);
  driver_.Complete();
}

// Repeats the simulation of share_planner_test with streams that move. The light session's executor
// keeps two kernels of 5 ms of the whole device queued. They take 82 ms on 8 multiprocessors of
// 132, and 41 on 16. The heavy session's kernels are so short that it always runs at its place.
TEST_F(SessionStreamsTest, ASessionHasItsPartAlthoughItsKernelsStayWhereTheyWereLaunched) {
  constexpr int kMs = 30'000;
  constexpr double kWork = 660;  // Milliseconds of a multiprocessor.
  SharePlanner planner(contexts_->slots(), [] { return g_now_ms; });
  SharePlanner::StreamUse heavy_use;
  const auto light = planner.Join({}), heavy = planner.Join({.weight = 10});
  auto opened =
      SessionStreams::Open(driver_.api(), contexts_.get(), light.get(), moments_.get(), nullptr);
  ASSERT_TRUE(opened.ok());
  const std::unique_ptr<SessionStreams> streams = *std::move(opened);
  StreamId id{};
  ASSERT_EQ(streams->Create(CU_STREAM_NON_BLOCKING, &id), CUDA_SUCCESS);
  struct Kernel {
    uint64_t name;
    SlotRange on;
    double left;
  };
  std::deque<Kernel> queued;
  uint64_t name = 1'000'000;
  double had = 0;
  for (int ms = 0; ms < kMs; ++ms, ++g_now_ms) {
    heavy->Use(&heavy_use, 1056);
    heavy->Arrive(&heavy_use, heavy->place());
    while (queued.size() < 2) {
      ASSERT_EQ(Issue(streams.get(), id, ++name, {1056, false}), CUDA_SUCCESS);
      queued.push_back({name, streams->Of(id)->place(), kWork});
    }
    const int size = SizeOf(contexts_->slots(), queued.front().on);
    had += size;
    queued.front().left -= size;
    if (queued.front().left <= 0) {
      driver_.Complete(queued.front().name);
      queued.pop_front();
    }
    if (ms % 100 == 50) streams->Look();
  }
  const double all = SizeOf(contexts_->slots(), contexts_->whole());
  EXPECT_NEAR(had / kMs / all, 1.0 / 11, 0.015 / 11);
  driver_.Complete();
}

TEST_F(SessionStreamsTest, HintsMoveAlong) {
  CUstreamAttrValue value = {};
  EXPECT_EQ(streams_->Of(apart_)->SetAttribute(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, value),
            CUDA_SUCCESS);
  NeighbourWorks();
  EXPECT_EQ(Issue(apart_, 1, {1, false}), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Count("cuStreamSetAttribute"), 2);
}

// Threads issue to streams of their own and to the legacy stream while the session's place changes.
TEST_F(SessionStreamsTest, StreamsMoveWhileOthersIssue) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      StreamId stream{};
      ASSERT_EQ(streams_->Create(t == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, &stream),
                CUDA_SUCCESS);
      for (uint64_t i = 1; i < 200; ++i) {
        const uint64_t name = static_cast<uint64_t>(t + 1) * 100'000 + i * 2;
        ASSERT_EQ(Issue(stream, name, {i % 3 * 40, i % 7 == 0}), CUDA_SUCCESS);
        ASSERT_EQ(Issue(kLegacyStream, name + 1, {SharePlanner::kAll, false}), CUDA_SUCCESS);
        if (i % 5 == 0) NeighbourWorks();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t t = 1; t <= 3; ++t) {
    for (uint64_t i = 2; i < 200; ++i) {
      ASSERT_TRUE(driver_.ComesAfter(t * 100'000 + i * 2, t * 100'000 + (i - 1) * 2));
    }
  }
}

}  // namespace
}  // namespace warpline::device
