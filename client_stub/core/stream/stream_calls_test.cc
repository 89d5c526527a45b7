#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

class StreamCallsTest : public CoreTest {
 protected:
  // The server refuses the next command.
  void RefuseNext() { session().SetFailureOf(session().last_seq() + 1, CudaResult::kOutOfMemory); }
};

uint64_t MemsetStream(FakeSession& session, CUstream stream, bool per_thread) {
  CUdeviceptr pointer;
  EXPECT_EQ(cuMemAlloc_v2(&pointer, 16), CUDA_SUCCESS);
  EXPECT_EQ(per_thread ? cuMemsetD8Async_ptsz(pointer, 1, 16, stream)
                       : cuMemsetD8Async(pointer, 1, 16, stream),
            CUDA_SUCCESS);
  return session.Latest<cmd::Memset>().stream;
}

TEST_F(StreamCallsTest, NullIsTheLegacyStreamOrTheThreadsOwn) {
  EXPECT_EQ(MemsetStream(session(), nullptr, false), 1u);
  EXPECT_EQ(MemsetStream(session(), CU_STREAM_LEGACY, true), 1u);
  EXPECT_EQ(session().Count(CommandId::kStreamCreate), 0);
  const uint64_t own = MemsetStream(session(), nullptr, true);
  EXPECT_GT(own, 1u);
  EXPECT_EQ(session().Latest<cmd::StreamCreate>().stream, own);
  EXPECT_EQ(session().Latest<cmd::StreamCreate>().flags, 0u);
  EXPECT_EQ(MemsetStream(session(), CU_STREAM_PER_THREAD, false), own);
}

TEST_F(StreamCallsTest, EachThreadHasADefaultStreamThatEndsWithIt) {
  const uint64_t mine = MemsetStream(session(), nullptr, true);
  uint64_t other = 0;
  std::thread([&] {
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    other = MemsetStream(session(), nullptr, true);
  }).join();
  EXPECT_NE(other, mine);
  EXPECT_EQ(session().Latest<cmd::StreamDestroy>().stream, other);
}

TEST_F(StreamCallsTest, DestroyedStreamAndOtherHandlesAreInvalid) {
  CUstream stream;
  CUevent event;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(reinterpret_cast<CUstream>(event)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventRecord(reinterpret_cast<CUevent>(stream), nullptr), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy_v2(nullptr), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamCallsTest, PropertiesAreAnsweredLocally) {
  CUstream stream;
  ASSERT_EQ(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -99), CUDA_SUCCESS);
  unsigned int flags;
  int priority;
  CUcontext context;
  EXPECT_EQ(cuStreamGetFlags(stream, &flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, static_cast<unsigned int>(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(cuStreamGetPriority(stream, &priority), CUDA_SUCCESS);
  EXPECT_EQ(priority, -5);
  EXPECT_EQ(cuStreamGetCtx(stream, &context), CUDA_SUCCESS);
  EXPECT_EQ(context, context_);
  EXPECT_EQ(cuStreamCreate(&stream, 6), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamCallsTest, CompleteStreamIsNotAskedAbout) {
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  MemsetStream(session(), stream, false);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamSync), 0);
  EXPECT_EQ(session().Count(CommandId::kContextSync), 0);
}

TEST_F(StreamCallsTest, BusyStreamIsNotReadyAndAskedAbout) {
  CUstream stream, idle;
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  session().SetComplete(false);
  MemsetStream(session(), stream, false);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamQuery(idle), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamSync), 1);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kContextSync), 1);
}

// A copy to the device whose bytes the call takes: nothing tells the program when it is complete.
class TakenBytesTest : public StreamCallsTest {
 protected:
  void SetUp() override {
    StreamCallsTest::SetUp();
    ASSERT_EQ(cuMemAlloc_v2(&memory_, sizeof bytes_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&blocking_, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    session().SetComplete(false);
  }
  void Copy(CUstream stream) {
    ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, bytes_, sizeof bytes_, stream), CUDA_SUCCESS);
  }
  void Synchronize(CUstream stream) { EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS); }
  int Asked() const { return session().Count(CommandId::kStreamSync); }
  int Barriers() const { return session().Count(CommandId::kStreamBarrier); }

  CUdeviceptr memory_ = 0;
  CUstream stream_ = nullptr, blocking_ = nullptr;
  const char bytes_[16] = {};
};

TEST_F(TakenBytesTest, AreNotWaitedForButOtherStreamsComeAfterThem) {
  for (CUstream stream : {stream_, blocking_, CU_STREAM_LEGACY}) {
    const int before = Barriers();
    Copy(stream);
    Synchronize(stream);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
    Synchronize(stream);
    EXPECT_EQ(Barriers(), before + 1);
    Copy(stream);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
    EXPECT_EQ(Barriers(), before + 2);
    if (stream == blocking_) {
      ASSERT_EQ(cuStreamDestroy_v2(blocking_), CUDA_SUCCESS);
    }
  }
  EXPECT_EQ(Asked(), 0);
}

TEST_F(TakenBytesTest, AreWaitedForBehindWorkThatIsNoticed) {
  MemsetStream(session(), stream_, false);
  Copy(stream_);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  Synchronize(stream_);
  EXPECT_EQ(Asked(), 1);
}

TEST_F(TakenBytesTest, AreWaitedForBehindAnEvent) {
  CUevent event;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  Copy(stream_);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  Synchronize(stream_);
  EXPECT_EQ(Asked(), 1);
}

// Streams come after each other in many ways: the legacy stream after the blocking ones and before
// them, a stream after an event, all after a barrier.
TEST_F(TakenBytesTest, AreWaitedForWhileOtherWorkOfTheSessionIsUnderWay) {
  CUstream other;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  MemsetStream(session(), other, false);
  Copy(CU_STREAM_LEGACY);
  Copy(blocking_);
  EXPECT_EQ(cuStreamQuery(blocking_), CUDA_ERROR_NOT_READY);
  Synchronize(blocking_);
  EXPECT_EQ(Asked(), 1);
  Copy(stream_);
  Synchronize(stream_);
  EXPECT_EQ(Asked(), 2);
}

TEST_F(TakenBytesTest, AreWaitedForBehindTheWorkOfADestroyedStream) {
  MemsetStream(session(), blocking_, false);
  ASSERT_EQ(cuStreamDestroy_v2(blocking_), CUDA_SUCCESS);
  Copy(CU_STREAM_LEGACY);
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  Synchronize(nullptr);
  EXPECT_EQ(Asked(), 1);
}

TEST_F(TakenBytesTest, OfABlockingStreamAreWaitedForOnTheLegacyOne) {
  Copy(blocking_);
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  Synchronize(nullptr);
  EXPECT_EQ(Asked(), 1);
}

TEST_F(TakenBytesTest, AreWaitedForOnceOtherProcessesSeeMemory) {
  Copy(stream_);
  Synchronize(stream_);
  EXPECT_EQ(Asked(), 0);
  std::atomic<bool> complete{false};
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    complete = true;
    session().SetComplete(true);
  });
  CUipcMemHandle handle;
  EXPECT_EQ(cuIpcGetMemHandle(&handle, memory_), CUDA_SUCCESS);
  EXPECT_TRUE(complete);
  device.join();
  session().SetComplete(false);
  Copy(stream_);
  Synchronize(stream_);
  EXPECT_EQ(Asked(), 1);
}

// A kernel that waits for another process may run all the while.
TEST_F(TakenBytesTest, SharingMemoryDoesNotWaitForOtherWork) {
  MemsetStream(session(), stream_, false);
  CUipcMemHandle handle;
  ASSERT_EQ(cuIpcGetMemHandle(&handle, memory_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
}

TEST_F(StreamCallsTest, ANewStreamIsIdleBeforeTheServerMadeIt) {
  session().SetComplete(false);
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamSync), 0);
  MemsetStream(session(), stream, false);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
}

TEST_F(StreamCallsTest, LegacyStreamWaitsForBlockingOnesOnly) {
  CUstream blocking, non_blocking;
  ASSERT_EQ(cuStreamCreate(&blocking, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&non_blocking, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  session().SetComplete(false);
  MemsetStream(session(), non_blocking, false);
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_SUCCESS);
  MemsetStream(session(), blocking, false);
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
}

TEST_F(StreamCallsTest, DeferredErrorComesOnceFromTheNextWait) {
  session().SetDeferred(CudaResult::kLaunchOutOfResources);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST_F(StreamCallsTest, WhatIsBeyondALimitIsRefusedByTheCallThatMakesIt) {
  // Other tests may have left some.
  const uint64_t left = runtime().streams.live();
  session().SetLimits(2 * (left + 4), 2 * (left + runtime().events.live() + 10));
  const int before = session().Count(CommandId::kLimitGet);
  std::vector<CUstream> streams(4);
  for (CUstream& stream : streams) ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kLimitGet), before);
  // From half of the limit on the server is asked.
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  streams.push_back(stream);
  EXPECT_EQ(session().Count(CommandId::kLimitGet), before + 1);
  stream = nullptr;
  RefuseNext();
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(stream, nullptr);
  EXPECT_EQ(runtime().streams.live(), left + 5);
  EXPECT_EQ(session().Latest<cmd::StreamDestroy>().stream,
            session().Latest<cmd::StreamCreate>().stream);
  // Events count with the streams.
  std::vector<CUevent> events(5);
  for (CUevent& event : events) ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  const int asked_before = session().Count(CommandId::kLimitGet);
  RefuseNext();
  CUevent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(event, nullptr);
  EXPECT_GT(session().Count(CommandId::kLimitGet), asked_before);
  EXPECT_EQ(session().Latest<cmd::EventDestroy>().event,
            session().Latest<cmd::EventCreate>().event);
  for (const CUstream made : streams) EXPECT_EQ(cuStreamDestroy_v2(made), CUDA_SUCCESS);
  for (const CUevent made : events) EXPECT_EQ(cuEventDestroy_v2(made), CUDA_SUCCESS);
  // There is room again.
  const int asked = session().Count(CommandId::kLimitGet);
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kLimitGet), asked);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  session().SetLimits(0, 0);
}

TEST_F(StreamCallsTest, TheErrorOfAnEarlierCommandIsNotTheCreations) {
  session().SetLimits(1, 1);
  session().SetDeferred(CudaResult::kLaunchOutOfResources);
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  CUevent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  session().SetLimits(0, 0);
}

// A server that has made nothing refuses that, too.
TEST_F(StreamCallsTest, TheDestroyOfWhatWasRefusedFailsSilently) {
  session().SetLimits(1, 1);
  RefuseNext();
  const uint64_t create = session().last_seq() + 1;
  // The answer that tells of the refusal comes between the two.
  session().SetFailureOf(create + 2, CudaResult::kInvalidHandle);
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(session().TakeFailureOf(create + 2), CudaResult::kSuccess);
  session().SetLimits(0, 0);
}

TEST_F(StreamCallsTest, NothingCaptures) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
}

TEST_F(StreamCallsTest, EventIsCompleteUntilItRecordsWhatIsNot) {
  CUevent event;
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  session().SetComplete(false);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kEventSync), 0);
  ASSERT_EQ(cuEventRecord(event, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kEventSync), 1);
  session().SetComplete(true);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
}

TEST_F(StreamCallsTest, WaitForACompleteEventSendsNothing) {
  CUevent event;
  CUstream stream;
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 0);
  session().SetComplete(false);
  ASSERT_EQ(cuEventRecord(event, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 1);
}

TEST_F(StreamCallsTest, ElapsedTimeNeedsTwoTimedCompleteEvents) {
  CUevent start, end, untimed;
  ASSERT_EQ(cuEventCreate(&start, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&end, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  float milliseconds = 0;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
  for (CUevent event : {start, end, untimed}) {
    ASSERT_EQ(cuEventRecord(event, nullptr), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_SUCCESS);
  EXPECT_EQ(milliseconds, 1.5f);
  EXPECT_EQ(cuEventElapsedTime(nullptr, start, end), CUDA_ERROR_INVALID_HANDLE);
  session().SetComplete(false);
  ASSERT_EQ(cuEventRecord(end, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
}

}  // namespace
}  // namespace warpline::stub
