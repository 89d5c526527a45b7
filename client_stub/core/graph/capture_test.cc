#include <thread>

#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

class CaptureTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&memory_, 4096), CUDA_SUCCESS);
    session().Clear();
  }

  CUstreamCaptureStatus Status(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    return status;
  }
  CUresult Begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    return cuStreamBeginCapture_v2(stream, mode);
  }
  CUresult Set(CUstream stream) { return cuMemsetD8Async(memory_, 1, 16, stream); }
  size_t Nodes(CUgraph graph) {
    size_t count = 0;
    EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
    return count;
  }

  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
  CUevent event_ = nullptr;
  CUdeviceptr memory_ = 0;
};

TEST_F(CaptureTest, WorkBecomesNodesAndNothingIsSent) {
  CUfunction kernel = LoadKernel();
  session().Clear();
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  uint64_t a = 1;
  uint32_t b = 2;
  void* params[] = {&a, &b};
  EXPECT_EQ(Set(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream_, params, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoDAsync_v2(memory_, memory_ + 64, 32, stream_), CUDA_SUCCESS);
  char host[16];
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(host, memory_, 16, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchHostFunc(
                stream_, [](void*) {}, nullptr),
            CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(session().sent().size(), 0u);
  EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_NONE);
  CUgraphNode nodes[5];
  size_t count = 5;
  ASSERT_EQ(cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 5u);
  constexpr CUgraphNodeType kTypes[] = {CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_KERNEL,
                                        CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMCPY,
                                        CU_GRAPH_NODE_TYPE_HOST};
  for (int i = 0; i < 5; ++i) {
    CUgraphNodeType type;
    EXPECT_EQ(cuGraphNodeGetType(nodes[i], &type), CUDA_SUCCESS);
    EXPECT_EQ(type, kTypes[i]);
  }
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(CaptureTest, EventsSpreadACaptureAndItMustBeJoined) {
  CUgraph graph = nullptr;
  for (const bool join : {true, false}) {
    ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
    EXPECT_EQ(Set(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
    EXPECT_EQ(Status(other_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_EQ(Set(other_), CUDA_SUCCESS);
    if (join) {
      EXPECT_EQ(cuEventRecord(event_, other_), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamWaitEvent(stream_, event_, 0), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph),
              join ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_EQ(graph != nullptr, join);
    EXPECT_EQ(Status(other_), CU_STREAM_CAPTURE_STATUS_NONE);
    if (join) {
      EXPECT_EQ(Nodes(graph), 2u);
      EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    }
  }
}

TEST_F(CaptureTest, WhatIsForbiddenInvalidates) {
  const auto expect = [&](CUresult got, CUresult wanted) {
    EXPECT_EQ(got, wanted);
    EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(Set(stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUgraph graph;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
  };
  CUdeviceptr address;
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  expect(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  expect(cuStreamQuery(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  expect(cuMemAlloc_v2(&address, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  expect(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph empty;
  CUgraphExec exec;
  ASSERT_EQ(cuGraphCreate(&empty, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, empty, 0), CUDA_SUCCESS);
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  expect(cuGraphExecDestroy(exec), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(empty), CUDA_SUCCESS);
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  expect(cuEventQuery(event_), CUDA_ERROR_CAPTURED_EVENT);
  ASSERT_EQ(cuEventRecord(event_, other_), CUDA_SUCCESS);
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  expect(cuStreamWaitEvent(stream_, event_, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

TEST_F(CaptureTest, ModesSayWhomUnsafeCallsDisturb) {
  CUdeviceptr address;
  CUgraph graph;
  const auto on_another_thread = [&] {
    CUresult result;
    std::thread([&] {
      cuCtxSetCurrent(context_);
      result = cuMemAlloc_v2(&address, 16);
    }).join();
    return result;
  };
  ASSERT_EQ(Begin(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  EXPECT_EQ(on_another_thread(), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(Begin(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(on_another_thread(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(Begin(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc_v2(&address, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(CaptureTest, OnlyTheThreadThatBeganEnds) {
  CUgraph graph;
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  std::thread([&] {
    cuCtxSetCurrent(context_);
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(CaptureTest, TheLegacyStreamMeetsABlockingCapture) {
  CUstream blocking;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(Begin(nullptr), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ASSERT_EQ(Begin(blocking), CUDA_SUCCESS);
  CUstreamCaptureStatus status;
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(Status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(Set(nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CUgraph graph;
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(Set(nullptr), CUDA_SUCCESS);
}

TEST_F(CaptureTest, ADestroyedStreamEndsItsCapture) {
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(Begin(stream), CUDA_SUCCESS);
  EXPECT_EQ(Set(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(Set(nullptr), CUDA_SUCCESS);
}

// The sample graphMemoryNodes does this.
TEST_F(CaptureTest, AStreamThatJoinedMayBeDestroyedBeforeTheEnd) {
  for (const bool join : {true, false}) {
    CUstream helper;
    ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
    EXPECT_EQ(Set(stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&helper, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(helper, event_, 0), CUDA_SUCCESS);
    EXPECT_EQ(Set(helper), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(event_, helper), CUDA_SUCCESS);
    if (join) {
      EXPECT_EQ(cuStreamWaitEvent(stream_, event_, 0), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuStreamDestroy_v2(helper), CUDA_SUCCESS);
    EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_EQ(Set(stream_), CUDA_SUCCESS);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph),
              join ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    ASSERT_EQ(graph != nullptr, join);
    if (join) {
      EXPECT_EQ(Nodes(graph), 3u);
      EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    }
  }
}

TEST_F(CaptureTest, GraphsAreLaunchedWhileAnotherStreamCaptures) {
  CUgraph graph = nullptr, captured = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  const CUDA_MEMSET_NODE_PARAMS params = {memory_, 0, 1, 4, 8, 1};
  CUgraphNode node;
  ASSERT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context_), CUDA_SUCCESS);
  CUgraphExec exec;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  CUstream third;
  ASSERT_EQ(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  session().SetComplete(false);
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, other_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, third), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 1);
  EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(cuStreamEndCapture(stream_, &captured), CUDA_SUCCESS);
}

TEST_F(CaptureTest, ALaunchOfAGraphInvalidatesTheCapture) {
  CUgraph graph = nullptr, captured = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUgraphExec exec;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuStreamEndCapture(stream_, &captured), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
}

TEST_F(CaptureTest, CopiesThatWaitForPinnedMemoryDisturbNoCapture) {
  void* pinned;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 64, 0), CUDA_SUCCESS);
  session().SetComplete(false);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(pinned, memory_, 64, other_), CUDA_SUCCESS);
  ASSERT_EQ(Begin(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(memory_, pinned, 64, other_), CUDA_SUCCESS);
  EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace warpline::stub
