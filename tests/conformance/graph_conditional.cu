// Graphs with conditional nodes: kernels on the device decide what they run.
#include <cuda_runtime.h>

#include "setting.h"

namespace conformance {
namespace {

__global__ void Set(CUgraphConditionalHandle handle, const unsigned* value) {
  cudaGraphSetConditional(handle, *value);
}
__global__ void Add(unsigned* at, unsigned value) { *at += value; }
// Counts down to 0, and sets the conditional to what is left.
__global__ void CountDown(CUgraphConditionalHandle handle, unsigned* left) {
  if (*left > 0) --*left;
  cudaGraphSetConditional(handle, *left);
}

CUfunction Function(const void* kernel) {
  cudaFunction_t function = nullptr;
  const cudaError_t got = cudaGetFuncBySymbol(&function, kernel);
  HOLDS(cudaGetFuncBySymbol, "setup", got == cudaSuccess, "%s", cudaGetErrorName(got));
  return function;
}

// A graph, its conditional handle, and words that kernels read and write.
struct Conditional {
  bool ok = false;
  CUgraph graph = nullptr;
  CUgraphConditionalHandle handle = 0;
  CUstream stream = nullptr;
  CUdeviceptr words = 0;

  // Kernels of such graphs get only device memory here.
  unsigned Word(int index) const {
    unsigned value = 0xdead;
    CU(cuMemcpyDtoH)(&value, words + 4 * index, sizeof(value));
    return value;
  }
  // This is no memset, because the stream would not wait for that.
  void SetWord(int index, unsigned value) const {
    CU(cuMemcpyHtoD)(words + 4 * index, &value, sizeof(value));
  }
  unsigned* Pointer(int index) const { return reinterpret_cast<unsigned*>(words + 4 * index); }

  CUgraphNode AddKernel(CUgraph to, const void* kernel, void** parameters,
                        const CUgraphNode* after = nullptr) const {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = Function(kernel);
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = parameters;
    CUgraphNode node = nullptr;
    CALL("kernel", CUDA_SUCCESS, cuGraphAddNode, &node, to, after, nullptr,
         after == nullptr ? 0 : 1, &params);
    return node;
  }
  // Adds `value` to a word.
  void AddAddition(CUgraph to, int index, unsigned value) const {
    unsigned* at = Pointer(index);
    void* parameters[] = {&at, &value};
    AddKernel(to, reinterpret_cast<const void*>(Add), parameters);
  }
  // Sets the conditional to a word.
  CUgraphNode AddSet(CUgraph to, CUgraphConditionalHandle which, int index) const {
    const unsigned* from = Pointer(index);
    void* parameters[] = {&which, &from};
    return AddKernel(to, reinterpret_cast<const void*>(Set), parameters);
  }
  CUresult AddNode(CUgraph to, CUgraphConditionalHandle which, CUgraphConditionalNodeType type,
                   unsigned size, const CUgraphNode* after, CUgraph* bodies) const {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = which;
    params.conditional.type = type;
    params.conditional.size = size;
    params.conditional.ctx = g_context;
    CUgraphNode node = nullptr;
    Mark("cuGraphAddNode", "conditional");
    const CUresult result =
        CU(cuGraphAddNode)(&node, to, after, nullptr, after == nullptr ? 0 : 1, &params);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < size; ++i) {
      bodies[i] = params.conditional.phGraph_out[i];
    }
    return result;
  }
  void Launch(CUgraphExec exec) const {
    CALL("conditional", CUDA_SUCCESS, cuGraphLaunch, exec, stream);
    CALL("conditional", CUDA_SUCCESS, cuStreamSynchronize, stream);
  }
  CUgraphExec Instantiate() const {
    CUgraphExec exec = nullptr;
    CALL("conditional", CUDA_SUCCESS, cuGraphInstantiateWithFlags, &exec, graph, 0);
    return exec;
  }
};

// Returns false where there are no conditional nodes: on the CPU device, which says so.
bool Start(Conditional* c, unsigned first_value = 0, unsigned flags = 0) {
  if (!Begin()) return false;
  bool ok = CU(cuGraphCreate)(&c->graph, 0) == CUDA_SUCCESS &&
            CU(cuStreamCreate)(&c->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
            CU(cuMemAlloc)(&c->words, 64) == CUDA_SUCCESS &&
            CU(cuMemsetD32)(c->words, 0, 16) == CUDA_SUCCESS &&
            CU(cuCtxSynchronize)() == CUDA_SUCCESS;
  HOLDS(cuGraphCreate, "setup", ok, "no graph, stream or memory");
  Mark("cuGraphConditionalHandleCreate", "a handle");
  const CUresult got =
      CU(cuGraphConditionalHandleCreate)(&c->handle, c->graph, g_context, first_value, flags);
  if (on_cpu()) {
    Line(got == CUDA_ERROR_NOT_SUPPORTED ? "refused" : "FAIL", Name(got).c_str());
    return false;
  }
  return Judge(CUDA_SUCCESS, got) && ok;
}

void IfElse() {
  Conditional c;
  if (!Start(&c)) return;
  const CUgraphNode set = c.AddSet(c.graph, c.handle, 0);
  CUgraph bodies[2] = {};
  if (!Judge(CUDA_SUCCESS, c.AddNode(c.graph, c.handle, CU_GRAPH_COND_TYPE_IF, 2, &set, bodies))) {
    return;
  }
  c.AddAddition(bodies[0], 1, 10);
  c.AddAddition(bodies[1], 2, 100);
  const CUgraphExec exec = c.Instantiate();
  for (const unsigned condition : {0u, 1u, 7u, 0u}) {
    c.SetWord(0, condition);
    c.Launch(exec);
  }
  EQUAL(cuGraphLaunch, "the body when it holds", c.Word(1), 20u);
  EQUAL(cuGraphLaunch, "the other one when it does not", c.Word(2), 200u);
  CUgraph clone = nullptr;
  CALL("with conditional nodes", CUDA_ERROR_NOT_SUPPORTED, cuGraphClone, &clone, c.graph);
  CALL("conditional", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  // Once that one is gone, another may be made.
  const CUgraphExec again = c.Instantiate();
  c.SetWord(0, 1);
  c.Launch(again);
  EQUAL(cuGraphLaunch, "instantiated again", c.Word(1), 30u);
  CALL("conditional", CUDA_SUCCESS, cuGraphExecDestroy, again);
  CALL("conditional", CUDA_SUCCESS, cuGraphDestroy, c.graph);
}

void While() {
  Conditional c;
  if (!Start(&c, 1, CU_GRAPH_COND_ASSIGN_DEFAULT)) return;
  CUgraph body = nullptr;
  if (!Judge(CUDA_SUCCESS,
             c.AddNode(c.graph, c.handle, CU_GRAPH_COND_TYPE_WHILE, 1, nullptr, &body))) {
    return;
  }
  // Makes the body by a capture.
  CALL("a body", CUDA_SUCCESS, cuStreamBeginCaptureToGraph, c.stream, body, nullptr, nullptr, 0,
       CU_STREAM_CAPTURE_MODE_GLOBAL);
  Add<<<1, 1, 0, c.stream>>>(c.Pointer(1), 1);
  CountDown<<<1, 1, 0, c.stream>>>(c.handle, c.Pointer(0));
  CALL("a body, which is known", CUDA_SUCCESS, cuStreamEndCapture, c.stream, nullptr);
  size_t nodes = 0;
  CALL("a body", CUDA_SUCCESS, cuGraphGetNodes, body, nullptr, &nodes);
  EQUAL(cuGraphGetNodes, "nodes that were captured", nodes, size_t{2});
  const CUgraphExec exec = c.Instantiate();
  c.SetWord(0, 10);
  c.Launch(exec);
  EQUAL(cuGraphLaunch, "as often as it holds", c.Word(1), 10u);
  c.SetWord(0, 3);
  c.Launch(exec);
  EQUAL(cuGraphLaunch, "with the default once more", c.Word(1), 13u);
  CALL("conditional", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  CALL("conditional", CUDA_SUCCESS, cuGraphDestroy, c.graph);
}

void Switch() {
  Conditional c;
  if (!Start(&c)) return;
  const CUgraphNode set = c.AddSet(c.graph, c.handle, 0);
  CUgraph bodies[3] = {};
  if (!Judge(CUDA_SUCCESS,
             c.AddNode(c.graph, c.handle, CU_GRAPH_COND_TYPE_SWITCH, 3, &set, bodies))) {
    return;
  }
  for (int i = 0; i < 3; ++i) c.AddAddition(bodies[i], 1 + i, 1);
  const CUgraphExec exec = c.Instantiate();
  for (const unsigned which : {0u, 1u, 1u, 2u, 2u, 2u, 3u, 99u}) {
    c.SetWord(0, which);
    c.Launch(exec);
  }
  HOLDS(cuGraphLaunch, "the one that is meant", c.Word(1) == 1 && c.Word(2) == 2 && c.Word(3) == 3,
        "%u %u %u", c.Word(1), c.Word(2), c.Word(3));
  CALL("conditional", CUDA_SUCCESS, cuGraphExecDestroy, exec);
  CALL("conditional", CUDA_SUCCESS, cuGraphDestroy, c.graph);
}

// A condition inside a loop.
void Nested() {
  Conditional c;
  if (!Start(&c, 1, CU_GRAPH_COND_ASSIGN_DEFAULT)) return;
  CUgraphConditionalHandle inner = 0;
  CALL("a second handle", CUDA_SUCCESS, cuGraphConditionalHandleCreate, &inner, c.graph, g_context,
       0, 0);
  CUgraph loop = nullptr, body = nullptr;
  if (!Judge(CUDA_SUCCESS,
             c.AddNode(c.graph, c.handle, CU_GRAPH_COND_TYPE_WHILE, 1, nullptr, &loop))) {
    return;
  }
  unsigned* left = c.Pointer(0);
  void* parameters[] = {&c.handle, &left};
  c.AddKernel(loop, reinterpret_cast<const void*>(CountDown), parameters);
  const CUgraphNode set = c.AddSet(loop, inner, 2);
  if (!Judge(CUDA_SUCCESS, c.AddNode(loop, inner, CU_GRAPH_COND_TYPE_IF, 1, &set, &body))) return;
  c.AddAddition(body, 1, 1);
  const CUgraphExec exec = c.Instantiate();
  for (const unsigned condition : {1u, 0u}) {
    c.SetWord(0, 5);
    c.SetWord(2, condition);
    c.Launch(exec);
  }
  EQUAL(cuGraphLaunch, "a condition in a loop", c.Word(1), 5u);
  CALL("conditional", CUDA_SUCCESS, cuGraphDestroy, c.graph);
  // The executable graph does not need the graph.
  c.SetWord(0, 2);
  c.SetWord(2, 1);
  c.Launch(exec);
  EQUAL(cuGraphLaunch, "without the graph", c.Word(1), 7u);
  CALL("conditional", CUDA_SUCCESS, cuGraphExecDestroy, exec);
}

void Wrong() {
  Conditional c;
  if (!Start(&c)) return;
  CUgraphConditionalHandle handle = 0;
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuGraphConditionalHandleCreate, nullptr,
       c.graph, g_context, 0, 0);
  CALL("no graph", CUDA_ERROR_INVALID_VALUE, cuGraphConditionalHandleCreate, &handle, nullptr,
       g_context, 0, 0);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuGraphConditionalHandleCreate, &handle, c.graph,
       g_context, 0, 8);
  CUgraph bodies[3] = {};
  Judge(CUDA_ERROR_INVALID_VALUE,
        c.AddNode(c.graph, c.handle, CU_GRAPH_COND_TYPE_WHILE, 2, nullptr, bodies));
  Judge(CUDA_ERROR_INVALID_VALUE,
        c.AddNode(c.graph, c.handle, CU_GRAPH_COND_TYPE_IF, 3, nullptr, bodies));
  Judge(CUDA_ERROR_INVALID_VALUE,
        c.AddNode(c.graph, c.handle, CU_GRAPH_COND_TYPE_SWITCH, 0, nullptr, bodies));
  Judge(CUDA_SUCCESS, c.AddNode(c.graph, c.handle, CU_GRAPH_COND_TYPE_IF, 1, nullptr, bodies));
  CALL("with conditional nodes", CUDA_SUCCESS, cuGraphDestroy, c.graph);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "graph_conditional",
             {{"if_else", IfElse},
              {"while", While},
              {"switch", Switch},
              {"nested", Nested},
              {"wrong", Wrong}});
}
