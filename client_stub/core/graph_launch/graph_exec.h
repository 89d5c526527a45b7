// Executable graphs: copies of graphs, and how they are launched.
//
// A launch sends the commands of the nodes, in an order that their dependencies allow, on the
// stream of the launch. A graph whose nodes stay on the device has a copy on the server, which runs
// it as the device's own graph with one command. The copy is made at the second launch without a
// change, so that a graph that is launched once or changed each time costs only its nodes.
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_LAUNCH_GRAPH_EXEC_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_LAUNCH_GRAPH_EXEC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/graph/graph.h"
#include "client_stub/core/graph_launch/remote_graph.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// The latest launch of a graph: the stream, its number on the wire, and the command.
struct FormerLaunch {
  CUstream stream = nullptr;
  uint64_t wire = 0;
  uint64_t seq = 0;
};

struct GraphExec {
  CUgraphExec handle = nullptr;
  uint64_t flags = 0;
  std::unique_ptr<Graph> graph;
  absl::flat_hash_map<uint64_t, GraphNode*>
      nodes;                        // Also those of child graphs; by their original's id.
  std::shared_ptr<GraphPlan> plan;  // Made when needed; nullptr after a change.
  FormerLaunch former;
  uint64_t frame = 0;  // The server's frame graph; set for graphs with conditional nodes, which
                       // only the device can run.
};

// The functions here are called with GraphMutex() held, unless they say otherwise.
GraphExec* FindGraphExec(CUgraphExec handle);
// CUDA_ERROR_INVALID_VALUE for a graph that cannot be executed; `*wrong` is then one of the nodes
// that are in the way, or nullptr. CUDA_ERROR_NOT_SUPPORTED for launches from the device, and for a
// second executable graph of one with memory or conditional nodes. CUDA_ERROR_ILLEGAL_STATE while a
// capture appends to the graph.
CUresult Instantiate(const Graph& graph, uint64_t flags, GraphExec** exec, const GraphNode** wrong);
// Returns the plan of a new executable graph that the device must build before it can be launched;
// the caller calls its Make() without the lock. Returns nullptr for all other graphs.
std::shared_ptr<GraphPlan> PlanToMake(GraphExec* exec);
void DestroyGraphExec(GraphExec* exec);
// Returns the copy of a node of the graph that `exec` was made from; nullptr for any other node.
GraphNode* NodeInExec(const GraphExec& exec, const GraphNode* node);
// Sets what a node of the executable graph does.
void SetExecNode(GraphExec* exec, GraphNode* node, SharedNodeParams params);
// Replaces a child graph of the executable graph. CUDA_ERROR_INVALID_VALUE for a graph of another
// shape.
CUresult SetExecChild(GraphExec* exec, GraphNode* node, const Graph& graph);
// Works like cuGraphExecUpdate, also for child graphs.
CUresult UpdateExec(GraphExec* exec, const Graph& graph, CUgraphExecUpdateResultInfo* info);

// These two take GraphMutex() themselves.
CUresult LaunchExec(CUgraphExec handle, Stream* stream);
CUresult UploadExec(CUgraphExec handle, Stream* stream);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_LAUNCH_GRAPH_EXEC_H_
