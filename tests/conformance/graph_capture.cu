// Stream capture: what it makes of work, how it spreads, and what it forbids.
#include "setting.h"

namespace conformance {
namespace {

constexpr unsigned kCount = 256;
constexpr size_t kBytes = kCount * sizeof(unsigned);
constexpr CUstreamCaptureMode kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr CUstreamCaptureMode kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

struct Setting {
  CUmodule module = nullptr;
  CUfunction affine = nullptr;
  CUstream stream = nullptr, other = nullptr;
  CUevent fork = nullptr, join = nullptr;
  CUdeviceptr a = 0, b = 0;
  bool ok = false;

  explicit Setting(unsigned flags = CU_STREAM_NON_BLOCKING) {
    if (!Begin() || !LoadModule(&module) || !Kernel(&affine, module, "affine")) return;
    ok = CU(cuStreamCreate)(&stream, flags) == CUDA_SUCCESS &&
         CU(cuStreamCreate)(&other, flags) == CUDA_SUCCESS &&
         CU(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
         CU(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
         CU(cuMemAlloc)(&a, kBytes) == CUDA_SUCCESS && CU(cuMemAlloc)(&b, kBytes) == CUDA_SUCCESS;
    HOLDS(capture, "setup", ok, "no stream, event or memory");
  }

  CUresult Launch(CUdeviceptr to, CUdeviceptr from, unsigned factor, unsigned summand,
                  CUstream on) {
    unsigned n = kCount;
    void* params[] = {&to, &from, &factor, &summand, &n};
    return CU(cuLaunchKernel)(affine, 1, 1, 1, kCount, 1, 1, 0, on, params, nullptr);
  }
};

unsigned First(CUdeviceptr from) {
  unsigned value = 0xdead;
  CU(cuMemcpyDtoH)(&value, from, sizeof(value));
  return value;
}

CUstreamCaptureStatus Status(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CU(cuStreamIsCapturing)(stream, &status);
  return status;
}

void Plain() {
  Setting s;
  if (!s.ok) return;
  CUgraph graph = nullptr;
  CALL("legacy stream", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture, nullptr,
       kGlobal);
  CALL("no mode", CUDA_ERROR_INVALID_VALUE, cuStreamBeginCapture, s.stream,
       static_cast<CUstreamCaptureMode>(9));
  CALL("not capturing", CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture, s.stream, &graph);
  CALL("zeros", CUDA_SUCCESS, cuMemsetD32, s.a, 0, kCount);
  if (!CALL("global", CUDA_SUCCESS, cuStreamBeginCapture, s.stream, kGlobal)) return;
  CALL("already", CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture, s.stream, kGlobal);
  EQUAL(cuStreamIsCapturing, "it does", Status(s.stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EQUAL(cuStreamIsCapturing, "the other does not", Status(s.other), CU_STREAM_CAPTURE_STATUS_NONE);
  CALL("captured", CUDA_SUCCESS, cuMemsetD32Async, s.a, 2, kCount, s.stream);
  EQUAL(cuLaunchKernel, "captured", s.Launch(s.b, s.a, 5, 1, s.stream), CUDA_SUCCESS);
  CALL("captured", CUDA_SUCCESS, cuMemcpyDtoDAsync, s.a, s.b, kBytes, s.stream);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph into = nullptr;
  const CUgraphNode* dependencies = nullptr;
  size_t count = 99;
  CALL("three nodes", CUDA_SUCCESS, cuStreamGetCaptureInfo, s.stream, &status, &id, &into,
       &dependencies, nullptr, &count);
  EQUAL(cuStreamGetCaptureInfo, "active", status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EQUAL(cuStreamGetCaptureInfo, "one dependency", count, 1);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  if (count == 1) CALL("the copy", CUDA_SUCCESS, cuGraphNodeGetType, dependencies[0], &type);
  EQUAL(cuStreamGetCaptureInfo, "the copy", type, CU_GRAPH_NODE_TYPE_MEMCPY);
  CALL("three nodes", CUDA_SUCCESS, cuStreamEndCapture, s.stream, &graph);
  HOLDS(cuStreamEndCapture, "the graph of the capture", graph == into, "another one");
  EQUAL(cuStreamIsCapturing, "no more", Status(s.stream), CU_STREAM_CAPTURE_STATUS_NONE);
  EQUAL(cuStreamBeginCapture, "nothing ran", First(s.a), 0);
  CALL("captured", CUDA_SUCCESS, cuGraphGetNodes, graph, nullptr, &count);
  EQUAL(cuStreamEndCapture, "three nodes", count, 3);
  CALL("captured", CUDA_SUCCESS, cuGraphGetEdges, graph, nullptr, nullptr, nullptr, &count);
  EQUAL(cuStreamEndCapture, "in a row", count, 2);
  CUgraphExec exec = nullptr;
  CALL("captured", CUDA_SUCCESS, cuGraphInstantiateWithFlags, &exec, graph, 0);
  for (int i = 0; i < 3; ++i) {
    CALL("captured", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
    CALL("captured", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
    EQUAL(cuGraphLaunch, "what was captured", First(s.a), 11);
  }
  // A launch cannot be captured; a graph gets into another one as a child.
  CUgraph outer = nullptr;
  CUgraphExec both = nullptr;
  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("in a capture", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuGraphLaunch, exec, s.stream);
  EQUAL(cuGraphLaunch, "invalidates", Status(s.stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EQUAL(cuLaunchKernel, "behind a graph", s.Launch(s.b, s.a, 2, 0, s.stream),
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CALL("launched a graph", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.stream,
       &outer);
  HOLDS(cuStreamEndCapture, "no graph after a launch", outer == nullptr, "one");
  CUgraphNode child = nullptr;
  SETUP(cuGraphCreate, &outer, 0);
  SETUP(cuGraphAddChildGraphNode, &child, outer, nullptr, 0, graph);
  SETUP(cuStreamBeginCaptureToGraph, s.stream, outer, &child, nullptr, 1, kGlobal);
  EQUAL(cuLaunchKernel, "behind a child", s.Launch(s.b, s.a, 2, 0, s.stream), CUDA_SUCCESS);
  CUgraph same = nullptr;
  CALL("with a graph", CUDA_SUCCESS, cuStreamEndCapture, s.stream, &same);
  CALL("with a graph", CUDA_SUCCESS, cuGraphInstantiateWithFlags, &both, outer, 0);
  for (int i = 0; i < 2; ++i) {
    CALL("with a graph", CUDA_SUCCESS, cuGraphLaunch, both, s.stream);
    CALL("with a graph", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
    EQUAL(cuGraphLaunch, "with a graph", First(s.b), 22);
  }
  CALL("outer", CUDA_SUCCESS, cuGraphExecDestroy, both);
  CALL("outer", CUDA_SUCCESS, cuGraphDestroy, outer);
  CALL("captured", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  CALL("captured", CUDA_SUCCESS, cuGraphDestroy, graph);
}

void ForkAndJoin() {
  Setting s;
  if (!s.ok) return;
  CUgraph graph = nullptr;
  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("root", CUDA_SUCCESS, cuMemsetD32Async, s.a, 3, kCount, s.stream);
  CALL("fork", CUDA_SUCCESS, cuEventRecord, s.fork, s.stream);
  CALL("fork", CUDA_SUCCESS, cuStreamWaitEvent, s.other, s.fork, 0);
  EQUAL(cuStreamWaitEvent, "joins the capture", Status(s.other), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EQUAL(cuLaunchKernel, "forked", s.Launch(s.b, s.a, 4, 0, s.other), CUDA_SUCCESS);
  CALL("join", CUDA_SUCCESS, cuEventRecord, s.join, s.other);
  CALL("join", CUDA_SUCCESS, cuStreamWaitEvent, s.stream, s.join, 0);
  EQUAL(cuLaunchKernel, "joined", s.Launch(s.a, s.b, 1, 1, s.stream), CUDA_SUCCESS);
  CALL("joined", CUDA_SUCCESS, cuStreamEndCapture, s.stream, &graph);
  EQUAL(cuStreamEndCapture, "all streams", Status(s.other), CU_STREAM_CAPTURE_STATUS_NONE);
  size_t count = 0;
  CALL("joined", CUDA_SUCCESS, cuGraphGetEdges, graph, nullptr, nullptr, nullptr, &count);
  EQUAL(cuStreamEndCapture, "edges", count, 3);
  CUgraphExec exec = nullptr;
  CALL("joined", CUDA_SUCCESS, cuGraphInstantiateWithFlags, &exec, graph, 0);
  for (int i = 0; i < 2; ++i) {
    CALL("joined", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
    CALL("joined", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
    EQUAL(cuGraphLaunch, "joined", First(s.a), 13);
  }
  CALL("joined", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  CALL("joined", CUDA_SUCCESS, cuGraphDestroy, graph);

  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("fork", CUDA_SUCCESS, cuEventRecord, s.fork, s.stream);
  CALL("fork", CUDA_SUCCESS, cuStreamWaitEvent, s.other, s.fork, 0);
  CALL("forked", CUDA_SUCCESS, cuMemsetD32Async, s.a, 3, kCount, s.other);
  CALL("not joined", CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture, s.stream, &graph);
  HOLDS(cuStreamEndCapture, "no graph", graph == nullptr, "one");
  EQUAL(cuStreamEndCapture, "not joined", Status(s.other), CU_STREAM_CAPTURE_STATUS_NONE);
  CALL("after it all", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
}

// A stream that joined a capture is destroyed before the capture ends.
void DestroyedFork() {
  Setting s;
  if (!s.ok) return;
  for (const bool join : {true, false}) {
    CUgraph graph = nullptr;
    CUstream helper = nullptr;
    SETUP(cuStreamBeginCapture, s.stream, kGlobal);
    SETUP(cuStreamCreate, &helper, CU_STREAM_NON_BLOCKING);
    SETUP(cuEventRecord, s.fork, s.stream);
    SETUP(cuStreamWaitEvent, helper, s.fork, 0);
    CALL("forked", CUDA_SUCCESS, cuMemsetD32Async, s.a, 7, kCount, helper);
    SETUP(cuEventRecord, s.join, helper);
    if (join) SETUP(cuStreamWaitEvent, s.stream, s.join, 0);
    CALL("in another's capture", CUDA_SUCCESS, cuStreamDestroy, helper);
    EQUAL(cuStreamDestroy, "the capture goes on", Status(s.stream),
          CU_STREAM_CAPTURE_STATUS_ACTIVE);
    if (!join) {
      CALL("destroyed, not joined", CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture,
           s.stream, &graph);
      continue;
    }
    CALL("destroyed", CUDA_SUCCESS, cuStreamEndCapture, s.stream, &graph);
    size_t count = 0;
    CALL("destroyed", CUDA_SUCCESS, cuGraphGetNodes, graph, nullptr, &count);
    EQUAL(cuStreamEndCapture, "the destroyed stream's node", count, 1);
    CALL("destroyed", CUDA_SUCCESS, cuGraphDestroy, graph);
  }
  CALL("after it all", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
}

// Each of these invalidates the capture; everything after it fails until the capture is ended.
void Forbidden() {
  Setting s;
  if (!s.ok) return;
  CUgraph graph = nullptr;
  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("capturing", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize, s.stream);
  EQUAL(cuStreamSynchronize, "invalidates", Status(s.stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CALL("invalidated", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD32Async, s.a, 1, kCount,
       s.stream);
  CALL("invalidated", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.stream, &graph);
  HOLDS(cuStreamEndCapture, "no graph", graph == nullptr, "one");

  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("capturing", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery, s.stream);
  CALL("queried", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.stream, &graph);

  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CUdeviceptr memory = 0;
  CALL("capturing", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc, &memory, 64);
  CALL("allocated", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.stream, &graph);

  CUgraph empty = nullptr;
  CUgraphExec exec = nullptr;
  SETUP(cuGraphCreate, &empty, 0);
  SETUP(cuGraphInstantiateWithFlags, &exec, empty, 0);
  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("capturing", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuGraphExecDestroy, exec);
  CALL("destroyed", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.stream, &graph);

  SETUP(cuStreamBeginCapture, s.stream, kRelaxed);
  CALL("relaxed capture", CUDA_SUCCESS, cuMemAlloc, &memory, 64);
  CALL("relaxed", CUDA_SUCCESS, cuStreamEndCapture, s.stream, &graph);
  CALL("relaxed", CUDA_SUCCESS, cuGraphDestroy, graph);
  CALL("relaxed", CUDA_SUCCESS, cuMemFree, memory);

  CUstreamCaptureMode mode = kRelaxed;
  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("relaxed thread", CUDA_SUCCESS, cuThreadExchangeStreamCaptureMode, &mode);
  CALL("relaxed thread", CUDA_SUCCESS, cuMemAlloc, &memory, 64);
  CALL("back", CUDA_SUCCESS, cuThreadExchangeStreamCaptureMode, &mode);
  CALL("relaxed thread", CUDA_SUCCESS, cuStreamEndCapture, s.stream, &graph);
  CALL("relaxed thread", CUDA_SUCCESS, cuGraphDestroy, graph);
  CALL("relaxed thread", CUDA_SUCCESS, cuMemFree, memory);

  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("capturing", CUDA_SUCCESS, cuEventRecord, s.fork, s.stream);
  CALL("captured event", CUDA_ERROR_CAPTURED_EVENT, cuEventQuery, s.fork);
  CALL("queried", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.stream, &graph);

  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("capturing", CUDA_SUCCESS, cuEventRecord, s.fork, s.stream);
  CALL("captured event", CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize, s.fork);
  CALL("waited", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.stream, &graph);

  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("capturing", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize);
  CALL("waited", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.stream, &graph);

  CALL("outside", CUDA_SUCCESS, cuEventRecord, s.fork, s.other);
  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("not captured", CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent, s.stream, s.fork, 0);
  CALL("isolated", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.stream, &graph);

  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  SETUP(cuStreamBeginCapture, s.other, kGlobal);
  CALL("two captures", CUDA_SUCCESS, cuMemsetD32Async, s.a, 3, kCount, s.stream);
  CALL("two captures", CUDA_SUCCESS, cuEventRecord, s.fork, s.stream);
  CALL("another capture's", CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent, s.other, s.fork, 0);
  CU(cuStreamEndCapture)(s.stream, &graph);
  CU(cuStreamEndCapture)(s.other, &graph);

  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CALL("fork", CUDA_SUCCESS, cuEventRecord, s.fork, s.stream);
  CALL("fork", CUDA_SUCCESS, cuStreamWaitEvent, s.other, s.fork, 0);
  CALL("began elsewhere", CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture, s.other, &graph);
  CU(cuStreamEndCapture)(s.stream, &graph);
  CALL("after it all", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
  CALL("after it all", CUDA_SUCCESS, cuCtxSynchronize);
}

void Legacy() {
  Setting s(CU_STREAM_DEFAULT);
  if (!s.ok) return;
  CUgraph graph = nullptr;
  SETUP(cuStreamBeginCapture, s.stream, kGlobal);
  CUstreamCaptureStatus status;
  CALL("legacy beside blocking", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing, nullptr,
       &status);
  EQUAL(cuStreamIsCapturing, "invalidates nothing", Status(s.stream),
        CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CALL("legacy beside blocking", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32Async, s.a, 1,
       kCount, nullptr);
  CALL("implicit", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, s.stream, &graph);
  CALL("after it all", CUDA_SUCCESS, cuMemsetD32Async, s.a, 1, kCount, nullptr);
  CALL("after it all", CUDA_SUCCESS, cuCtxSynchronize);
}

void ToGraph() {
  Setting s;
  if (!s.ok) return;
  CUgraph graph = nullptr, same = nullptr;
  SETUP(cuGraphCreate, &graph, 0);
  CUgraphNode root = nullptr;
  SETUP(cuGraphAddEmptyNode, &root, graph, nullptr, 0);
  CALL("behind a node", CUDA_SUCCESS, cuStreamBeginCaptureToGraph, s.stream, graph, &root, nullptr,
       1, kGlobal);
  CALL("captured", CUDA_SUCCESS, cuMemsetD32Async, s.a, 30, kCount, s.stream);
  CALL("add", CUDA_SUCCESS, cuStreamUpdateCaptureDependencies, s.stream, &root, nullptr, 1,
       CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
  size_t count = 0;
  CUstreamCaptureStatus status;
  CALL("two", CUDA_SUCCESS, cuStreamGetCaptureInfo, s.stream, &status, nullptr, nullptr, nullptr,
       nullptr, &count);
  EQUAL(cuStreamUpdateCaptureDependencies, "added", count, 2);
  CALL("set", CUDA_SUCCESS, cuStreamUpdateCaptureDependencies, s.stream, &root, nullptr, 1,
       CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  CALL("one", CUDA_SUCCESS, cuStreamGetCaptureInfo, s.stream, &status, nullptr, nullptr, nullptr,
       nullptr, &count);
  EQUAL(cuStreamUpdateCaptureDependencies, "set", count, 1);
  CALL("to a graph", CUDA_SUCCESS, cuStreamEndCapture, s.stream, &same);
  HOLDS(cuStreamEndCapture, "the graph given", same == graph, "another one");
  CALL("not capturing", CUDA_ERROR_ILLEGAL_STATE, cuStreamUpdateCaptureDependencies, s.stream,
       &root, nullptr, 1, 0);
  CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "graph_capture",
             {{"plain", Plain},
              {"fork_and_join", ForkAndJoin},
              {"destroyed_fork", DestroyedFork},
              {"forbidden", Forbidden},
              {"legacy", Legacy},
              {"to_graph", ToGraph}});
}
