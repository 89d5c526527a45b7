#include "client_stub/core/graph/capture.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/captures.h"

namespace warpline::stub {
namespace {

// Called at the end of a capture. The application does not get a graph that an invalid capture
// made.
void LeaveGraph(const CaptureSequence& sequence) {
  --sequence.graph->captures;
  if (!sequence.valid && sequence.own_graph) DestroyGraph(sequence.graph);
}

// Whether the last nodes of `origin` come after everything that the capture's other streams did.
bool Joined(const CaptureSequence& sequence, const std::vector<GraphEdge>& front) {
  if (sequence.fronts.size() == 1 && sequence.left.empty()) return true;
  absl::flat_hash_set<const GraphNode*> reached;
  std::vector<const GraphNode*> rest;
  const auto visit = [&](const GraphEdge& edge) {
    if (reached.insert(edge.node).second) rest.push_back(edge.node);
  };
  std::for_each(front.begin(), front.end(), visit);
  while (!rest.empty()) {
    const GraphNode* const node = rest.back();
    rest.pop_back();
    std::for_each(node->dependencies.begin(), node->dependencies.end(), visit);
  }
  const auto joined = [&](const std::vector<GraphEdge>& edges) {
    return std::all_of(edges.begin(), edges.end(),
                       [&](const GraphEdge& edge) { return reached.contains(edge.node); });
  };
  return joined(sequence.left) &&
         std::all_of(sequence.fronts.begin(), sequence.fronts.end(),
                     [&](const auto& entry) { return joined(entry.second.edges); });
}

CUresult CaptureWithLocked(Stream* stream, const CaptureAppend& append) {
  CaptureSequence* sequence;
  WARPLINE_TRY(ValidCapture(*stream, &sequence));
  CaptureSequence::Front& front = sequence->fronts[stream];
  GraphNode* node = nullptr;
  const CUresult result = append(sequence->graph, front.edges, &node);
  if (result != CUDA_SUCCESS) {
    InvalidateCapture(sequence);
    return result;
  }
  front.edges = {{node, {}}};
  return CUDA_SUCCESS;
}

}  // namespace

CUresult BeginCapture(Stream* stream, CUstreamCaptureMode mode, CUgraph handle,
                      const CUgraphNode* dependencies, const CUgraphEdgeData* data, size_t count) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->legacy()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  MutexLock lock(&GraphMutex());
  if (Captured(*stream)) return CUDA_ERROR_ILLEGAL_STATE;
  auto sequence = std::make_unique<CaptureSequence>();
  sequence->own_graph = handle == nullptr;
  sequence->graph = sequence->own_graph ? CreateGraph() : FindGraph(handle);
  if (sequence->graph == nullptr) {
    return sequence->own_graph ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<GraphEdge> edges;
  WARPLINE_TRY(ReadEdges(dependencies, data, count, &edges));
  for (const GraphEdge& edge : edges) {
    if (edge.node->graph != sequence->graph) return CUDA_ERROR_INVALID_VALUE;
  }
  ++sequence->graph->captures;
  sequence->ended = LeaveGraph;
  sequence->mode = mode;
  StartCapture(std::move(sequence), stream, std::move(edges));
  return CUDA_SUCCESS;
}

CUresult EndCapture(Stream* stream, CUgraph* graph) {
  MutexLock lock(&GraphMutex());
  CaptureSequence* const sequence = CaptureOf(*stream);
  if (sequence == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (sequence->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !StartedOnThisThread(*sequence)) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  if (sequence->origin != stream) {
    InvalidateCapture(sequence);
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  // The caller knows a graph that it captures into itself.
  if (graph == nullptr && sequence->own_graph) return CUDA_ERROR_INVALID_VALUE;
  CUgraph unwanted;
  if (graph == nullptr) graph = &unwanted;
  *graph = nullptr;
  CUresult result = CUDA_SUCCESS;
  if (!sequence->valid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!Joined(*sequence, sequence->fronts[stream].edges)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    InvalidateCapture(sequence);
  } else {
    *graph = sequence->graph->handle;
  }
  CloseCapture(sequence);
  return result;
}

CUresult GetCaptureInfo(Stream* stream, CaptureInfo* info) {
  if (!AnyCapture()) return CUDA_SUCCESS;
  MutexLock lock(&GraphMutex());
  if (stream->legacy()) return CheckLegacyStream(stream->device, /*invalidate=*/false);
  CaptureSequence* const sequence = CaptureOf(*stream);
  if (sequence == nullptr) return CUDA_SUCCESS;
  info->status =
      sequence->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  info->id = sequence->id;
  if (!sequence->valid) return CUDA_SUCCESS;
  info->graph = sequence->graph->handle;
  CaptureSequence::Front& front = sequence->fronts[stream];
  front.shown_nodes.clear();
  front.shown_data.clear();
  for (const GraphEdge& edge : front.edges) {
    front.shown_nodes.push_back(edge.node->handle);
    front.shown_data.push_back(edge.data);
    info->has_edge_data |= !IsDefaultEdge(edge.data);
  }
  info->dependencies = front.shown_nodes.data();
  info->edges = front.shown_data.data();
  info->count = front.edges.size();
  return CUDA_SUCCESS;
}

CUresult UpdateCaptureDependencies(Stream* stream, const CUgraphNode* nodes,
                                   const CUgraphEdgeData* data, size_t count, unsigned int flags) {
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(&GraphMutex());
  CaptureSequence* sequence;
  WARPLINE_TRY(ValidCapture(*stream, &sequence));
  std::vector<GraphEdge> edges;
  WARPLINE_TRY(ReadEdges(nodes, data, count, &edges));
  for (const GraphEdge& edge : edges) {
    if (edge.node->graph != sequence->graph) return CUDA_ERROR_INVALID_VALUE;
  }
  CaptureSequence::Front& front = sequence->fronts[stream];
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) front.edges.clear();
  MergeEdges(&front.edges, edges);
  return CUDA_SUCCESS;
}

CUresult CaptureWith(Stream* stream, const CaptureAppend& append) {
  MutexLock lock(&GraphMutex());
  return CaptureWithLocked(stream, append);
}

CUresult CaptureNode(Stream* stream, CUgraphNodeType type, SharedNodeParams params,
                     std::unique_ptr<Graph> child) {
  return CaptureWith(
      stream, [&](Graph* graph, const std::vector<GraphEdge>& edges, GraphNode** node) {
        return AddGraphNode(graph, edges, type, std::move(params), std::move(child), node);
      });
}

CUresult CaptureLaunch(Stream* stream, Kernel* kernel, const LaunchGeometry& launch,
                       const LaunchAttributes* attributes, std::string_view packed) {
  return CaptureNode(stream, CU_GRAPH_NODE_TYPE_KERNEL,
                     MakeKernelNode(kernel, launch, attributes, packed, stream->context));
}

CUresult CaptureLibraryCall(Stream* stream, LibraryNodeParams call) {
  return CaptureNode(stream, CU_GRAPH_NODE_TYPE_EMPTY,
                     std::make_shared<const GraphNodeParams>(std::move(call)));
}

CUresult CaptureCopy(Stream* stream, const CUDA_MEMCPY3D& copy) {
  SharedNodeParams params;
  WARPLINE_TRY(ReadMemcpyNode(copy, nullptr, &params));
  return CaptureNode(stream, CU_GRAPH_NODE_TYPE_MEMCPY, std::move(params));
}

CUresult CaptureMemset(Stream* stream, const CUDA_MEMSET_NODE_PARAMS_v2& from) {
  SharedNodeParams params;
  WARPLINE_TRY(ReadMemsetNode(from, &params));
  return CaptureNode(stream, CU_GRAPH_NODE_TYPE_MEMSET, std::move(params));
}

CUresult CaptureExternalRecord(Stream* stream, const Event* event) {
  SharedNodeParams params;
  WARPLINE_TRY(ReadEventNode(event->handle, /*record=*/true, &params));
  return CaptureNode(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, std::move(params));
}

CUresult CaptureExternalWait(Stream* stream, const Event* event) {
  SharedNodeParams params;
  WARPLINE_TRY(ReadEventNode(event->handle, /*record=*/false, &params));
  return CaptureNode(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, std::move(params));
}

}  // namespace warpline::stub
