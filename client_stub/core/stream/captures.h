// The captures under way: the streams that each has reached, and what the next node there depends
// on.
//
// A capture makes a graph, which capture.h appends to; nothing here looks into the graph.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_CAPTURES_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_CAPTURES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"
#include "client_stub/core/stream/graph_edge.h"
#include "common/mutex.h"

namespace warpline::stub {

struct Graph;

// Guards the captures and every graph with its nodes. The functions here are called with it held.
Mutex& GraphMutex();

// One capture under way.
struct CaptureSequence {
  uint64_t id = 0;
  Graph* graph = nullptr;  // The graph that it appends to.
  bool own_graph = false;  // The capture made the graph.
  bool valid = true;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;
  const Stream* origin = nullptr;

  // What the next node of a stream depends on, and the form in which the application was last shown
  // it.
  struct Front {
    std::vector<GraphEdge> edges;
    std::vector<CUgraphNode> shown_nodes;
    std::vector<CUgraphEdgeData> shown_data;
  };
  std::map<Stream*, Front> fronts;
  // The last nodes of streams that were destroyed meanwhile; their work has to be joined all the
  // same.
  std::vector<GraphEdge> left;
  // What each event recorded, by the event's number on the wire.
  std::map<uint64_t, std::vector<GraphEdge>> events;

  // Called once its streams have left it, before it is deleted.
  void (*ended)(const CaptureSequence& sequence) = nullptr;
};

// Begins `sequence` in the stream `origin`, on this thread: its first node comes after `edges`.
// Sets its id.
void StartCapture(std::unique_ptr<CaptureSequence> sequence, Stream* origin,
                  std::vector<GraphEdge> edges);
bool StartedOnThisThread(const CaptureSequence& sequence);
// Returns nullptr for a capture that has ended.
CaptureSequence* FindCapture(uint64_t id);
// Returns nullptr for a stream that does not capture.
CaptureSequence* CaptureOf(const Stream& stream);
// Finds the capture of a stream that is given work. CUDA_ERROR_ILLEGAL_STATE where there is none,
// CUDA_ERROR_STREAM_CAPTURE_INVALIDATED where it is invalid.
CUresult ValidCapture(const Stream& stream, CaptureSequence** sequence);
// Calls visit(sequence) for each capture under way.
void ForEachCapture(const std::function<void(CaptureSequence*)>& visit);

// From now on everything that its streams are given is refused, until the capture is ended.
void InvalidateCapture(CaptureSequence* sequence);
// Takes every stream out of the capture and destroys it.
void CloseCapture(CaptureSequence* sequence);

// Adds those `edges` that `into` does not have yet.
void MergeEdges(std::vector<GraphEdge>* into, const std::vector<GraphEdge>& edges);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_CAPTURES_H_
