// Graphs as data: making, copying and reading them, and their edges. Nothing is sent.
#include "client_stub/core/graph/graph.h"

#include <algorithm>
#include <string>

#include "client_stub/core/graph/graph_dot.h"
#include "client_stub/core/runtime/contexts.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/captures.h"
#include "proto/wire.h"

using namespace warpline::stub;
using warpline::MutexLock;
using warpline::TakeStruct;
namespace cmd = warpline::cmd;

namespace {

// The arrays of the application that a list is written to.
struct Out {
  CUgraphNode* first;   // May be nullptr, like the others.
  CUgraphNode* second;  // The other end of each edge.
  CUgraphEdgeData* data;
  bool lossy_is_wrong;  // An edge with data requires `data`.
};

struct Entry {
  CUgraphNode first = nullptr;
  CUgraphNode second = nullptr;
  CUgraphEdgeData data = {};
};

// Writes as many entries as there is room for, and clears the rest of the room.
CUresult Give(const std::vector<Entry>& entries, const Out& out, size_t* count) {
  if (count == nullptr || (out.data != nullptr && out.first == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (out.first == nullptr && out.second == nullptr) {
    *count = entries.size();
    return CUDA_SUCCESS;
  }
  if (out.lossy_is_wrong && out.data == nullptr) {
    for (const Entry& entry : entries) {
      if (!IsDefaultEdge(entry.data)) return CUDA_ERROR_LOSSY_QUERY;
    }
  }
  for (size_t i = 0; i < *count; ++i) {
    const Entry entry = i < entries.size() ? entries[i] : Entry{};
    if (out.first != nullptr) out.first[i] = entry.first;
    if (out.second != nullptr) out.second[i] = entry.second;
    if (out.data != nullptr) out.data[i] = entry.data;
  }
  *count = std::min(*count, entries.size());
  return CUDA_SUCCESS;
}

CUresult GetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count, bool roots) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  const Graph* const graph = FindGraph(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Entry> entries;
  for (const auto& node : graph->nodes) {
    if (!roots || node->dependencies.empty()) entries.push_back({node->handle, nullptr, {}});
  }
  return Give(entries, {nodes, nullptr, nullptr, false}, count);
}

CUresult GetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                  size_t* count) {
  WARPLINE_TRY(EnterInitialized());
  // The application must ask for both ends or none.
  if ((from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(&GraphMutex());
  const Graph* const graph = FindGraph(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Entry> entries;
  for (const auto& node : graph->nodes) {
    for (const GraphEdge& edge : node->dependents) {
      entries.push_back({node->handle, edge.node->handle, edge.data});
    }
  }
  return Give(entries, {from, to, data, true}, count);
}

CUresult GetNeighbours(CUgraphNode handle, CUgraphNode* nodes, CUgraphEdgeData* data, size_t* count,
                       bool dependents) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  const GraphNode* const node = FindGraphNode(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Entry> entries;
  for (const GraphEdge& edge : dependents ? node->dependents : node->dependencies) {
    entries.push_back({edge.node->handle, nullptr, edge.data});
  }
  return Give(entries, {nodes, nullptr, data, true}, count);
}

CUresult ChangeEdges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                     const CUgraphEdgeData* data, size_t count, bool add) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  Graph* const graph = FindGraph(handle);
  if (graph == nullptr || (count > 0 && (from == nullptr || to == nullptr))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!add && GraphHasMemoryNodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* const source = FindGraphNode(from[i]);
    GraphNode* const target = FindGraphNode(to[i]);
    if (source == nullptr || target == nullptr || source->graph != graph ||
        target->graph != graph) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUgraphEdgeData edge = data == nullptr ? CUgraphEdgeData{} : data[i];
    WARPLINE_TRY(add ? AddGraphEdge(source, target, edge) : RemoveGraphEdge(source, target, edge));
  }
  return CUDA_SUCCESS;
}

GraphNode* FindCopy(const Graph& graph, const GraphNode& original) {
  for (const auto& node : graph.nodes) {
    if (node->cloned_from == original.id) return node.get();
    if (node->child == nullptr) continue;
    if (GraphNode* const found = FindCopy(*node->child, original)) return found;
  }
  return nullptr;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  WARPLINE_TRY(EnterInitialized());
  if (phGraph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(&GraphMutex());
  const Graph* const graph = CreateGraph();
  if (graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *phGraph = graph->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  Graph* const graph = FindGraph(hGraph);
  return graph == nullptr ? CUDA_ERROR_INVALID_VALUE : DestroyGraph(graph);
}

CUresult CUDAAPI cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  WARPLINE_TRY(EnterInitialized());
  if (phGraphClone == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(&GraphMutex());
  const Graph* const graph = FindGraph(originalGraph);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (GraphHasMemoryNodes(*graph) || GraphHasConditionalNodes(*graph)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto copy = CopyGraph(*graph, GraphCopy::kClone);
  if (copy == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *phGraphClone = AdoptGraph(std::move(copy))->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode,
                                        CUgraph hClonedGraph) {
  WARPLINE_TRY(EnterInitialized());
  if (phNode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(&GraphMutex());
  const GraphNode* const original = FindGraphNode(hOriginalNode);
  const Graph* const graph = FindGraph(hClonedGraph);
  if (original == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const GraphNode* const copy = FindCopy(*graph, *original);
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *phNode = copy->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  return GetNodes(hGraph, nodes, numNodes, /*roots=*/false);
}
CUresult CUDAAPI cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
  return GetNodes(hGraph, rootNodes, numRootNodes, /*roots=*/true);
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                 size_t* numEdges) {
  return GetEdges(hGraph, from, to, nullptr, numEdges);
}
CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                    CUgraphEdgeData* edgeData, size_t* numEdges) {
  return GetEdges(hGraph, from, to, edgeData, numEdges);
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies,
                                            size_t* numDependencies) {
  return GetNeighbours(hNode, dependencies, nullptr, numDependencies, /*dependents=*/false);
}
CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies,
                                               CUgraphEdgeData* edgeData, size_t* numDependencies) {
  return GetNeighbours(hNode, dependencies, edgeData, numDependencies, /*dependents=*/false);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                              size_t* numDependentNodes) {
  return GetNeighbours(hNode, dependentNodes, nullptr, numDependentNodes, /*dependents=*/true);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                                 CUgraphEdgeData* edgeData,
                                                 size_t* numDependentNodes) {
  return GetNeighbours(hNode, dependentNodes, edgeData, numDependentNodes, /*dependents=*/true);
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from,
                                        const CUgraphNode* to, size_t numDependencies) {
  return ChangeEdges(hGraph, from, to, nullptr, numDependencies, /*add=*/true);
}
CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from,
                                           const CUgraphNode* to, const CUgraphEdgeData* edgeData,
                                           size_t numDependencies) {
  return ChangeEdges(hGraph, from, to, edgeData, numDependencies, /*add=*/true);
}
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from,
                                           const CUgraphNode* to, size_t numDependencies) {
  return ChangeEdges(hGraph, from, to, nullptr, numDependencies, /*add=*/false);
}
CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from,
                                              const CUgraphNode* to,
                                              const CUgraphEdgeData* edgeData,
                                              size_t numDependencies) {
  return ChangeEdges(hGraph, from, to, edgeData, numDependencies, /*add=*/false);
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode hNode) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  GraphNode* const node = FindGraphNode(hNode);
  if (node == nullptr || GraphIsCaptured(*node->graph)) return CUDA_ERROR_INVALID_VALUE;
  if (GraphHasMemoryNodes(*node->graph)) return CUDA_ERROR_NOT_SUPPORTED;
  DestroyGraphNode(node);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle* pHandle_out,
                                                CUgraph hGraph, CUcontext ctx,
                                                unsigned int defaultLaunchValue,
                                                unsigned int flags) {
  WARPLINE_TRY(Enter());
  if (pHandle_out == nullptr || (flags & ~unsigned{CU_GRAPH_COND_ASSIGN_DEFAULT}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Context* const context = ContextOrCurrent(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  uint64_t frame;
  {
    MutexLock lock(&GraphMutex());
    Graph* const graph = FindGraph(hGraph);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Graph* const root = RootOf(graph);
    if (root->frame == 0) root->frame = runtime().NewNumber(*context->device);
    frame = root->frame;
  }
  std::string reply;
  WARPLINE_TRY(ToCu(runtime().commands->Call(
      WaitKind::kRoundTrip, cmd::ConditionalCreate{frame, defaultLaunchValue, flags}, {}, &reply)));
  std::string_view rest = reply;
  cmd::ConditionalCreateReply made;
  if (!TakeStruct(&rest, &made)) return CUDA_ERROR_UNKNOWN;
  MutexLock lock(&GraphMutex());
  Graph* const graph = FindGraph(hGraph);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  RootOf(graph)->conditionals[made.conditional] = false;
  *pHandle_out = made.conditional;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
  WARPLINE_TRY(EnterInitialized());
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string text;
  {
    MutexLock lock(&GraphMutex());
    const Graph* const graph = FindGraph(hGraph);
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    text = GraphToDot(*graph, flags);
  }
  return WriteDot(path, text) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // extern "C"
