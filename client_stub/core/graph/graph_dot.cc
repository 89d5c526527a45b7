#include "client_stub/core/graph/graph_dot.h"

#include <fstream>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace warpline::stub {
namespace {

const char* TypeName(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "BATCH_MEM_OP";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "CONDITIONAL";
    default:
      return "OTHER";
  }
}

std::string Hex(uint64_t number) { return absl::StrCat("0x", absl::Hex(number)); }

std::string Details(const GraphNode& node, unsigned int flags) {
  const bool all = (flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE) != 0;
  const auto wants = [&](unsigned int flag) { return all || (flags & flag) != 0; };
  std::string text;
  if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES)) {
    absl::StrAppend(&text, "\\nnode ", Hex(NumberOf(node.handle)));
  }
  if (node.params == nullptr) return text;
  if (const auto* kernel = std::get_if<KernelNodeParams>(node.params.get())) {
    absl::StrAppend(&text, "\\n", kernel->kernel->name);
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS)) {
      const LaunchGeometry& l = kernel->launch;
      absl::StrAppend(&text, "\\ngrid ", l.grid[0], ",", l.grid[1], ",", l.grid[2], "\\nblock ",
                      l.block[0], ",", l.block[1], ",", l.block[2], "\\nshared ",
                      l.dynamic_shared_bytes);
    }
  } else if (const auto* copy = std::get_if<MemcpyNodeParams>(node.params.get())) {
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS)) {
      const CUDA_MEMCPY3D& c = copy->copy;
      absl::StrAppend(&text, "\\nbytes ", c.WidthInBytes, "x", c.Height, "x", c.Depth);
    }
  } else if (const auto* set = std::get_if<CUDA_MEMSET_NODE_PARAMS_v2>(node.params.get())) {
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS)) {
      absl::StrAppend(&text, "\\ndst ", Hex(set->dst), "\\nvalue ", set->value, "\\nelements ",
                      set->width, "x", set->height, " of ", set->elementSize);
    }
  } else if (const auto* host = std::get_if<CUDA_HOST_NODE_PARAMS_v2>(node.params.get())) {
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS)) {
      absl::StrAppend(&text, "\\nfunction ", Hex(reinterpret_cast<uint64_t>(host->fn)));
    }
  }
  return text;
}

void Append(const Graph& graph, unsigned int flags, std::string* text) {
  const std::string prefix = absl::StrCat("graph_", graph.id, "_node_");
  absl::flat_hash_map<const GraphNode*, size_t> index;
  for (const auto& node : graph.nodes) index.emplace(node.get(), index.size());
  absl::StrAppend(text, "subgraph cluster_", graph.id, " {\nlabel=\"graph_", graph.id, "\"\n");
  for (const auto& node : graph.nodes) {
    // The application chooses the names of kernels.
    const std::string details = absl::StrReplaceAll(Details(*node, flags), {{"\"", "'"}});
    absl::StrAppend(text, "\"", prefix, index[node.get()], "\"[shape=\"rectangle\" label=\"",
                    index[node.get()], "\\n", TypeName(node->type), details, "\"];\n");
    if (node->child != nullptr) Append(*node->child, flags, text);
    for (const auto& body : node->bodies) Append(*body, flags, text);
  }
  for (const auto& node : graph.nodes) {
    for (const GraphEdge& edge : node->dependents) {
      absl::StrAppend(text, "\"", prefix, index[node.get()], "\" -> \"", prefix, index[edge.node],
                      "\";\n");
    }
  }
  absl::StrAppend(text, "}\n");
}

}  // namespace

std::string GraphToDot(const Graph& graph, unsigned int flags) {
  std::string text = "digraph dot {\n";
  Append(graph, flags, &text);
  absl::StrAppend(&text, "}\n");
  return text;
}

bool WriteDot(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  return static_cast<bool>(file.flush());
}

}  // namespace warpline::stub
