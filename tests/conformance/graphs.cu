// Graphs: building them node by node, reading them back, instantiating, launching and changing
// them.
#include <atomic>
#include <cstring>

#include "setting.h"

namespace conformance {
namespace {

constexpr unsigned kCount = 256;
constexpr size_t kBytes = kCount * sizeof(unsigned);

// A kernel node of `affine`: out = a * in + b.
struct Affine {
  CUdeviceptr out, in;
  unsigned a, b, n = kCount;
  void* params[5] = {&out, &in, &a, &b, &n};

  Affine(CUdeviceptr to, CUdeviceptr from, unsigned factor, unsigned summand)
      : out(to), in(from), a(factor), b(summand) {}

  CUDA_KERNEL_NODE_PARAMS Node(CUfunction function) {
    CUDA_KERNEL_NODE_PARAMS node = {};
    node.func = function;
    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
    node.blockDimX = kCount;
    node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = params;
    return node;
  }
};

CUDA_MEMSET_NODE_PARAMS Words(CUdeviceptr to, unsigned value) {
  CUDA_MEMSET_NODE_PARAMS node = {};
  node.dst = to;
  node.value = value;
  node.elementSize = 4;
  node.width = kCount;
  node.height = 1;
  return node;
}

CUDA_MEMCPY3D Copy(CUmemorytype to_type, void* to_host, CUdeviceptr to, CUmemorytype from_type,
                   const void* from_host, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D copy = {};
  copy.dstMemoryType = to_type;
  copy.dstHost = to_host;
  copy.dstDevice = to;
  copy.srcMemoryType = from_type;
  copy.srcHost = from_host;
  copy.srcDevice = from;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

unsigned First(CUdeviceptr from) {
  unsigned value = 0xdead;
  CU(cuMemcpyDtoH)(&value, from, sizeof(value));
  return value;
}

struct Setting {
  CUmodule module = nullptr;
  CUfunction affine = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr a = 0, b = 0;
  bool ok = false;

  Setting() {
    if (!Begin() || !LoadModule(&module) || !Kernel(&affine, module, "affine")) return;
    ok = CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
         CU(cuMemAlloc)(&a, kBytes) == CUDA_SUCCESS && CU(cuMemAlloc)(&b, kBytes) == CUDA_SUCCESS;
    HOLDS(graphs, "setup", ok, "no stream or memory");
  }
};

void Structure() {
  if (!Begin()) return;
  CUgraph graph = nullptr;
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuGraphCreate, nullptr, 0);
  CALL("flags", CUDA_ERROR_INVALID_VALUE, cuGraphCreate, &graph, 1);
  if (!CALL("empty", CUDA_SUCCESS, cuGraphCreate, &graph, 0)) return;
  CUgraphNode a = nullptr, b = nullptr, c = nullptr;
  CALL("root", CUDA_SUCCESS, cuGraphAddEmptyNode, &a, graph, nullptr, 0);
  CALL("after a", CUDA_SUCCESS, cuGraphAddEmptyNode, &b, graph, &a, 1);
  const CUgraphNode both[] = {a, b};
  CALL("after both", CUDA_SUCCESS, cuGraphAddEmptyNode, &c, graph, both, 2);
  CUgraphNode none = nullptr;
  const CUgraphNode twice[] = {a, a};
  CALL("one twice", CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode, &none, graph, twice, 2);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode, nullptr, graph, nullptr,
       0);
  CALL("no graph", CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode, &none, nullptr, nullptr, 0);
  CALL("no list", CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode, &none, graph, nullptr, 1);

  size_t count = 0;
  CALL("how many", CUDA_SUCCESS, cuGraphGetNodes, graph, nullptr, &count);
  EQUAL(cuGraphGetNodes, "how many", count, 3);
  CUgraphNode nodes[4] = {a, a, a, a};
  count = 4;
  CALL("all", CUDA_SUCCESS, cuGraphGetNodes, graph, nodes, &count);
  EQUAL(cuGraphGetNodes, "all", count, 3);
  HOLDS(cuGraphGetNodes, "what is left is cleared", nodes[3] == nullptr, "it is not");
  count = 0;
  CALL("roots", CUDA_SUCCESS, cuGraphGetRootNodes, graph, nullptr, &count);
  EQUAL(cuGraphGetRootNodes, "one root", count, 1);
  CUgraphNode root = nullptr;
  CALL("roots", CUDA_SUCCESS, cuGraphGetRootNodes, graph, &root, &count);
  HOLDS(cuGraphGetRootNodes, "the root", root == a, "another one");
  count = 0;
  CALL("how many", CUDA_SUCCESS, cuGraphGetEdges, graph, nullptr, nullptr, nullptr, &count);
  EQUAL(cuGraphGetEdges, "how many", count, 3);
  CUgraphNode from[3] = {}, to[3] = {};
  CALL("all", CUDA_SUCCESS, cuGraphGetEdges, graph, from, to, nullptr, &count);
  bool found = false;
  for (int i = 0; i < 3; ++i) found |= from[i] == b && to[i] == c;
  HOLDS(cuGraphGetEdges, "all", found, "b to c is missing");
  CUgraphNode before[2] = {};
  count = 2;
  CALL("of c", CUDA_SUCCESS, cuGraphNodeGetDependencies, c, before, nullptr, &count);
  EQUAL(cuGraphNodeGetDependencies, "of c", count, 2);
  CALL("of a", CUDA_SUCCESS, cuGraphNodeGetDependentNodes, a, nullptr, nullptr, &count);
  EQUAL(cuGraphNodeGetDependentNodes, "of a", count, 2);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  CALL("empty", CUDA_SUCCESS, cuGraphNodeGetType, a, &type);
  EQUAL(cuGraphNodeGetType, "empty", type, CU_GRAPH_NODE_TYPE_EMPTY);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType, a, nullptr);

  CALL("a to c", CUDA_SUCCESS, cuGraphRemoveDependencies, graph, &a, &c, nullptr, 1);
  CALL("not there", CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies, graph, &a, &c, nullptr, 1);
  CALL("a to c", CUDA_SUCCESS, cuGraphAddDependencies, graph, &a, &c, nullptr, 1);
  CALL("there already", CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies, graph, &a, &c, nullptr,
       1);
  CALL("to itself", CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies, graph, &a, &a, nullptr, 1);

  CUgraph clone = nullptr;
  CALL("three nodes", CUDA_SUCCESS, cuGraphClone, &clone, graph);
  CUgraphNode copy = nullptr;
  CALL("b", CUDA_SUCCESS, cuGraphNodeFindInClone, &copy, b, clone);
  HOLDS(cuGraphNodeFindInClone, "a node of its own", copy != b && copy != nullptr, "it is not");
  CALL("not a clone", CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone, &none, copy, graph);
  CALL("a clone", CUDA_SUCCESS, cuGraphDestroy, clone);
  CALL("b", CUDA_SUCCESS, cuGraphDestroyNode, b);
  CALL("after b", CUDA_SUCCESS, cuGraphGetNodes, graph, nullptr, &count);
  EQUAL(cuGraphDestroyNode, "two are left", count, 2);
  CALL("of c", CUDA_SUCCESS, cuGraphNodeGetDependencies, c, nullptr, nullptr, &count);
  EQUAL(cuGraphDestroyNode, "its edges went", count, 1);
  CALL("with nodes", CUDA_SUCCESS, cuGraphDestroy, graph);
}

// memset a, kernel b = 3 a + 1, copy b to a; launched more often than once.
void Work() {
  Setting s;
  if (!s.ok) return;
  CUgraph graph = nullptr;
  SETUP(cuGraphCreate, &graph, 0);
  CUgraphNode set = nullptr, kernel = nullptr, copy = nullptr;
  CUDA_MEMSET_NODE_PARAMS words = Words(s.a, 5);
  CALL("words", CUDA_SUCCESS, cuGraphAddMemsetNode, &set, graph, nullptr, 0, &words, g_context);
  Affine affine(s.b, s.a, 3, 1);
  CUDA_KERNEL_NODE_PARAMS node = affine.Node(s.affine);
  CALL("affine", CUDA_SUCCESS, cuGraphAddKernelNode, &kernel, graph, &set, 1, &node);
  affine.a = 99;  // The value has been read already.
  const CUDA_MEMCPY3D back =
      Copy(CU_MEMORYTYPE_DEVICE, nullptr, s.a, CU_MEMORYTYPE_DEVICE, nullptr, s.b, kBytes);
  CALL("on the device", CUDA_SUCCESS, cuGraphAddMemcpyNode, &copy, graph, &kernel, 1, &back,
       g_context);
  words.elementSize = 3;
  CUgraphNode none = nullptr;
  CALL("elements of 3 bytes", CUDA_ERROR_INVALID_VALUE, cuGraphAddMemsetNode, &none, graph, nullptr,
       0, &words, g_context);
  node.blockDimX = 4096;
  CALL("too many threads", CUDA_ERROR_INVALID_VALUE, cuGraphAddKernelNode, &none, graph, nullptr, 0,
       &node);

  CUDA_KERNEL_NODE_PARAMS got = {};
  CALL("affine", CUDA_SUCCESS, cuGraphKernelNodeGetParams, kernel, &got);
  HOLDS(cuGraphKernelNodeGetParams, "function", got.func == s.affine, "another one");
  EQUAL(cuGraphKernelNodeGetParams, "block", got.blockDimX, kCount);
  HOLDS(cuGraphKernelNodeGetParams, "a parameter",
        got.kernelParams != nullptr && *static_cast<unsigned*>(got.kernelParams[2]) == 3,
        "not what it was");
  CALL("of a memset", CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeGetParams, set, &got);
  CUDA_MEMSET_NODE_PARAMS got_set = {};
  CALL("words", CUDA_SUCCESS, cuGraphMemsetNodeGetParams, set, &got_set);
  EQUAL(cuGraphMemsetNodeGetParams, "value", got_set.value, 5);
  CUDA_MEMCPY3D got_copy = {};
  CALL("on the device", CUDA_SUCCESS, cuGraphMemcpyNodeGetParams, copy, &got_copy);
  EQUAL(cuGraphMemcpyNodeGetParams, "bytes", got_copy.WidthInBytes, kBytes);

  CUgraphExec exec = nullptr;
  CALL("flags", CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags, &exec, graph, 1u << 20);
  if (!CALL("three nodes", CUDA_SUCCESS, cuGraphInstantiateWithFlags, &exec, graph, 0)) return;
  cuuint64_t flags = 99;
  CALL("none", CUDA_SUCCESS, cuGraphExecGetFlags, exec, &flags);
  EQUAL(cuGraphExecGetFlags, "none", flags, 0);
  for (int i = 0; i < 3; ++i) {
    CALL("again and again", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
    CALL("after a launch", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
    EQUAL(cuGraphLaunch, "what it computes", First(s.a), 16);
  }
  CALL("known by now", CUDA_SUCCESS, cuGraphUpload, exec, s.stream);

  // Changes the executable graph, which must leave the graph itself as it was.
  Affine other(s.b, s.a, 10, 2);
  CUDA_KERNEL_NODE_PARAMS changed = other.Node(s.affine);
  CALL("other parameters", CUDA_SUCCESS, cuGraphExecKernelNodeSetParams, exec, kernel, &changed);
  CUDA_MEMSET_NODE_PARAMS seven = Words(s.a, 7);
  CALL("another value", CUDA_SUCCESS, cuGraphExecMemsetNodeSetParams, exec, set, &seven, g_context);
  CALL("not its node", CUDA_ERROR_INVALID_VALUE, cuGraphExecMemsetNodeSetParams, exec, kernel,
       &seven, g_context);
  for (int i = 0; i < 3; ++i) {
    CALL("changed", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
    CALL("changed", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
    EQUAL(cuGraphExecKernelNodeSetParams, "what it computes", First(s.a), 72);
  }
  unsigned enabled = 99;
  CALL("kernel", CUDA_SUCCESS, cuGraphNodeGetEnabled, exec, kernel, &enabled);
  EQUAL(cuGraphNodeGetEnabled, "kernel", enabled, 1);
  CALL("kernel off", CUDA_SUCCESS, cuGraphNodeSetEnabled, exec, kernel, 0);
  CALL("kernel off", CUDA_SUCCESS, cuGraphNodeGetEnabled, exec, kernel, &enabled);
  EQUAL(cuGraphNodeSetEnabled, "kernel off", enabled, 0);
  CALL("zeros", CUDA_SUCCESS, cuMemsetD32Async, s.b, 0, kCount, s.stream);
  for (int i = 0; i < 2; ++i) {
    CALL("without the kernel", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
    CALL("without the kernel", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
    EQUAL(cuGraphNodeSetEnabled, "what it computes", First(s.a), 0);
  }
  CALL("kernel on", CUDA_SUCCESS, cuGraphNodeSetEnabled, exec, kernel, 1);

  // The graph as it was.
  CUgraphExecUpdateResultInfo info = {};
  CALL("as it was", CUDA_SUCCESS, cuGraphExecUpdate, exec, graph, &info);
  EQUAL(cuGraphExecUpdate, "as it was", info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  CALL("updated", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
  CALL("updated", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
  EQUAL(cuGraphExecUpdate, "what it computes", First(s.a), 16);
  CALL("one more node", CUDA_SUCCESS, cuGraphAddEmptyNode, &none, graph, &copy, 1);
  CALL("another shape", CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate, exec, graph,
       &info);
  EQUAL(cuGraphExecUpdate, "another shape", info.result,
        CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  // NVIDIA's driver takes any number for a stream, and crashes.
  if (!native()) {
    CALL("no stream", CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch, exec, Garbage<CUstream>());
  }
  CALL("executable", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
}

std::atomic<unsigned> g_seen{0};
unsigned* g_host_in = nullptr;
unsigned* g_host_out = nullptr;
void Increment(void* data) {
  g_seen.fetch_add(1);
  for (unsigned i = 0; i < kCount; ++i)
    g_host_in[i] = *static_cast<unsigned*>(data) + g_seen.load();
}

// host function, copy to the device, kernel, copy back. The memory is pinned: pageable memory may
// be read as early as at the launch, before the function runs.
void HostWork() {
  Setting s;
  if (!s.ok) return;
  SETUP(cuMemHostAlloc, reinterpret_cast<void**>(&g_host_in), kBytes, 0);
  SETUP(cuMemHostAlloc, reinterpret_cast<void**>(&g_host_out), kBytes, 0);
  CUgraph graph = nullptr;
  SETUP(cuGraphCreate, &graph, 0);
  static unsigned base = 40;
  CUDA_HOST_NODE_PARAMS host = {Increment, &base};
  CUgraphNode call = nullptr, in = nullptr, kernel = nullptr, out = nullptr;
  CALL("function", CUDA_SUCCESS, cuGraphAddHostNode, &call, graph, nullptr, 0, &host);
  const CUDA_MEMCPY3D to =
      Copy(CU_MEMORYTYPE_DEVICE, nullptr, s.a, CU_MEMORYTYPE_HOST, g_host_in, 0, kBytes);
  CALL("to the device", CUDA_SUCCESS, cuGraphAddMemcpyNode, &in, graph, &call, 1, &to, g_context);
  Affine affine(s.b, s.a, 2, 1);
  CUDA_KERNEL_NODE_PARAMS node = affine.Node(s.affine);
  CALL("affine", CUDA_SUCCESS, cuGraphAddKernelNode, &kernel, graph, &in, 1, &node);
  const CUDA_MEMCPY3D from =
      Copy(CU_MEMORYTYPE_HOST, g_host_out, 0, CU_MEMORYTYPE_DEVICE, nullptr, s.b, kBytes);
  CALL("to the host", CUDA_SUCCESS, cuGraphAddMemcpyNode, &out, graph, &kernel, 1, &from,
       g_context);
  CUDA_HOST_NODE_PARAMS got = {};
  CALL("function", CUDA_SUCCESS, cuGraphHostNodeGetParams, call, &got);
  HOLDS(cuGraphHostNodeGetParams, "function", got.fn == Increment && got.userData == &base,
        "another one");
  host.fn = nullptr;
  CUgraphNode none = nullptr;
  CALL("no function", CUDA_ERROR_INVALID_VALUE, cuGraphAddHostNode, &none, graph, nullptr, 0,
       &host);
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  CALL("four nodes", CUDA_SUCCESS, cuGraphInstantiateWithParams, &exec, graph, &params);
  EQUAL(cuGraphInstantiateWithParams, "four nodes", params.result_out,
        CUDA_GRAPH_INSTANTIATE_SUCCESS);
  for (unsigned i = 1; i <= 3; ++i) {
    CALL("with a function", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
    CALL("with a function", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
    EQUAL(cuGraphAddHostNode, "runs once a launch", g_seen.load(), i);
    EQUAL(cuGraphAddMemcpyNode, "through the host", g_host_out[kCount - 1], 2 * (40 + i) + 1);
  }
  CALL("executable", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
}

void Children() {
  Setting s;
  if (!s.ok) return;
  CUgraph child = nullptr, graph = nullptr;
  SETUP(cuGraphCreate, &child, 0);
  SETUP(cuGraphCreate, &graph, 0);
  CUgraphNode first = nullptr, inner = nullptr, last = nullptr, kernel = nullptr;
  Affine affine(s.b, s.a, 3, 0);
  CUDA_KERNEL_NODE_PARAMS node = affine.Node(s.affine);
  SETUP(cuGraphAddKernelNode, &kernel, child, nullptr, 0, &node);
  CUDA_MEMSET_NODE_PARAMS words = Words(s.a, 4);
  SETUP(cuGraphAddMemsetNode, &first, graph, nullptr, 0, &words, g_context);
  CALL("one kernel", CUDA_SUCCESS, cuGraphAddChildGraphNode, &inner, graph, &first, 1, child);
  Affine again(s.a, s.b, 1, 1);
  CUDA_KERNEL_NODE_PARAMS back = again.Node(s.affine);
  SETUP(cuGraphAddKernelNode, &last, graph, &inner, 1, &back);
  CUgraph own = nullptr;
  CALL("its own", CUDA_SUCCESS, cuGraphChildGraphNodeGetGraph, inner, &own);
  HOLDS(cuGraphChildGraphNodeGetGraph, "a copy", own != child && own != nullptr, "the same");
  CALL("a node's graph", CUDA_ERROR_INVALID_VALUE, cuGraphDestroy, own);
  size_t count = 1;
  CUgraphNode own_kernel = nullptr;
  CALL("of the copy", CUDA_SUCCESS, cuGraphGetNodes, own, &own_kernel, &count);
  CUgraphExec exec = nullptr;
  SETUP(cuGraphInstantiateWithFlags, &exec, graph, 0);
  for (int i = 0; i < 2; ++i) {
    CALL("a graph in a graph", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
    CALL("a graph in a graph", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
    EQUAL(cuGraphAddChildGraphNode, "what it computes", First(s.a), 13);
  }
  affine.a = 5;
  CALL("of the child", CUDA_SUCCESS, cuGraphKernelNodeSetParams, kernel, &node);
  CALL("changed", CUDA_SUCCESS, cuGraphExecChildGraphNodeSetParams, exec, inner, child);
  for (int i = 0; i < 2; ++i) {
    CALL("a changed child", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
    CALL("a changed child", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
    EQUAL(cuGraphExecChildGraphNodeSetParams, "what it computes", First(s.a), 21);
  }
  CALL("executable", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
  CALL("child", CUDA_SUCCESS, cuGraphDestroy, child);
}

void Events() {
  Setting s;
  if (!s.ok) return;
  CUevent before = nullptr, after = nullptr;
  SETUP(cuEventCreate, &before, 0);
  SETUP(cuEventCreate, &after, 0);
  CUgraph graph = nullptr;
  SETUP(cuGraphCreate, &graph, 0);
  CUgraphNode wait = nullptr, set = nullptr, record = nullptr;
  CALL("before", CUDA_SUCCESS, cuGraphAddEventWaitNode, &wait, graph, nullptr, 0, before);
  CUDA_MEMSET_NODE_PARAMS words = Words(s.a, 8);
  SETUP(cuGraphAddMemsetNode, &set, graph, &wait, 1, &words, g_context);
  CALL("after", CUDA_SUCCESS, cuGraphAddEventRecordNode, &record, graph, &set, 1, before);
  CALL("another", CUDA_SUCCESS, cuGraphEventRecordNodeSetEvent, record, after);
  CUevent got = nullptr;
  CALL("after", CUDA_SUCCESS, cuGraphEventRecordNodeGetEvent, record, &got);
  HOLDS(cuGraphEventRecordNodeGetEvent, "after", got == after, "another one");
  CALL("before", CUDA_SUCCESS, cuGraphEventWaitNodeGetEvent, wait, &got);
  HOLDS(cuGraphEventWaitNodeGetEvent, "before", got == before, "another one");
  CUgraphExec exec = nullptr;
  SETUP(cuGraphInstantiateWithFlags, &exec, graph, 0);
  CALL("with events", CUDA_SUCCESS, cuEventRecord, before, s.stream);
  CALL("with events", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
  CALL("of a graph", CUDA_SUCCESS, cuEventSynchronize, after);
  EQUAL(cuGraphAddEventRecordNode, "the work before it is done", First(s.a), 8);
  float milliseconds = -1;
  CALL("around a graph", CUDA_SUCCESS, cuEventElapsedTime, &milliseconds, before, after);
  HOLDS(cuGraphAddEventRecordNode, "times", milliseconds >= 0, "%f", milliseconds);
  CALL("executable", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
}

void Memory() {
  Setting s;
  if (!s.ok) return;
  CUgraph graph = nullptr;
  SETUP(cuGraphCreate, &graph, 0);
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.poolProps.location.id = g_device;
  params.bytesize = kBytes;
  CUgraphNode alloc = nullptr, set = nullptr, copy = nullptr, free = nullptr, none = nullptr;
  if (!CALL("a page", CUDA_SUCCESS, cuGraphAddMemAllocNode, &alloc, graph, nullptr, 0, &params)) {
    return;
  }
  HOLDS(cuGraphAddMemAllocNode, "an address", params.dptr != 0, "none");
  CUDA_MEMSET_NODE_PARAMS words = Words(params.dptr, 21);
  CALL("of a graph's memory", CUDA_SUCCESS, cuGraphAddMemsetNode, &set, graph, &alloc, 1, &words,
       g_context);
  const CUDA_MEMCPY3D out =
      Copy(CU_MEMORYTYPE_DEVICE, nullptr, s.a, CU_MEMORYTYPE_DEVICE, nullptr, params.dptr, kBytes);
  CALL("from a graph's memory", CUDA_SUCCESS, cuGraphAddMemcpyNode, &copy, graph, &set, 1, &out,
       g_context);
  CALL("the page", CUDA_SUCCESS, cuGraphAddMemFreeNode, &free, graph, &copy, 1, params.dptr);
  CALL("twice", CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode, &none, graph, &copy, 1,
       params.dptr);
  CALL("no graph's memory", CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode, &none, graph, &copy, 1,
       s.a);
  CUdeviceptr got = 0;
  CALL("the page", CUDA_SUCCESS, cuGraphMemFreeNodeGetParams, free, &got);
  HOLDS(cuGraphMemFreeNodeGetParams, "the page", got == params.dptr, "another one");
  CUgraph clone = nullptr;
  CALL("with memory", CUDA_ERROR_NOT_SUPPORTED, cuGraphClone, &clone, graph);
  CALL("with memory", CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode, set);
  CUgraphExec exec = nullptr, second = nullptr;
  CALL("with memory", CUDA_SUCCESS, cuGraphInstantiateWithFlags, &exec, graph, 0);
  CALL("with memory, twice", CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags, &second, graph,
       0);
  for (int i = 0; i < 3; ++i) {
    CALL("with memory", CUDA_SUCCESS, cuMemsetD32Async, s.a, 0, kCount, s.stream);
    CALL("with memory", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
    CALL("with memory", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
    EQUAL(cuGraphAddMemAllocNode, "what it computes", First(s.a), 21);
  }
  cuuint64_t bytes = 99;
  CALL("used", CUDA_SUCCESS, cuDeviceGetGraphMemAttribute, g_device,
       CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes);
  cuuint64_t zero = 0;
  CALL("high", CUDA_SUCCESS, cuDeviceSetGraphMemAttribute, g_device,
       CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero);
  CALL("executable", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
  CALL("nothing in use", CUDA_SUCCESS, cuDeviceGraphMemTrim, g_device);

  // Memory that the application frees.
  SETUP(cuGraphCreate, &graph, 0);
  SETUP(cuGraphAddMemAllocNode, &alloc, graph, nullptr, 0, &params);
  SETUP(cuGraphInstantiateWithFlags, &exec, graph, 0);
  CALL("left allocated", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
  CALL("still allocated", CUDA_ERROR_INVALID_VALUE, cuGraphLaunch, exec, s.stream);
  CALL("of a graph", CUDA_SUCCESS, cuMemsetD32Async, params.dptr, 6, kCount, s.stream);
  CALL("of a graph", CUDA_SUCCESS, cuMemFreeAsync, params.dptr, s.stream);
  CALL("freed meanwhile", CUDA_SUCCESS, cuGraphLaunch, exec, s.stream);
  CALL("of a graph", CUDA_SUCCESS, cuStreamSynchronize, s.stream);
  CALL("of a graph", CUDA_SUCCESS, cuMemFree, params.dptr);
  CALL("executable", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
}

std::atomic<int> g_destroyed{0};
void Destroyed(void*) { g_destroyed.fetch_add(1); }

void Objects() {
  if (!Begin()) return;
  CUgraph graph = nullptr;
  CUuserObject object = nullptr;
  SETUP(cuGraphCreate, &graph, 0);
  CALL("no flag", CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate, &object, nullptr, Destroyed, 1, 0);
  if (!CALL("one", CUDA_SUCCESS, cuUserObjectCreate, &object, nullptr, Destroyed, 1,
            CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)) {
    return;
  }
  CALL("one more", CUDA_SUCCESS, cuUserObjectRetain, object, 1);
  CALL("none", CUDA_ERROR_INVALID_VALUE, cuUserObjectRetain, object, 0);
  CALL("moved", CUDA_SUCCESS, cuGraphRetainUserObject, graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  CALL("the caller's", CUDA_SUCCESS, cuUserObjectRelease, object, 1);
  EQUAL(cuGraphRetainUserObject, "the graph holds it", g_destroyed.load(), 0);
  CALL("more than it holds", CUDA_SUCCESS, cuGraphReleaseUserObject, graph, object, 2);
  CALL("with an object", CUDA_SUCCESS, cuGraphDestroy, graph);
  for (int i = 0; i < 60000 && g_destroyed.load() == 0; ++i) usleep(1000);
  EQUAL(cuGraphDestroy, "gives the object up", g_destroyed.load(), 1);
}

// Launches one executable graph on two streams; the launches follow each other.
void Streams() {
  Setting s;
  if (!s.ok) return;
  CUstream other = nullptr;
  SETUP(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  CUfunction add = nullptr;
  if (!Kernel(&add, s.module, "add_step")) return;
  CALL("zeros", CUDA_SUCCESS, cuMemsetD32, s.a, 0, kCount);
  CALL("zeros", CUDA_SUCCESS, cuCtxSynchronize);
  CUgraph graph = nullptr;
  SETUP(cuGraphCreate, &graph, 0);
  CUgraphNode node = nullptr;
  void* params[] = {&s.a};
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = add;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = params;
  SETUP(cuGraphAddKernelNode, &node, graph, nullptr, 0, &kernel);
  CUgraphExec exec = nullptr;
  SETUP(cuGraphInstantiateWithFlags, &exec, graph, 0);
  for (int i = 0; i < 20; ++i) {
    CALL("by turns", CUDA_SUCCESS, cuGraphLaunch, exec, i % 2 == 0 ? s.stream : other);
  }
  CALL("all", CUDA_SUCCESS, cuCtxSynchronize);
  EQUAL(cuGraphLaunch, "each launch counts", First(s.a), 20 * 7);
  CALL("in the legacy stream", CUDA_SUCCESS, cuGraphLaunch, exec, nullptr);
  CALL("executable, under way", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  EQUAL(cuGraphExecDestroy, "what was launched completes", First(s.a), 21 * 7);
  CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
}

void Cycle() {
  if (!Begin()) return;
  CUgraph graph = nullptr;
  SETUP(cuGraphCreate, &graph, 0);
  CUgraphNode a = nullptr, b = nullptr;
  SETUP(cuGraphAddEmptyNode, &a, graph, nullptr, 0);
  SETUP(cuGraphAddEmptyNode, &b, graph, &a, 1);
  CUgraphExec exec = nullptr;
  if (CU(cuGraphAddDependencies)(graph, &b, &a, nullptr, 1) == CUDA_SUCCESS) {
    CALL("a cycle", CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags, &exec, graph, 0);
  }
  CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "graphs",
             {{"structure", Structure},
              {"work", Work},
              {"host_work", HostWork},
              {"children", Children},
              {"events", Events},
              {"memory", Memory},
              {"objects", Objects},
              {"streams", Streams},
              {"cycle", Cycle}});
}
