#include "client_stub/core/capture.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "client_stub/core/streams.h"

namespace warpline::stub {
namespace {

// One capture under way.
struct Sequence {
  uint64_t id = 0;
  Graph* graph = nullptr;  // nullptr once it is invalid, unless it is the application's.
  bool own_graph = false;  // Made by the capture.
  bool valid = true;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;
  const Stream* origin = nullptr;

  // What the next node of a stream depends on, and as the application was last shown it.
  struct Front {
    std::vector<GraphEdge> edges;
    std::vector<CUgraphNode> shown_nodes;
    std::vector<CUgraphEdgeData> shown_data;
  };
  std::map<Stream*, Front> fronts;
  // Of streams that were destroyed meanwhile: their work has to be joined all the same.
  std::vector<GraphEdge> left;
  // What was recorded, by the event's number on the wire.
  std::map<uint64_t, std::vector<GraphEdge>> events;
};

using Sequences = std::map<uint64_t, std::unique_ptr<Sequence>>;
// Guarded by GraphMutex(). Never destroyed.
Sequences& sequences() {
  static Sequences* const made = new Sequences;
  return *made;
}

uint64_t g_next_id = 1;  // Guarded by GraphMutex().

// Threads are told apart by it; unlike the system's, these numbers are not used again.
uint64_t ThisThread() {
  static std::atomic<uint64_t> next{1};
  static thread_local const uint64_t mine = next.fetch_add(1);
  return mine;
}

Sequence* Find(uint64_t id) {
  const auto it = sequences().find(id);
  return it == sequences().end() ? nullptr : it->second.get();
}

Sequence* SequenceOf(const Stream& stream) {
  const uint64_t id = stream.capture.load(std::memory_order_relaxed);
  return id == 0 ? nullptr : Find(id);
}

void Merge(std::vector<GraphEdge>* into, const std::vector<GraphEdge>& edges) {
  for (const GraphEdge& edge : edges) {
    const bool known = std::any_of(into->begin(), into->end(),
                                   [&](const GraphEdge& other) { return other.node == edge.node; });
    if (!known) into->push_back(edge);
  }
}

void Invalidate(Sequence* sequence) {
  if (!std::exchange(sequence->valid, false)) return;
  for (auto& [stream, front] : sequence->fronts) front = {};
  sequence->left.clear();
  sequence->events.clear();
}

// Takes every stream out of capture.
void Close(Sequence* sequence) {
  for (const auto& [stream, front] : sequence->fronts) {
    stream->capture.store(0, std::memory_order_relaxed);
  }
  --sequence->graph->captures;
  if (!sequence->valid && sequence->own_graph) DestroyGraph(sequence->graph);
  runtime().captures.fetch_sub(1, std::memory_order_relaxed);
  sequences().erase(sequence->id);
}

// Whether `sequence` has a stream that the device's legacy stream would have to wait for.
bool HoldsLegacy(const Sequence& sequence, const Device* device) {
  return std::any_of(sequence.fronts.begin(), sequence.fronts.end(), [device](const auto& entry) {
    return entry.first->blocking() && entry.first->device == device;
  });
}

// What a device's legacy stream in use means for those that capture.
CUresult CheckLegacy(const Device* device, bool invalidate) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& [id, sequence] : sequences()) {
    if (!HoldsLegacy(*sequence, device)) continue;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (invalidate) Invalidate(sequence.get());
  }
  return result;
}

// The capture of a stream that is given something.
CUresult ValidSequence(const Stream& stream, Sequence** sequence) {
  *sequence = SequenceOf(stream);
  if (*sequence == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  return (*sequence)->valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

// Whether everything that the capture's streams did is part of what `origin` comes to.
bool Joined(const Sequence& sequence, const std::vector<GraphEdge>& front) {
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
  Sequence* sequence;
  WARPLINE_TRY(ValidSequence(*stream, &sequence));
  Sequence::Front& front = sequence->fronts[stream];
  GraphNode* node = nullptr;
  const CUresult result = append(sequence->graph, front.edges, &node);
  if (result != CUDA_SUCCESS) {
    Invalidate(sequence);
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
  auto sequence = std::make_unique<Sequence>();
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
  sequence->id = g_next_id++;
  sequence->mode = mode;
  sequence->thread = ThisThread();
  sequence->origin = stream;
  sequence->fronts[stream].edges = std::move(edges);
  runtime().captures.fetch_add(1, std::memory_order_relaxed);
  stream->capture.store(sequence->id, std::memory_order_relaxed);
  sequences()[sequence->id] = std::move(sequence);
  return CUDA_SUCCESS;
}

CUresult EndCapture(Stream* stream, CUgraph* graph) {
  MutexLock lock(&GraphMutex());
  Sequence* const sequence = SequenceOf(*stream);
  if (sequence == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (sequence->mode != CU_STREAM_CAPTURE_MODE_RELAXED && sequence->thread != ThisThread()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  if (sequence->origin != stream) {
    Invalidate(sequence);
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  // Who captures into a graph knows it.
  if (graph == nullptr && sequence->own_graph) return CUDA_ERROR_INVALID_VALUE;
  CUgraph unwanted;
  if (graph == nullptr) graph = &unwanted;
  *graph = nullptr;
  CUresult result = CUDA_SUCCESS;
  if (!sequence->valid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!Joined(*sequence, sequence->fronts[stream].edges)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    Invalidate(sequence);
  } else {
    *graph = sequence->graph->handle;
  }
  Close(sequence);
  return result;
}

CUresult GetCaptureInfo(Stream* stream, CaptureInfo* info) {
  if (!AnyCapture()) return CUDA_SUCCESS;
  MutexLock lock(&GraphMutex());
  if (stream->legacy()) return CheckLegacy(stream->device, /*invalidate=*/false);
  Sequence* const sequence = SequenceOf(*stream);
  if (sequence == nullptr) return CUDA_SUCCESS;
  info->status =
      sequence->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  info->id = sequence->id;
  if (!sequence->valid) return CUDA_SUCCESS;
  info->graph = sequence->graph->handle;
  Sequence::Front& front = sequence->fronts[stream];
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
  Sequence* sequence;
  WARPLINE_TRY(ValidSequence(*stream, &sequence));
  std::vector<GraphEdge> edges;
  WARPLINE_TRY(ReadEdges(nodes, data, count, &edges));
  for (const GraphEdge& edge : edges) {
    if (edge.node->graph != sequence->graph) return CUDA_ERROR_INVALID_VALUE;
  }
  Sequence::Front& front = sequence->fronts[stream];
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) front.edges.clear();
  Merge(&front.edges, edges);
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
                     MakeKernelNode(kernel, launch, attributes, packed));
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

CUresult CaptureEventRecord(Stream* stream, Event* event, unsigned int flags) {
  if (flags == CU_EVENT_RECORD_EXTERNAL) {
    SharedNodeParams params;
    WARPLINE_TRY(ReadEventNode(event->handle, /*record=*/true, &params));
    return CaptureNode(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, std::move(params));
  }
  MutexLock lock(&GraphMutex());
  Sequence* sequence;
  WARPLINE_TRY(ValidSequence(*stream, &sequence));
  sequence->events[event->wire] = sequence->fronts[stream].edges;
  event->capture.store(sequence->id, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult CaptureEventWait(Stream* stream, const Event* event, unsigned int flags) {
  if (Captured(*stream) && flags == CU_EVENT_WAIT_EXTERNAL) {
    SharedNodeParams params;
    WARPLINE_TRY(ReadEventNode(event->handle, /*record=*/false, &params));
    return CaptureNode(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, std::move(params));
  }
  MutexLock lock(&GraphMutex());
  Sequence* const recorded = Find(event->capture.load(std::memory_order_relaxed));
  Sequence* const own = SequenceOf(*stream);
  if (own != nullptr && !own->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (recorded == nullptr) {
    // It was recorded in a capture that has ended, or in none.
    if (own == nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    Invalidate(own);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!recorded->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (own != nullptr && own != recorded) {
    Invalidate(own);
    Invalidate(recorded);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream->legacy()) {
    Invalidate(recorded);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  Merge(&recorded->fronts[stream].edges, recorded->events[event->wire]);
  stream->capture.store(recorded->id, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult CheckUncaptured(const Stream* stream) {
  MutexLock lock(&GraphMutex());
  if (stream->legacy()) return CheckLegacy(stream->device, /*invalidate=*/true);
  Sequence* const sequence = SequenceOf(*stream);
  if (sequence == nullptr) return CUDA_SUCCESS;
  if (!sequence->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  Invalidate(sequence);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CheckUnsafe() {
  if (t_thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  const bool global = t_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  const uint64_t thread = ThisThread();
  MutexLock lock(&GraphMutex());
  CUresult result = CUDA_SUCCESS;
  for (const auto& [id, sequence] : sequences()) {
    if (sequence->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    const bool others = global && sequence->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (sequence->thread != thread && !others) continue;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    Invalidate(sequence.get());
  }
  return result;
}

CUresult CheckEventQuery(const Event& event, bool unsafe) {
  const uint64_t id = event.capture.load(std::memory_order_relaxed);
  if (id == 0) return unsafe && AnyCapture() ? CheckUnsafe() : CUDA_SUCCESS;
  MutexLock lock(&GraphMutex());
  if (Sequence* const sequence = Find(id); sequence != nullptr) Invalidate(sequence);
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult CheckDeviceSynchronize(const Device& device) {
  if (!AnyCapture()) return CUDA_SUCCESS;
  MutexLock lock(&GraphMutex());
  CUresult result = CUDA_SUCCESS;
  for (const auto& [id, sequence] : sequences()) {
    const bool waits =
        std::any_of(sequence->fronts.begin(), sequence->fronts.end(),
                    [&](const auto& entry) { return entry.first->device == &device; });
    if (!waits) continue;
    Invalidate(sequence.get());
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

void ForgetCapture(Stream* stream) {
  MutexLock lock(&GraphMutex());
  Sequence* const sequence = SequenceOf(*stream);
  if (sequence == nullptr) return;
  if (sequence->origin == stream) {
    Invalidate(sequence);
    Close(sequence);
    return;
  }
  stream->capture.store(0, std::memory_order_relaxed);
  const auto front = sequence->fronts.find(stream);
  Merge(&sequence->left, front->second.edges);
  sequence->fronts.erase(front);
}

}  // namespace warpline::stub
