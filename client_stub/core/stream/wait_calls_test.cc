// Waits with a deadline and cancels, against a fake session in which no time passes: what is not
// complete takes too long.
#include <cmath>
#include <limits>

#include "absl/time/time.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/testing/core_fixture.h"
#include "client_stub/warpline.h"
#include "gtest/gtest.h"

extern "C" {
CUresult warpline_stream_wait(CUstream stream, double seconds);
CUresult warpline_event_wait(CUevent event, double seconds);
CUresult warpline_stream_cancel(CUstream stream, unsigned int flags);
}

namespace warpline::stub {
namespace {

class WaitCallsTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    ASSERT_EQ(cuMemAlloc_v2(&memory_, 16), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  }
  void TearDown() override {
    runtime().wait_limit = absl::InfiniteDuration();
    session().SetComplete(true);
    CoreTest::TearDown();
  }

  // Work that never ends, with an event behind it.
  void Hang() {
    session().SetComplete(false);
    ASSERT_EQ(cuMemsetD8Async(memory_, 1, 16, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  }
  int Asked() {
    return session().Count(CommandId::kStreamSync) + session().Count(CommandId::kEventSync) +
           session().Count(CommandId::kContextSync) + session().Count(CommandId::kCopyFromDevice);
  }

  CUdeviceptr memory_ = 0;
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
};

TEST_F(WaitCallsTest, WhatIsCompleteIsNotWaitedFor) {
  ASSERT_EQ(cuMemsetD8Async(memory_, 1, 16, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  EXPECT_EQ(warpline_stream_wait(stream_, 0), CUDA_SUCCESS);
  EXPECT_EQ(warpline_event_wait(event_, 0), CUDA_SUCCESS);
}

TEST_F(WaitCallsTest, AWaitThatIsTooLongAsksTheServerNothingAndMayBeTriedAgain) {
  Hang();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(warpline_stream_wait(stream_, 0.005), CUDA_ERROR_TIMEOUT);
    EXPECT_EQ(warpline_event_wait(event_, 0.005), CUDA_ERROR_TIMEOUT);
  }
  EXPECT_EQ(Asked(), 0);
  session().SetComplete(true);
  EXPECT_EQ(warpline_stream_wait(stream_, std::numeric_limits<double>::infinity()), CUDA_SUCCESS);
  EXPECT_EQ(warpline_event_wait(event_, 1), CUDA_SUCCESS);
}

TEST_F(WaitCallsTest, OtherStreamsAreNotWaitedForUnlessCudaSaysSo) {
  CUstream blocking, idle;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  Hang();
  EXPECT_EQ(warpline_stream_wait(idle, 0), CUDA_SUCCESS);
  EXPECT_EQ(warpline_stream_wait(nullptr, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(memory_, 1, 16, blocking), CUDA_SUCCESS);
  EXPECT_EQ(warpline_stream_wait(nullptr, 0), CUDA_ERROR_TIMEOUT);
}

TEST_F(WaitCallsTest, TimesAreNumbersThatAreNotNegative) {
  for (const double seconds : {-1.0, std::nan("")}) {
    EXPECT_EQ(warpline_stream_wait(stream_, seconds), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(warpline_event_wait(event_, seconds), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(warpline_event_wait(nullptr, 0), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(WaitCallsTest, CudasOwnWaitsHaveTheLimitOfTheEnvironment) {
  Hang();
  runtime().wait_limit = absl::Milliseconds(5);
  char bytes[16];
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_TIMEOUT);
  EXPECT_EQ(cuEventSynchronize(event_), CUDA_ERROR_TIMEOUT);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_TIMEOUT);
  EXPECT_EQ(Asked(), 0);
  // Another stream's copy waits for its own stream.
  EXPECT_EQ(cuMemcpyDtoH_v2(bytes, memory_, sizeof(bytes)), CUDA_SUCCESS);
  session().SetComplete(true);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

TEST_F(WaitCallsTest, ASynchronousCopySendsNothingBeforeItsTurn) {
  runtime().wait_limit = absl::Milliseconds(5);
  char bytes[16] = {};
  session().SetComplete(false);
  ASSERT_EQ(cuMemsetD8Async(memory_, 1, 16, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH_v2(bytes, memory_, sizeof(bytes)), CUDA_ERROR_TIMEOUT);
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, bytes, sizeof(bytes)), CUDA_ERROR_TIMEOUT);
  EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), 0);
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 0);
}

TEST_F(WaitCallsTest, MemoryThatIsInUseIsNotFreedTooEarly) {
  Hang();
  runtime().wait_limit = absl::Milliseconds(5);
  EXPECT_EQ(cuMemFree_v2(memory_), CUDA_ERROR_TIMEOUT);
  session().SetComplete(true);
  EXPECT_EQ(cuMemFree_v2(memory_), CUDA_SUCCESS);
}

TEST_F(WaitCallsTest, ACancelNamesItsStreamAndWaitsForNothing) {
  Hang();
  EXPECT_EQ(warpline_stream_cancel(stream_, 0), CUDA_SUCCESS);
  const auto cancel = session().Latest<cmd::StreamCancel>();
  EXPECT_EQ(cancel.stream, session().Latest<cmd::Memset>().stream);
  EXPECT_EQ(cancel.waiting_only, 0u);
  EXPECT_EQ(warpline_stream_cancel(stream_, WARPLINE_CANCEL_WAITING), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::StreamCancel>().waiting_only, 1u);
  EXPECT_EQ(warpline_stream_cancel(stream_, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(warpline_stream_cancel(reinterpret_cast<CUstream>(event_), 0),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(session().Count(CommandId::kStreamCancel), 2);
}

TEST_F(WaitCallsTest, AStreamThatCapturesIsNeitherWaitedForNorCancelled) {
  ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(warpline_stream_cancel(stream_, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(session().Count(CommandId::kStreamCancel), 0);
  CUgraph graph = nullptr;
  cuStreamEndCapture(stream_, &graph);
}

}  // namespace
}  // namespace warpline::stub
