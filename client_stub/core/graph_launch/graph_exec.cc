#include "client_stub/core/graph_launch/graph_exec.h"

#include <algorithm>
#include <utility>

#include "client_stub/core/graph/graph_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/captures.h"
#include "client_stub/core/stream/streams.h"

namespace warpline::stub {
namespace {

struct GraphExecRef {
  GraphExec* exec = nullptr;
};
using GraphExecTable = HandleTable<GraphExecRef, HandleKind::kGraphExec, true>;

// Never destroyed.
GraphExecTable& table() {
  static GraphExecTable* const made = new GraphExecTable;
  return *made;
}

void Index(const Graph& graph, GraphExec* exec) {
  for (const auto& node : graph.nodes) {
    exec->nodes[node->id] = node.get();
    if (node->child != nullptr) Index(*node->child, exec);
    for (const auto& body : node->bodies) Index(*body, exec);
  }
}

bool Acyclic(const Graph& graph) {
  std::vector<GraphNode*> order;
  return TopologicalOrder(graph, &order) &&
         std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
           return (node->child == nullptr || Acyclic(*node->child)) &&
                  std::all_of(node->bodies.begin(), node->bodies.end(),
                              [](const auto& body) { return Acyclic(*body); });
         });
}

struct Steps {
  std::vector<GraphPlan::Step> all;
  uint32_t bodies = 1;  // Counts the graph itself.
};

// Appends the graph's steps, which belong to `body`. Steps without dependencies come after
// `before`. Returns the steps that no other step comes after.
std::vector<uint32_t> Flatten(const Graph& graph, const std::vector<uint32_t>& before,
                              uint32_t body, Steps* steps) {
  std::vector<GraphNode*> order;
  TopologicalOrder(graph, &order);
  // The steps that a node's dependents come after.
  absl::flat_hash_map<const GraphNode*, std::vector<uint32_t>> ends;
  std::vector<uint32_t> last;
  for (const GraphNode* node : order) {
    std::vector<uint32_t> after;
    for (const GraphEdge& edge : node->dependencies) {
      const std::vector<uint32_t>& end = ends[edge.node];
      after.insert(after.end(), end.begin(), end.end());
    }
    if (node->dependencies.empty()) after = before;
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    std::vector<uint32_t>& end = ends[node];
    if (node->child != nullptr && node->enabled && !node->child->nodes.empty()) {
      end = Flatten(*node->child, after, body, steps);
    } else {
      end = {static_cast<uint32_t>(steps->all.size())};
      steps->all.push_back({node->enabled ? node->params : nullptr, std::move(after), body});
    }
    uint32_t next = steps->bodies;
    steps->bodies += static_cast<uint32_t>(node->bodies.size());
    for (const auto& inner : node->bodies) Flatten(*inner, {}, next++, steps);
    if (node->dependents.empty()) last.insert(last.end(), end.begin(), end.end());
  }
  return last;
}

std::shared_ptr<GraphPlan> PlanOf(GraphExec* exec) {
  if (exec->plan == nullptr) {
    Steps steps;
    Flatten(*exec->graph, {}, 0, &steps);
    exec->plan = std::make_shared<GraphPlan>(std::move(steps.all), exec->frame);
  }
  return exec->plan;
}

// Does what a launch does to the memory of graphs. CUDA_ERROR_INVALID_VALUE where an allocation of
// the former launch is in the way.
CUresult LaunchMemory(const GraphPlan& plan, bool auto_free) {
  for (const GraphPlan::Step& step : plan.steps()) {
    const auto* alloc =
        step.params == nullptr ? nullptr : std::get_if<MemAllocNodeParams>(step.params.get());
    if (alloc == nullptr || !IsGraphMemoryLive(alloc->params.dptr)) continue;
    if (!auto_free) return CUDA_ERROR_INVALID_VALUE;
    SetGraphMemoryLive(alloc->params.dptr, false);
  }
  for (const GraphPlan::Step& step : plan.steps()) {
    if (step.params == nullptr) continue;
    if (const auto* alloc = std::get_if<MemAllocNodeParams>(step.params.get())) {
      SetGraphMemoryLive(alloc->params.dptr, true);
    } else if (const auto* free = std::get_if<MemFreeNodeParams>(step.params.get())) {
      SetGraphMemoryLive(free->address, false);
    }
  }
  return CUDA_SUCCESS;
}

// Orders a launch after the former launch of the same graph, in whichever stream that was.
CUresult ComeAfterFormer(const FormerLaunch& launch, Stream* stream) {
  if (launch.wire == 0 || launch.wire == stream->wire) return CUDA_SUCCESS;
  Commands& commands = *runtime().commands;
  if (commands.Retired(launch.wire, launch.seq)) return CUDA_SUCCESS;
  Stream* const former = launch.stream == CU_STREAM_LEGACY
                             ? &runtime().devices[DeviceOfHandle(launch.wire)].legacy
                             : FindStream(launch.stream, DefaultStream::kLegacy);
  if (former == nullptr || former->wire != launch.wire || Captured(*former)) return CUDA_SUCCESS;
  return Join(former, stream);
}

bool SameEdges(const GraphNode& mine, const GraphNode& other,
               const absl::flat_hash_map<const GraphNode*, size_t>& places) {
  if (mine.dependencies.size() != other.dependencies.size()) return false;
  for (size_t i = 0; i < mine.dependencies.size(); ++i) {
    if (places.at(mine.dependencies[i].node) != places.at(other.dependencies[i].node)) return false;
  }
  return true;
}

CUresult Differs(CUgraphExecUpdateResult result, const GraphNode* node,
                 CUgraphExecUpdateResultInfo* info) {
  info->result = result;
  info->errorNode = node == nullptr ? nullptr : node->handle;
  info->errorFromNode = nullptr;
  return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

// Compares those parameters of a node that an update may not change.
CUresult CompareNodes(const GraphNode& mine, const GraphNode& other,
                      CUgraphExecUpdateResultInfo* info) {
  if (mine.type != other.type) {
    return Differs(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, &other, info);
  }
  if (mine.type == CU_GRAPH_NODE_TYPE_KERNEL) {
    const auto& a = std::get<KernelNodeParams>(*mine.params);
    const auto& b = std::get<KernelNodeParams>(*other.params);
    if (a.attributes.cooperative != b.attributes.cooperative) {
      return Differs(CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, &other, info);
    }
  } else if (mine.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    const auto& a = std::get<MemcpyNodeParams>(*mine.params).copy;
    const auto& b = std::get<MemcpyNodeParams>(*other.params).copy;
    if (a.srcMemoryType != b.srcMemoryType || a.dstMemoryType != b.dstMemoryType) {
      return Differs(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, &other, info);
    }
  } else if (mine.type == CU_GRAPH_NODE_TYPE_MEMSET) {
    const auto& a = std::get<CUDA_MEMSET_NODE_PARAMS_v2>(*mine.params);
    const auto& b = std::get<CUDA_MEMSET_NODE_PARAMS_v2>(*other.params);
    const bool flat = a.height == 1 && b.height == 1;
    if (!flat && (a.width != b.width || a.height != b.height || a.pitch != b.pitch ||
                  a.elementSize != b.elementSize)) {
      return Differs(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, &other, info);
    }
  }
  return CUDA_SUCCESS;
}

CUresult CompareGraphs(const Graph& mine, const Graph& other, CUgraphExecUpdateResultInfo* info) {
  if (mine.nodes.size() != other.nodes.size()) {
    return Differs(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, info);
  }
  absl::flat_hash_map<const GraphNode*, size_t> places;
  for (size_t i = 0; i < mine.nodes.size(); ++i) {
    places[mine.nodes[i].get()] = i;
    places[other.nodes[i].get()] = i;
  }
  for (size_t i = 0; i < mine.nodes.size(); ++i) {
    const GraphNode& a = *mine.nodes[i];
    const GraphNode& b = *other.nodes[i];
    if (!SameEdges(a, b, places)) {
      return Differs(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &b, info);
    }
    WARPLINE_TRY(CompareNodes(a, b, info));
    if (a.child != nullptr) WARPLINE_TRY(CompareGraphs(*a.child, *b.child, info));
  }
  return CUDA_SUCCESS;
}

void CopyParams(const Graph& from, Graph* to) {
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    to->nodes[i]->params = from.nodes[i]->params;
    if (from.nodes[i]->child != nullptr) {
      CopyParams(*from.nodes[i]->child, to->nodes[i]->child.get());
    }
  }
}

}  // namespace

GraphExec* FindGraphExec(CUgraphExec handle) {
  const GraphExecRef* ref = table().Find(NumberOf(handle));
  return ref == nullptr ? nullptr : ref->exec;
}

CUresult Instantiate(const Graph& graph, uint64_t flags, GraphExec** out, const GraphNode** wrong) {
  *wrong = nullptr;
  constexpr uint64_t kKnown =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if ((flags & ~kKnown) != 0 || graph.parent != nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Kernels cannot reach this driver's graphs.
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (GraphIsCaptured(graph)) return CUDA_ERROR_ILLEGAL_STATE;
  if (!Acyclic(graph)) {
    *wrong = graph.nodes.front().get();
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool conditional = GraphHasConditionalNodes(graph);
  if (conditional || GraphHasMemoryNodes(graph)) {
    bool other = false;
    table().ForEach([&](const GraphExecRef& ref, uint64_t) {
      other |= ref.exec != nullptr && ref.exec->graph->id == graph.id;
      return !other;
    });
    if (other) return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto exec = std::make_unique<GraphExec>();
  exec->flags = flags;
  exec->frame = conditional ? graph.frame : 0;
  exec->graph = CopyGraph(graph, GraphCopy::kExecutable);
  if (exec->graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Index(*exec->graph, exec.get());
  const uint64_t handle = table().Add([&](GraphExecRef& ref, uint64_t number) {
    ref.exec = exec.get();
    exec->handle = HandleOf<CUgraphExec>(number);
  });
  if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = exec.release();
  return CUDA_SUCCESS;
}

void DestroyGraphExec(GraphExec* exec) {
  table().Remove(NumberOf(exec->handle), [](GraphExecRef& ref) { ref.exec = nullptr; });
  delete exec;
}

GraphNode* NodeInExec(const GraphExec& exec, const GraphNode* node) {
  if (node == nullptr) return nullptr;
  const auto it = exec.nodes.find(node->id);
  return it == exec.nodes.end() ? nullptr : it->second;
}

std::shared_ptr<GraphPlan> PlanToMake(GraphExec* exec) {
  return exec->frame == 0 ? nullptr : PlanOf(exec);
}

void SetExecNode(GraphExec* exec, GraphNode* node, SharedNodeParams params) {
  node->params = std::move(params);
  exec->plan = nullptr;
}

CUresult SetExecChild(GraphExec* exec, GraphNode* node, const Graph& graph) {
  CUgraphExecUpdateResultInfo info;
  if (CompareGraphs(*node->child, graph, &info) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  CopyParams(graph, node->child.get());
  exec->plan = nullptr;
  return CUDA_SUCCESS;
}

CUresult UpdateExec(GraphExec* exec, const Graph& graph, CUgraphExecUpdateResultInfo* info) {
  *info = {};
  if (exec->frame != 0) {
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  if (graph.captures > 0) {
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  WARPLINE_TRY(CompareGraphs(*exec->graph, graph, info));
  CopyParams(graph, exec->graph.get());
  exec->plan = nullptr;
  return CUDA_SUCCESS;
}

CUresult LaunchExec(CUgraphExec handle, Stream* stream) {
  // Checked before the memory of the graph counts as allocated.
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  std::shared_ptr<GraphPlan> plan;
  FormerLaunch former;
  {
    MutexLock lock(&GraphMutex());
    GraphExec* const exec = FindGraphExec(handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    former = exec->former;
    plan = PlanOf(exec);
    const bool auto_free = (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
    WARPLINE_TRY(LaunchMemory(*plan, auto_free));
  }
  WARPLINE_TRY(ComeAfterFormer(former, stream));
  WARPLINE_TRY(plan->Launch(stream));
  MutexLock lock(&GraphMutex());
  if (GraphExec* const exec = FindGraphExec(handle); exec != nullptr) {
    exec->former = {stream->handle, stream->wire, stream->last_seq.load(std::memory_order_relaxed)};
  }
  return CUDA_SUCCESS;
}

CUresult UploadExec(CUgraphExec handle, Stream* stream) {
  std::shared_ptr<GraphPlan> plan;
  {
    MutexLock lock(&GraphMutex());
    GraphExec* const exec = FindGraphExec(handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    plan = PlanOf(exec);
  }
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  plan->Upload(stream->device);
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
