#include "client_stub/core/graph/graph_nodes.h"

#include <utility>

#include "client_stub/core/runtime/contexts.h"
#include "client_stub/core/runtime/runtime.h"

namespace warpline::stub {
namespace {

CUresult ReadChild(const CUDA_CHILD_GRAPH_NODE_PARAMS& from, std::unique_ptr<Graph>* child) {
  Graph* const graph = FindGraph(from.graph);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (from.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
    if (graph->parent != nullptr || graph->captures > 0) return CUDA_ERROR_INVALID_VALUE;
    if (GraphHasConditionalNodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
    child->reset(graph);
    return CUDA_SUCCESS;
  }
  if (from.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) return CUDA_ERROR_INVALID_VALUE;
  if (GraphHasMemoryNodes(*graph) || GraphHasConditionalNodes(*graph)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *child = CopyGraph(*graph, GraphCopy::kClone);
  return *child == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

// Whether the graph is a body of a conditional node, or lies in one.
bool InConditional(const Graph& graph) {
  for (const GraphNode* node = graph.parent; node != nullptr; node = node->graph->parent) {
    if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return true;
  }
  return false;
}

bool MayAccess(const Device& device, const Device& owner) {
  return &device == &owner || device.can_access(owner);
}

CUresult CheckPool(const CUmemPoolProps& props) {
  if (props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props.handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (props.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  return CheckDevice(props.location.id) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult ReadNode(const CUgraphNodeParams& from, SharedNodeParams* params,
                  std::unique_ptr<Graph>* child) {
  switch (from.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return ReadKernelNode(from.kernel, params);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (from.memcpy.flags != 0 || from.memcpy.reserved != 0) return CUDA_ERROR_INVALID_VALUE;
      return ReadMemcpyNode(from.memcpy.copyParams, from.memcpy.copyCtx, params);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return ReadMemsetNode(from.memset, params);
    case CU_GRAPH_NODE_TYPE_HOST:
      return ReadHostNode(from.host, params);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return ReadChild(from.graph, child);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return ReadEventNode(from.eventWait.event, /*record=*/false, params);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return ReadEventNode(from.eventRecord.event, /*record=*/true, params);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return ReadBatchMemOpNode(from.memOp, params);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult AddMemAllocNode(Graph* graph, const std::vector<GraphEdge>& dependencies,
                         CUDA_MEM_ALLOC_NODE_PARAMS_v2* from, GraphNode** node) {
  if (InConditional(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  WARPLINE_TRY(CheckPool(from->poolProps));
  if (from->bytesize == 0 || (from->accessDescCount > 0 && from->accessDescs == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Device& device = runtime().devices[from->poolProps.location.id];
  MemAllocNodeParams made;
  for (size_t i = 0; i < from->accessDescCount; ++i) {
    const CUmemAccessDesc& access = from->accessDescs[i];
    if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        CheckDevice(access.location.id) != CUDA_SUCCESS ||
        !MayAccess(runtime().devices[access.location.id], device) ||
        access.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    made.access.push_back(access);
  }
  WARPLINE_TRY(AllocateForGraph(device, graph->id, from->bytesize, &made.memory));
  made.params = *from;
  made.params.dptr = made.memory->address();
  auto shared = std::make_shared<GraphNodeParams>(std::move(made));
  auto& kept = std::get<MemAllocNodeParams>(*shared);
  kept.params.accessDescs = kept.access.empty() ? nullptr : kept.access.data();
  WARPLINE_TRY(
      AddGraphNode(graph, dependencies, CU_GRAPH_NODE_TYPE_MEM_ALLOC, shared, nullptr, node));
  from->dptr = kept.params.dptr;
  return CUDA_SUCCESS;
}

CUresult AddMemFreeNode(Graph* graph, const std::vector<GraphEdge>& dependencies,
                        CUdeviceptr address, GraphNode** node) {
  if (InConditional(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  WARPLINE_TRY(NoteGraphFreeNode(graph->id, address));
  return AddGraphNode(graph, dependencies, CU_GRAPH_NODE_TYPE_MEM_FREE,
                      std::make_shared<const GraphNodeParams>(MemFreeNodeParams{address}), nullptr,
                      node);
}

CUresult AddNode(CUgraph handle, const CUgraphNode* dependencies, const CUgraphEdgeData* data,
                 size_t count, CUgraphNodeParams* from, CUgraphNode* out) {
  if (out == nullptr || from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Graph* const graph = FindGraph(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphEdge> edges;
  WARPLINE_TRY(ReadEdges(dependencies, data, count, &edges));
  GraphNode* node = nullptr;
  if (from->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    WARPLINE_TRY(AddMemAllocNode(graph, edges, &from->alloc, &node));
  } else if (from->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    WARPLINE_TRY(AddMemFreeNode(graph, edges, from->free.dptr, &node));
  } else if (from->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    if (from->conditional.ctx != nullptr && FindContext(from->conditional.ctx) == nullptr) {
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    WARPLINE_TRY(AddConditionalNode(graph, edges, &from->conditional, &node));
  } else {
    SharedNodeParams params;
    std::unique_ptr<Graph> child;
    WARPLINE_TRY(ReadNode(*from, &params, &child));
    if (child.get() == graph) {
      static_cast<void>(child.release());  // The graph itself owns it.
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult result =
        AddGraphNode(graph, edges, from->type, std::move(params), std::move(child), &node);
    if (result != CUDA_SUCCESS) {
      // After a failure the application keeps the graph that was to be moved.
      if (from->type == CU_GRAPH_NODE_TYPE_GRAPH &&
          from->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
        static_cast<void>(child.release());
      }
      return result;
    }
    if (from->type == CU_GRAPH_NODE_TYPE_GRAPH) from->graph.graph = node->child->handle;
  }
  *out = node->handle;
  return CUDA_SUCCESS;
}

CUgraphNodeParams AsNode(CUgraphNodeType type) {
  CUgraphNodeParams params = {};
  params.type = type;
  return params;
}

}  // namespace warpline::stub
