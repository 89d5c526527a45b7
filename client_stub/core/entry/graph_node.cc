// Nodes of graphs: adding them, reading and setting what they do. Nothing is sent.
#include <cstring>
#include <utility>

#include "client_stub/core/graph/graph_nodes.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/captures.h"

using namespace warpline::stub;
using warpline::MutexLock;

namespace {

CUresult Add(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
             CUgraphNodeParams* params) {
  WARPLINE_TRY(EnterObject());
  MutexLock lock(&GraphMutex());
  return AddNode(graph, dependencies, nullptr, count, params, node);
}

// Called with GraphMutex() held.
CUresult Set(GraphNode* node, CUgraphNodeType type, const CUgraphNodeParams& from) {
  if (node == nullptr || node->type != type || from.type != type) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_NOT_SUPPORTED;
  SharedNodeParams params;
  std::unique_ptr<Graph> child;
  WARPLINE_TRY(ReadNode(from, &params, &child));
  if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
    // Attributes are set by calls of their own.
    WARPLINE_TRY(KeepSettings(std::get<KernelNodeParams>(*node->params), &params));
  }
  node->params = std::move(params);
  return CUDA_SUCCESS;
}

CUresult FindAndSet(CUgraphNode handle, const CUgraphNodeParams& from) {
  WARPLINE_TRY(Enter());
  MutexLock lock(&GraphMutex());
  return Set(FindGraphNode(handle), from.type, from);
}

// Calls give(params) for a node that has params of that kind.
template <typename Params, typename Give>
CUresult Get(CUgraphNode handle, const void* out, Give give) {
  WARPLINE_TRY(EnterInitialized());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(&GraphMutex());
  const GraphNode* const node = FindGraphNode(handle);
  if (node == nullptr || node->params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto* params = std::get_if<Params>(node->params.get());
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  give(*params);
  return CUDA_SUCCESS;
}

CUgraphNodeParams FromKernelV1(const CUDA_KERNEL_NODE_PARAMS_v1& v1) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_KERNEL);
  std::memcpy(&params.kernel, &v1, sizeof(v1));
  return params;
}
CUgraphNodeParams FromKernelV2(const CUDA_KERNEL_NODE_PARAMS_v2& v2) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_KERNEL);
  static_assert(sizeof(v2) == sizeof(params.kernel));
  std::memcpy(&params.kernel, &v2, sizeof(v2));
  return params;
}
CUgraphNodeParams FromMemcpy(const CUDA_MEMCPY3D& copy, CUcontext context) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_MEMCPY);
  params.memcpy.copyParams = copy;
  params.memcpy.copyCtx = context;
  return params;
}
CUgraphNodeParams FromMemset(const CUDA_MEMSET_NODE_PARAMS_v1& v1, CUcontext context) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_MEMSET);
  params.memset = {v1.dst, v1.pitch, v1.value, v1.elementSize, v1.width, v1.height, context};
  return params;
}
CUgraphNodeParams FromHost(const CUDA_HOST_NODE_PARAMS_v1& v1) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_HOST);
  params.host = {v1.fn, v1.userData};
  return params;
}
CUgraphNodeParams FromEvent(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams params = AsNode(type);
  if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
    params.eventRecord.event = event;
  } else {
    params.eventWait.event = event;
  }
  return params;
}

bool IsKernelAttribute(CUkernelNodeAttrID attribute) {
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return true;
    default:
      return false;
  }
}

// Called with GraphMutex() held. Returns nullptr for a node that is no kernel node.
const KernelNodeParams* KernelOf(const GraphNode* node) {
  return node == nullptr || node->params == nullptr
             ? nullptr
             : std::get_if<KernelNodeParams>(node->params.get());
}

}  // namespace

extern "C" {

// ---- Any type

CUresult CUDAAPI cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                const CUgraphNode* dependencies, size_t numDependencies,
                                CUgraphNodeParams* nodeParams) {
  return Add(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}
CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                                   const CUgraphNode* dependencies,
                                   const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                   CUgraphNodeParams* nodeParams) {
  WARPLINE_TRY(Enter());
  MutexLock lock(&GraphMutex());
  return AddNode(hGraph, dependencies, dependencyData, numDependencies, nodeParams, phGraphNode);
}
CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FindAndSet(hNode, *nodeParams);
}
CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  const GraphNode* const node = FindGraphNode(hNode);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

// ---- Kernels

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = FromKernelV1(*nodeParams);
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}
CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                                         const CUgraphNode* dependencies, size_t numDependencies,
                                         const CUDA_KERNEL_NODE_PARAMS_v2* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = FromKernelV2(*nodeParams);
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}
CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode hNode,
                                            CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return Get<KernelNodeParams>(hNode, nodeParams, [&](const KernelNodeParams& node) {
    const CUDA_KERNEL_NODE_PARAMS_v3 given = GiveKernelNode(node);
    std::memcpy(nodeParams, &given, sizeof(*nodeParams));
  });
}
CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
                                               CUDA_KERNEL_NODE_PARAMS_v2* nodeParams) {
  return Get<KernelNodeParams>(hNode, nodeParams, [&](const KernelNodeParams& node) {
    const CUDA_KERNEL_NODE_PARAMS_v3 given = GiveKernelNode(node);
    std::memcpy(nodeParams, &given, sizeof(*nodeParams));
  });
}
CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode hNode,
                                            const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FindAndSet(hNode, FromKernelV1(*nodeParams));
}
CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
                                               const CUDA_KERNEL_NODE_PARAMS_v2* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FindAndSet(hNode, FromKernelV2(*nodeParams));
}

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                               CUkernelNodeAttrValue* value_out) {
  WARPLINE_TRY(EnterInitialized());
  if (value_out == nullptr || !IsKernelAttribute(attr)) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(&GraphMutex());
  const KernelNodeParams* const kernel = KernelOf(FindGraphNode(hNode));
  if (kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memset(value_out, 0, sizeof(*value_out));
  for (const CUlaunchAttribute& attribute : kernel->values) {
    if (attribute.id == attr) *value_out = attribute.value;
  }
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                               const CUkernelNodeAttrValue* value) {
  WARPLINE_TRY(EnterInitialized());
  if (value == nullptr || !IsKernelAttribute(attr)) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(&GraphMutex());
  GraphNode* const node = FindGraphNode(hNode);
  const KernelNodeParams* const kernel = KernelOf(node);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUlaunchAttribute> values = kernel->values;
  std::erase_if(values, [attr](const CUlaunchAttribute& other) { return other.id == attr; });
  CUlaunchAttribute added = {};
  added.id = attr;
  added.value = *value;
  values.push_back(added);
  SharedNodeParams made;
  WARPLINE_TRY(WithAttributes(*kernel, values, &made));
  node->params = std::move(made);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  GraphNode* const node = FindGraphNode(dst);
  const KernelNodeParams* const to = KernelOf(node);
  const KernelNodeParams* const from = KernelOf(FindGraphNode(src));
  if (to == nullptr || from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SharedNodeParams made;
  WARPLINE_TRY(WithAttributes(*to, from->values, &made));
  node->params = std::move(made);
  return CUDA_SUCCESS;
}

// ---- Copies and fills

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  if (copyParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = FromMemcpy(*copyParams, ctx);
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}
CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
  return Get<MemcpyNodeParams>(hNode, nodeParams,
                               [&](const MemcpyNodeParams& node) { *nodeParams = node.copy; });
}
CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FindAndSet(hNode, FromMemcpy(*nodeParams, nullptr));
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      const CUDA_MEMSET_NODE_PARAMS_v1* memsetParams,
                                      CUcontext ctx) {
  if (memsetParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = FromMemset(*memsetParams, ctx);
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}
CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode hNode,
                                            CUDA_MEMSET_NODE_PARAMS_v1* nodeParams) {
  return Get<CUDA_MEMSET_NODE_PARAMS_v2>(
      hNode, nodeParams, [&](const CUDA_MEMSET_NODE_PARAMS_v2& node) {
        *nodeParams = {node.dst, node.pitch, node.value, node.elementSize, node.width, node.height};
      });
}
CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode hNode,
                                            const CUDA_MEMSET_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FindAndSet(hNode, FromMemset(*nodeParams, nullptr));
}

// ---- Functions of the application

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                    const CUgraphNode* dependencies, size_t numDependencies,
                                    const CUDA_HOST_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = FromHost(*nodeParams);
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}
CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS_v1* nodeParams) {
  return Get<CUDA_HOST_NODE_PARAMS_v2>(hNode, nodeParams,
                                       [&](const CUDA_HOST_NODE_PARAMS_v2& node) {
                                         *nodeParams = {node.fn, node.userData};
                                       });
}
CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode hNode,
                                          const CUDA_HOST_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FindAndSet(hNode, FromHost(*nodeParams));
}

// ---- Graphs in graphs, and nothing

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                          const CUgraphNode* dependencies, size_t numDependencies,
                                          CUgraph childGraph) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_GRAPH);
  params.graph.graph = childGraph;
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}
CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  const GraphNode* const node = FindGraphNode(hNode);
  if (node == nullptr || node->child == nullptr || phGraph == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *phGraph = node->child->handle;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                     const CUgraphNode* dependencies, size_t numDependencies) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_EMPTY);
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}

// ---- Events

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                           const CUgraphNode* dependencies, size_t numDependencies,
                                           CUevent event) {
  CUgraphNodeParams params = FromEvent(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}
CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
  return Get<EventRecordNodeParams>(
      hNode, event_out, [&](const EventRecordNodeParams& node) { *event_out = node.event; });
}
CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return FindAndSet(hNode, FromEvent(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                         const CUgraphNode* dependencies, size_t numDependencies,
                                         CUevent event) {
  CUgraphNodeParams params = FromEvent(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}
CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
  return Get<EventWaitNodeParams>(
      hNode, event_out, [&](const EventWaitNodeParams& node) { *event_out = node.event; });
}
CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return FindAndSet(hNode, FromEvent(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

// ---- Words of memory

CUresult CUDAAPI cuGraphAddBatchMemOpNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                          const CUgraphNode* dependencies, size_t numDependencies,
                                          const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  params.memOp = {nodeParams->ctx, nodeParams->count, nodeParams->paramArray, nodeParams->flags};
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}
CUresult CUDAAPI cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
                                                CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* nodeParams_out) {
  return Get<BatchMemOpNodeParams>(hNode, nodeParams_out, [&](const BatchMemOpNodeParams& node) {
    // The application only reads through it.
    auto* const operations = const_cast<CUstreamBatchMemOpParams*>(node.operations.data());
    *nodeParams_out = {node.context, static_cast<unsigned int>(node.operations.size()), operations,
                       node.flags};
  });
}
CUresult CUDAAPI cuGraphBatchMemOpNodeSetParams(
    CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  params.memOp = {nodeParams->ctx, nodeParams->count, nodeParams->paramArray, nodeParams->flags};
  return FindAndSet(hNode, params);
}

// ---- Memory

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                        const CUgraphNode* dependencies, size_t numDependencies,
                                        CUDA_MEM_ALLOC_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  static_assert(sizeof(params.alloc) == sizeof(*nodeParams));
  std::memcpy(&params.alloc, nodeParams, sizeof(*nodeParams));
  WARPLINE_TRY(Add(phGraphNode, hGraph, dependencies, numDependencies, &params));
  nodeParams->dptr = params.alloc.dptr;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
                                              CUDA_MEM_ALLOC_NODE_PARAMS_v1* params_out) {
  return Get<MemAllocNodeParams>(hNode, params_out, [&](const MemAllocNodeParams& node) {
    std::memcpy(params_out, &node.params, sizeof(*params_out));
  });
}
CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                       const CUgraphNode* dependencies, size_t numDependencies,
                                       CUdeviceptr dptr) {
  CUgraphNodeParams params = AsNode(CU_GRAPH_NODE_TYPE_MEM_FREE);
  params.free.dptr = dptr;
  return Add(phGraphNode, hGraph, dependencies, numDependencies, &params);
}
CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
  return Get<MemFreeNodeParams>(hNode, dptr_out,
                                [&](const MemFreeNodeParams& node) { *dptr_out = node.address; });
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(device));
  TrimGraphMemory(runtime().devices[device]);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                              void* value) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(device));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t bytes;
  WARPLINE_TRY(GetGraphMemoryAttribute(runtime().devices[device], attr, &bytes));
  std::memcpy(value, &bytes, sizeof(bytes));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                              void* value) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(device));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t bytes;
  std::memcpy(&bytes, value, sizeof(bytes));
  // These attributes can only be reset.
  return bytes == 0 ? ResetGraphMemoryAttribute(runtime().devices[device], attr)
                    : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
