// Executable graphs: a copy of a graph, and how it is launched.
//
// A launch sends the commands of the nodes, in an order that their dependencies allow, on the
// stream of the launch. A graph whose nodes stay on the device has a copy on the server, which runs
// it as the device's own graph with one command; it is made at the second launch without a change,
// so that a graph that is launched once or changed each time costs what its nodes cost.
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

// Where a graph was launched last: the stream, its number on the wire, and the command.
struct FormerLaunch {
  CUstream stream = nullptr;
  uint64_t wire = 0;
  uint64_t seq = 0;
};

struct GraphExec {
  CUgraphExec handle = nullptr;
  uint64_t flags = 0;
  std::unique_ptr<Graph> graph;
  absl::flat_hash_map<uint64_t, GraphNode*> nodes;  // Of child graphs too, by their original's id.
  std::shared_ptr<GraphPlan> plan;                  // Made when needed; nullptr after a change.
  FormerLaunch former;
  uint64_t frame = 0;  // Of a graph with conditional nodes, which only the device can run.
};

// With GraphMutex() held.
GraphExec* FindGraphExec(CUgraphExec handle);
// CUDA_ERROR_INVALID_VALUE for a graph that cannot be executed, and `*wrong` is then one of the
// nodes that are in the way, or nullptr.
CUresult Instantiate(const Graph& graph, uint64_t flags, GraphExec** exec, const GraphNode** wrong);
// What a new executable graph does where the device has to make its own of it before it is
// launched: for GraphPlan::Make(), without the lock. nullptr for all others.
std::shared_ptr<GraphPlan> PlanToMake(GraphExec* exec);
void DestroyGraphExec(GraphExec* exec);
// The copy of a node of the graph that `exec` was made from; nullptr for any other.
GraphNode* NodeInExec(const GraphExec& exec, const GraphNode* node);
// Sets what a node of the executable graph does.
void SetExecNode(GraphExec* exec, GraphNode* node, SharedNodeParams params);
// The same for a graph in it. CUDA_ERROR_INVALID_VALUE for one of another shape.
CUresult SetExecChild(GraphExec* exec, GraphNode* node, const Graph& graph);
// As cuGraphExecUpdate, for graphs in graphs too.
CUresult UpdateExec(GraphExec* exec, const Graph& graph, CUgraphExecUpdateResultInfo* info);

// Take GraphMutex() themselves.
CUresult LaunchExec(CUgraphExec handle, Stream* stream);
CUresult UploadExec(CUgraphExec handle, Stream* stream);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_LAUNCH_GRAPH_EXEC_H_
