#include "client_stub/core/graph/graph.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "client_stub/core/graph/user_objects.h"
#include "client_stub/core/runtime/runtime.h"
#include "proto/graph_definition.h"

namespace warpline::stub {
namespace {

using GraphTable = HandleTable<GraphRef, HandleKind::kGraph, true>;
using GraphNodeTable = HandleTable<GraphNodeRef, HandleKind::kGraphNode, true>;

// Never destroyed: the application's exit handlers may still call.
struct Tables {
  GraphTable graphs;
  GraphNodeTable nodes;
  uint64_t next_id = 1;
};

Tables& tables() {
  static Tables* const made = new Tables;
  return *made;
}

bool AddHandle(Graph* graph) {
  const uint64_t handle = tables().graphs.Add([graph](GraphRef& ref, uint64_t number) {
    ref.graph = graph;
    graph->handle = HandleOf<CUgraph>(number);
  });
  return handle != 0;
}

bool AddHandle(GraphNode* node) {
  const uint64_t handle = tables().nodes.Add([node](GraphNodeRef& ref, uint64_t number) {
    ref.node = node;
    node->handle = HandleOf<CUgraphNode>(number);
  });
  return handle != 0;
}

void RemoveHandle(GraphNode* node) {
  if (node->handle == nullptr) return;
  tables().nodes.Remove(NumberOf(node->handle), [](GraphNodeRef& ref) { ref.node = nullptr; });
}

// Only kernels have ports, and a programmatic edge leads from one kernel to another.
bool ValidEdge(const GraphNode& from, const GraphNode& to, const CUgraphEdgeData& data) {
  if (IsDefaultEdge(data)) return true;
  const CUgraphEdgeData known = {data.from_port, 0, data.type, {}};
  if (std::memcmp(&known, &data, sizeof(data)) != 0) return false;
  if (from.type != CU_GRAPH_NODE_TYPE_KERNEL) return false;
  if (data.from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) return false;
  if (data.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT) return true;
  return data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
         to.type == CU_GRAPH_NODE_TYPE_KERNEL && data.from_port != 0;
}

std::vector<GraphEdge>::iterator FindEdge(std::vector<GraphEdge>* edges, const GraphNode* node,
                                          const CUgraphEdgeData& data) {
  return std::find_if(edges->begin(), edges->end(), [&](const GraphEdge& edge) {
    return edge.node == node && std::memcmp(&edge.data, &data, sizeof(data)) == 0;
  });
}

void Link(GraphNode* from, GraphNode* to, const CUgraphEdgeData& data) {
  from->dependents.push_back({to, data});
  to->dependencies.push_back({from, data});
}

}  // namespace

Graph::~Graph() {
  if (frame != 0 && EnterInitialized() == CUDA_SUCCESS) {
    runtime().commands->Send(cmd::ConditionalDestroy{frame});
  }
  for (const auto& node : nodes) RemoveHandle(node.get());
  if (handle != nullptr) {
    tables().graphs.Remove(NumberOf(handle), [](GraphRef& ref) { ref.graph = nullptr; });
  }
  for (const auto& [object, count] : objects) ReleaseUserObject(object, count);
}

Graph* FindGraph(CUgraph handle) {
  const GraphRef* ref = tables().graphs.Find(NumberOf(handle));
  return ref == nullptr ? nullptr : ref->graph;
}

GraphNode* FindGraphNode(CUgraphNode handle) {
  const GraphNodeRef* ref = tables().nodes.Find(NumberOf(handle));
  return ref == nullptr ? nullptr : ref->node;
}

Graph* AdoptGraph(std::unique_ptr<Graph> graph) {
  if (graph->id == 0) graph->id = tables().next_id++;
  if (graph->handle == nullptr && !AddHandle(graph.get())) return nullptr;
  return graph.release();
}

Graph* CreateGraph() { return AdoptGraph(std::make_unique<Graph>()); }

CUresult DestroyGraph(Graph* graph) {
  if (graph->parent != nullptr || GraphIsCaptured(*graph)) return CUDA_ERROR_INVALID_VALUE;
  delete graph;
  return CUDA_SUCCESS;
}

CUresult AddGraphNode(Graph* graph, const std::vector<GraphEdge>& dependencies,
                      CUgraphNodeType type, std::shared_ptr<const GraphNodeParams> params,
                      std::unique_ptr<Graph>&& child, GraphNode** added) {
  auto node = std::make_unique<GraphNode>();
  node->type = type;
  for (size_t i = 0; i < dependencies.size(); ++i) {
    const GraphEdge& edge = dependencies[i];
    if (edge.node->graph != graph || !ValidEdge(*edge.node, *node, edge.data)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t j = 0; j < i; ++j) {
      if (dependencies[j].node == edge.node) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (!AddHandle(node.get())) return CUDA_ERROR_OUT_OF_MEMORY;
  node->id = tables().next_id++;
  node->graph = graph;
  node->params = std::move(params);
  node->child = std::move(child);
  if (node->child != nullptr) node->child->parent = node.get();
  for (const GraphEdge& edge : dependencies) Link(edge.node, node.get(), edge.data);
  *added = node.get();
  graph->nodes.push_back(std::move(node));
  return CUDA_SUCCESS;
}

void DestroyGraphNode(GraphNode* node) {
  const auto forget = [node](std::vector<GraphEdge>* edges) {
    std::erase_if(*edges, [node](const GraphEdge& edge) { return edge.node == node; });
  };
  for (const GraphEdge& edge : node->dependencies) forget(&edge.node->dependents);
  for (const GraphEdge& edge : node->dependents) forget(&edge.node->dependencies);
  RemoveHandle(node);
  std::erase_if(node->graph->nodes,
                [node](const std::unique_ptr<GraphNode>& other) { return other.get() == node; });
}

bool GraphHasMemoryNodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
           node->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
           (node->child != nullptr && GraphHasMemoryNodes(*node->child));
  });
}

bool GraphIsCaptured(const Graph& graph) {
  return graph.captures > 0 ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
           return (node->child != nullptr && GraphIsCaptured(*node->child)) ||
                  std::any_of(node->bodies.begin(), node->bodies.end(),
                              [](const auto& body) { return GraphIsCaptured(*body); });
         });
}

bool GraphHasConditionalNodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
           (node->child != nullptr && GraphHasConditionalNodes(*node->child));
  });
}

Graph* RootOf(Graph* graph) {
  while (graph->parent != nullptr) graph = graph->parent->graph;
  return graph;
}

CUresult AddConditionalNode(Graph* graph, const std::vector<GraphEdge>& dependencies,
                            CUDA_CONDITIONAL_NODE_PARAMS* params, GraphNode** added) {
  const auto handle = RootOf(graph)->conditionals.find(params->handle);
  const unsigned int most = params->type == CU_GRAPH_COND_TYPE_IF       ? 2
                            : params->type == CU_GRAPH_COND_TYPE_WHILE  ? 1
                            : params->type == CU_GRAPH_COND_TYPE_SWITCH ? kMaxGraphBodies - 1
                                                                        : 0;
  if (handle == RootOf(graph)->conditionals.end() || handle->second || params->size == 0 ||
      params->size > most) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  GraphNode* node = nullptr;
  WARPLINE_TRY(AddGraphNode(graph, dependencies, CU_GRAPH_NODE_TYPE_CONDITIONAL,
                            std::make_shared<const GraphNodeParams>(ConditionalNodeParams{*params}),
                            nullptr, &node));
  for (unsigned int i = 0; i < params->size; ++i) {
    auto body = std::make_unique<Graph>();
    body->id = tables().next_id++;
    body->parent = node;
    if (!AddHandle(body.get())) {
      DestroyGraphNode(node);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->body_handles.push_back(body->handle);
    node->bodies.push_back(std::move(body));
  }
  handle->second = true;
  params->phGraph_out = node->body_handles.data();
  *added = node;
  return CUDA_SUCCESS;
}

CUresult ReadEdges(const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                   std::vector<GraphEdge>* edges) {
  if (count > 0 && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* const node = FindGraphNode(nodes[i]);
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    edges->push_back({node, data == nullptr ? CUgraphEdgeData{} : data[i]});
  }
  return CUDA_SUCCESS;
}

bool IsDefaultEdge(const CUgraphEdgeData& data) {
  static constexpr CUgraphEdgeData kDefault = {};
  return std::memcmp(&data, &kDefault, sizeof(data)) == 0;
}

CUresult AddGraphEdge(GraphNode* from, GraphNode* to, const CUgraphEdgeData& data) {
  if (from == to || !ValidEdge(*from, *to, data) ||
      FindEdge(&to->dependencies, from, data) != to->dependencies.end()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Link(from, to, data);
  return CUDA_SUCCESS;
}

CUresult RemoveGraphEdge(GraphNode* from, GraphNode* to, const CUgraphEdgeData& data) {
  const auto backward = FindEdge(&to->dependencies, from, data);
  const auto forward = FindEdge(&from->dependents, to, data);
  if (backward == to->dependencies.end() || forward == from->dependents.end()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  to->dependencies.erase(backward);
  from->dependents.erase(forward);
  return CUDA_SUCCESS;
}

std::unique_ptr<Graph> CopyGraph(const Graph& graph, GraphCopy how) {
  auto copy = std::make_unique<Graph>();
  copy->id = how == GraphCopy::kClone ? tables().next_id++ : graph.id;
  copy->cloned_from = graph.id;
  if (how == GraphCopy::kClone && !AddHandle(copy.get())) return nullptr;
  absl::flat_hash_map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : graph.nodes) {
    auto made = std::make_unique<GraphNode>();
    if (how == GraphCopy::kClone && !AddHandle(made.get())) return nullptr;
    made->id = how == GraphCopy::kClone ? tables().next_id++ : node->id;
    made->cloned_from = node->id;
    made->graph = copy.get();
    made->type = node->type;
    made->params = node->params;
    made->enabled = node->enabled;
    copies[node.get()] = made.get();
    copy->nodes.push_back(std::move(made));
    GraphNode* const added = copy->nodes.back().get();
    for (const auto& body : node->bodies) {
      added->bodies.push_back(CopyGraph(*body, how));
      if (added->bodies.back() == nullptr) return nullptr;
      added->bodies.back()->parent = added;
    }
    if (node->child == nullptr) continue;
    added->child = CopyGraph(*node->child, how);
    if (added->child == nullptr) return nullptr;
    added->child->parent = added;
  }
  for (const auto& node : graph.nodes) {
    GraphNode* const made = copies[node.get()];
    for (const GraphEdge& edge : node->dependencies) {
      made->dependencies.push_back({copies[edge.node], edge.data});
    }
    for (const GraphEdge& edge : node->dependents) {
      made->dependents.push_back({copies[edge.node], edge.data});
    }
  }
  for (const auto& [object, count] : graph.objects) {
    RetainUserObject(object, count);
    copy->objects[object] = count;
  }
  return copy;
}

bool TopologicalOrder(const Graph& graph, std::vector<GraphNode*>* order) {
  absl::flat_hash_map<const GraphNode*, size_t> missing;
  std::deque<GraphNode*> ready;
  for (const auto& node : graph.nodes) {
    if (node->dependencies.empty()) {
      ready.push_back(node.get());
    } else {
      missing[node.get()] = node->dependencies.size();
    }
  }
  while (!ready.empty()) {
    GraphNode* const node = ready.front();
    ready.pop_front();
    order->push_back(node);
    for (const GraphEdge& edge : node->dependents) {
      if (--missing[edge.node] == 0) ready.push_back(edge.node);
    }
  }
  return order->size() == graph.nodes.size();
}

}  // namespace warpline::stub
