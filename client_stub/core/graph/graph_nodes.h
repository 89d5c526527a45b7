// Makes nodes from an application's descriptions, whichever call they come by.
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_NODES_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_NODES_H_

#include <memory>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/graph/graph.h"

namespace warpline::stub {

// All functions here are called with GraphMutex() held.

// Reads the description of a node of any type except those that allocate and free.
// CUDA_ERROR_NOT_SUPPORTED for external semaphores and for conditional nodes, which cannot change.
CUresult ReadNode(const CUgraphNodeParams& from, SharedNodeParams* params,
                  std::unique_ptr<Graph>* child);

// Appends a node that allocates or frees memory.
CUresult AddMemAllocNode(Graph* graph, const std::vector<GraphEdge>& dependencies,
                         CUDA_MEM_ALLOC_NODE_PARAMS_v2* params, GraphNode** node);
CUresult AddMemFreeNode(Graph* graph, const std::vector<GraphEdge>& dependencies,
                        CUdeviceptr address, GraphNode** node);

// Appends a node of any type; `from` is written where a call gives something back in it.
CUresult AddNode(CUgraph handle, const CUgraphNode* dependencies, const CUgraphEdgeData* data,
                 size_t count, CUgraphNodeParams* from, CUgraphNode* node);

// Returns empty parameters of `type`, in the form of the calls that take any type.
CUgraphNodeParams AsNode(CUgraphNodeType type);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_NODES_H_
