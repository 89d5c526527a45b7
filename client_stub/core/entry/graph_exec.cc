// Executable graphs (graph_exec.h).
#include "client_stub/core/graph_launch/graph_exec.h"

#include <cstring>
#include <utility>

#include "client_stub/core/graph/graph_nodes.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/captures.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;
using warpline::MutexLock;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

CUresult Make(CUgraphExec* out, CUgraph handle, uint64_t flags, CUgraphNode* wrong_out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<GraphPlan> plan;
  {
    MutexLock lock(&GraphMutex());
    const Graph* const graph = FindGraph(handle);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GraphExec* exec = nullptr;
    const GraphNode* wrong = nullptr;
    const CUresult result = Instantiate(*graph, flags, &exec, &wrong);
    if (wrong_out != nullptr) *wrong_out = wrong == nullptr ? nullptr : wrong->handle;
    if (result != CUDA_SUCCESS) return result;
    *out = exec->handle;
    plan = PlanToMake(exec);
  }
  if (plan == nullptr) return CUDA_SUCCESS;
  const CUresult result = plan->Make();
  if (result == CUDA_SUCCESS) return CUDA_SUCCESS;
  MutexLock lock(&GraphMutex());
  if (GraphExec* const exec = FindGraphExec(*out); exec != nullptr) DestroyGraphExec(exec);
  *out = nullptr;
  return result;
}

// Instantiates a graph for the call that also returns a text about what is wrong.
CUresult MakeWithLog(CUgraphExec* out, CUgraph graph, CUgraphNode* wrong, char* log,
                     size_t log_bytes) {
  WARPLINE_TRY(Enter());
  if (log != nullptr && log_bytes > 0) *log = '\0';
  return Make(out, graph, 0, wrong);
}

CUresult MakeWithFlags(CUgraphExec* out, CUgraph graph, uint64_t flags) {
  WARPLINE_TRY(Enter());
  // This call names no stream to upload in.
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) return CUDA_ERROR_INVALID_VALUE;
  return Make(out, graph, flags, nullptr);
}

CUresult MakeWithParams(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params,
                        DefaultStream null_means) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream;
  WARPLINE_TRY(EnterOn(params->hUploadStream, null_means, &stream));
  params->hErrNode_out = nullptr;
  const CUresult result = Make(out, graph, params->flags, &params->hErrNode_out);
  if (result != CUDA_SUCCESS) {
    params->result_out = params->hErrNode_out != nullptr ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                                                         : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
  }
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  const bool upload = (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  return upload ? UploadExec(*out, stream) : CUDA_SUCCESS;
}

CUresult Upload(CUgraphExec exec, CUstream handle, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return UploadExec(exec, stream);
}

CUresult Launch(CUgraphExec exec, CUstream handle, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  WARPLINE_TRY(LaunchExec(exec, stream));
  return runtime().launch_blocking ? SynchronizeStream(stream) : CUDA_SUCCESS;
}

// Called with GraphMutex() held.
CUresult FindNode(CUgraphExec exec_handle, CUgraphNode handle, GraphExec** exec, GraphNode** node) {
  *exec = FindGraphExec(exec_handle);
  if (*exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *node = NodeInExec(**exec, FindGraphNode(handle));
  return *node == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Set(CUgraphExec exec_handle, CUgraphNode handle, const CUgraphNodeParams& from) {
  WARPLINE_TRY(Enter());
  MutexLock lock(&GraphMutex());
  GraphExec* exec;
  GraphNode* node;
  WARPLINE_TRY(FindNode(exec_handle, handle, &exec, &node));
  if (node->type != from.type) return CUDA_ERROR_INVALID_VALUE;
  // The device's graph cannot be changed.
  if (exec->frame != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (from.type == CU_GRAPH_NODE_TYPE_GRAPH) {
    const Graph* const child = FindGraph(from.graph.graph);
    if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return SetExecChild(exec, node, *child);
  }
  SharedNodeParams params;
  std::unique_ptr<Graph> none;
  WARPLINE_TRY(ReadNode(from, &params, &none));
  if (from.type == CU_GRAPH_NODE_TYPE_KERNEL) {
    WARPLINE_TRY(KeepSettings(std::get<KernelNodeParams>(*node->params), &params));
  } else if (from.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    const CUDA_MEMCPY3D& old = std::get<MemcpyNodeParams>(*node->params).copy;
    const CUDA_MEMCPY3D& copy = std::get<MemcpyNodeParams>(*params).copy;
    if (old.srcMemoryType != copy.srcMemoryType || old.dstMemoryType != copy.dstMemoryType) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  SetExecNode(exec, node, std::move(params));
  return CUDA_SUCCESS;
}

CUresult Update(CUgraphExec exec_handle, CUgraph handle, CUgraphExecUpdateResultInfo* info) {
  WARPLINE_TRY(Enter());
  MutexLock lock(&GraphMutex());
  GraphExec* const exec = FindGraphExec(exec_handle);
  const Graph* const graph = FindGraph(handle);
  if (exec == nullptr || graph == nullptr) {
    *info = {};
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
    return CUDA_ERROR_INVALID_VALUE;
  }
  return UpdateExec(exec, *graph, info);
}

bool CanBeDisabled(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         type == CU_GRAPH_NODE_TYPE_MEMSET;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph,
                                    CUgraphNode* phErrorNode, char* logBuffer, size_t bufferSize) {
  return MakeWithLog(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}
CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph,
                                       CUgraphNode* phErrorNode, char* logBuffer,
                                       size_t bufferSize) {
  return MakeWithLog(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}
CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                             unsigned long long flags) {
  return MakeWithFlags(phGraphExec, hGraph, flags);
}
CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  return MakeWithParams(phGraphExec, hGraph, instantiateParams, kLegacy);
}
CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(
    CUgraphExec* phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  return MakeWithParams(phGraphExec, hGraph, instantiateParams, kPerThread);
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  const GraphExec* const exec = FindGraphExec(hGraphExec);
  if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  return Upload(hGraphExec, hStream, kLegacy);
}
CUresult CUDAAPI cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  return Upload(hGraphExec, hStream, kPerThread);
}
CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  return Launch(hGraphExec, hStream, kLegacy);
}
CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  return Launch(hGraphExec, hStream, kPerThread);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  if (AnyCapture()) WARPLINE_TRY(CheckUnsafe());
  MutexLock lock(&GraphMutex());
  GraphExec* const exec = FindGraphExec(hGraphExec);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DestroyGraphExec(exec);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                   CUgraphNode* hErrorNode_out,
                                   CUgraphExecUpdateResult* updateResult_out) {
  if (updateResult_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info = {};
  info.result = CU_GRAPH_EXEC_UPDATE_ERROR;
  const CUresult result = Update(hGraphExec, hGraph, &info);
  *updateResult_out = info.result;
  if (hErrorNode_out != nullptr) *hErrorNode_out = info.errorNode;
  return result;
}
CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                      CUgraphExecUpdateResultInfo* resultInfo) {
  if (resultInfo == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Update(hGraphExec, hGraph, resultInfo);
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                          CUgraphNodeParams* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Set(hGraphExec, hNode, *nodeParams);
}
CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_KERNEL);
  std::memcpy(&params.kernel, nodeParams, sizeof(*nodeParams));
  return Set(hGraphExec, hNode, params);
}
CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   const CUDA_KERNEL_NODE_PARAMS_v2* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_KERNEL);
  std::memcpy(&params.kernel, nodeParams, sizeof(*nodeParams));
  return Set(hGraphExec, hNode, params);
}
CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  if (copyParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_MEMCPY);
  params.memcpy.copyParams = *copyParams;
  params.memcpy.copyCtx = ctx;
  return Set(hGraphExec, hNode, params);
}
CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMSET_NODE_PARAMS_v1* memsetParams,
                                                CUcontext ctx) {
  if (memsetParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMSET_NODE_PARAMS_v1& v1 = *memsetParams;
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_MEMSET);
  params.memset = {v1.dst, v1.pitch, v1.value, v1.elementSize, v1.width, v1.height, ctx};
  return Set(hGraphExec, hNode, params);
}
CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_HOST_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_HOST);
  params.host = {nodeParams->fn, nodeParams->userData};
  return Set(hGraphExec, hNode, params);
}
CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    CUgraph childGraph) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_GRAPH);
  params.graph.graph = childGraph;
  return Set(hGraphExec, hNode, params);
}
CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    CUevent event) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  params.eventRecord.event = event;
  return Set(hGraphExec, hNode, params);
}
CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  CUevent event) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  params.eventWait.event = event;
  return Set(hGraphExec, hNode, params);
}
CUresult CUDAAPI cuGraphExecBatchMemOpNodeSetParams(
    CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  params.memOp = {nodeParams->ctx, nodeParams->count, nodeParams->paramArray, nodeParams->flags};
  return Set(hGraphExec, hNode, params);
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                       unsigned int isEnabled) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  GraphExec* exec;
  GraphNode* node;
  WARPLINE_TRY(FindNode(hGraphExec, hNode, &exec, &node));
  if (!CanBeDisabled(node->type)) return CUDA_ERROR_INVALID_VALUE;
  if (exec->frame != 0) return CUDA_ERROR_NOT_SUPPORTED;
  node->enabled = isEnabled != 0;
  exec->plan = nullptr;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                       unsigned int* isEnabled) {
  WARPLINE_TRY(EnterInitialized());
  if (isEnabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(&GraphMutex());
  GraphExec* exec;
  GraphNode* node;
  WARPLINE_TRY(FindNode(hGraphExec, hNode, &exec, &node));
  if (!CanBeDisabled(node->type)) return CUDA_ERROR_INVALID_VALUE;
  *isEnabled = node->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // extern "C"
