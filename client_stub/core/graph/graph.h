// Graphs as this process keeps them. They are plain data: nodes, what each node does, and what it
// comes after.
//
// Graphs never leave the process as such. A capture appends to one, getters read it, and an
// executable graph (graph_exec.h) is a copy of one.
//
// One lock, GraphMutex() (captures.h), guards every graph, its nodes, and the captures that append
// to them. All functions here are called with it held. The parameters of a node are immutable:
// setting them replaces them, so that copies of a graph share them and they may be read without the
// lock.
//
//   MutexLock lock(&GraphMutex());
//   Graph* const graph = CreateGraph();
//   if (graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
//   GraphNode *first, *second;
//   WARPLINE_TRY(AddGraphNode(graph, {}, CU_GRAPH_NODE_TYPE_MEMSET, fill, nullptr, &first));
//   WARPLINE_TRY(AddGraphNode(graph, {{.node = first}}, CU_GRAPH_NODE_TYPE_KERNEL, kernel, nullptr,
//                             &second));
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/base/handle_table.h"
#include "client_stub/core/graph/graph_params.h"
#include "client_stub/core/stream/captures.h"
#include "client_stub/core/stream/graph_edge.h"
#include "common/mutex.h"

namespace warpline::stub {

struct Graph;
struct UserObject;

struct GraphNode {
  // Unique in the process, except that the copy in an executable graph has its original's id.
  uint64_t id = 0;
  uint64_t cloned_from = 0;  // The id of the node that cuGraphClone copied; 0 for none.
  CUgraphNode handle = nullptr;
  Graph* graph = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<const GraphNodeParams> params;
  std::unique_ptr<Graph> child;  // Set for a child graph node.
  // The bodies of a conditional node, and their handles in the form in which the application reads
  // them.
  std::vector<std::unique_ptr<Graph>> bodies;
  std::vector<CUgraph> body_handles;
  bool enabled = true;  // Used in executable graphs.
  std::vector<GraphEdge> dependencies;
  std::vector<GraphEdge> dependents;
};

struct Graph {
  Graph() = default;
  // Makes the handles invalid and gives up the references to user objects.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  uint64_t id = 0;
  CUgraph handle = nullptr;
  uint64_t cloned_from = 0;
  const GraphNode* parent = nullptr;              // The node that owns it.
  int captures = 0;                               // Captures under way that append to it.
  std::vector<std::unique_ptr<GraphNode>> nodes;  // In the order of their creation.
  std::map<UserObject*, uint64_t> objects;        // The references that it holds.
  // For graphs that no node owns: the server's graph in which the conditional handles were made (0
  // for none), and those handles, each with whether it has a node.
  uint64_t frame = 0;
  std::map<CUgraphConditionalHandle, bool> conditionals;
};

// Both return nullptr for a handle that names none.
Graph* FindGraph(CUgraph handle);
GraphNode* FindGraphNode(CUgraphNode handle);

// Creates a graph that no node owns, with a handle; returns nullptr when there are too many.
Graph* CreateGraph();
// Takes over a graph that was made without an owner, such as a clone.
Graph* AdoptGraph(std::unique_ptr<Graph> graph);
// CUDA_ERROR_INVALID_VALUE for a graph that a node owns or that is being captured into.
CUresult DestroyGraph(Graph* graph);

// Appends a node. CUDA_ERROR_INVALID_VALUE for a dependency that is named twice, is not of the
// graph, or has data that its nodes cannot have. `child` is taken only on success.
CUresult AddGraphNode(Graph* graph, const std::vector<GraphEdge>& dependencies,
                      CUgraphNodeType type, std::shared_ptr<const GraphNodeParams> params,
                      std::unique_ptr<Graph>&& child, GraphNode** node);
void DestroyGraphNode(GraphNode* node);
bool GraphHasMemoryNodes(const Graph& graph);
// Whether a capture appends to it or to any graph in its nodes.
bool GraphIsCaptured(const Graph& graph);
bool GraphHasConditionalNodes(const Graph& graph);
// Returns the outermost graph: `graph` itself if no node owns it, else the one that it lies in at
// last.
Graph* RootOf(Graph* graph);

// Works like AddGraphNode() for a conditional node and makes its bodies. `params` gets their
// handles.
CUresult AddConditionalNode(Graph* graph, const std::vector<GraphEdge>& dependencies,
                            CUDA_CONDITIONAL_NODE_PARAMS* params, GraphNode** node);

// Reads arrays of an application into edges. `data` may be nullptr.
CUresult ReadEdges(const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                   std::vector<GraphEdge>* edges);
bool IsDefaultEdge(const CUgraphEdgeData& data);

CUresult AddGraphEdge(GraphNode* from, GraphNode* to, const CUgraphEdgeData& data);
CUresult RemoveGraphEdge(GraphNode* from, GraphNode* to, const CUgraphEdgeData& data);

enum class GraphCopy {
  kClone,       // The copy has handles and ids of its own.
  kExecutable,  // The copy has no handles and keeps the original's ids.
};
// Copies the graph with its child graphs.
std::unique_ptr<Graph> CopyGraph(const Graph& graph, GraphCopy how);

// Orders the nodes so that each comes after its dependencies, and otherwise as they were created.
// Returns false for a graph with a cycle.
bool TopologicalOrder(const Graph& graph, std::vector<GraphNode*>* order);

struct GraphRef {
  Graph* graph = nullptr;
};
struct GraphNodeRef {
  GraphNode* node = nullptr;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_H_
