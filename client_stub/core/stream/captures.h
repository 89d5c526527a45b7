// The captures under way: which streams each has reached, and what comes next there.
//
// What a capture makes is a graph, which capture.h appends to; nothing here looks into it.
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
  Graph* graph = nullptr;  // What it appends to.
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

  // Called once its streams have left it, and before it is gone.
  void (*ended)(const CaptureSequence& sequence) = nullptr;
};

// Begins `sequence` in the stream `origin`, on this thread: its first node comes after `edges`.
// Sets its id.
void StartCapture(std::unique_ptr<CaptureSequence> sequence, Stream* origin,
                  std::vector<GraphEdge> edges);
bool StartedOnThisThread(const CaptureSequence& sequence);
// nullptr for one that has ended.
CaptureSequence* FindCapture(uint64_t id);
// nullptr for a stream that does not capture.
CaptureSequence* CaptureOf(const Stream& stream);
// The capture of a stream that is given something. CUDA_ERROR_ILLEGAL_STATE where there is none.
CUresult ValidCapture(const Stream& stream, CaptureSequence** sequence);
// Calls visit(sequence) for each.
void ForEachCapture(const std::function<void(CaptureSequence*)>& visit);

// From now on everything that its streams are given is refused, until the capture is ended.
void InvalidateCapture(CaptureSequence* sequence);
// Takes every stream out of the capture and destroys it.
void CloseCapture(CaptureSequence* sequence);

// Adds those that are not there yet.
void MergeEdges(std::vector<GraphEdge>* into, const std::vector<GraphEdge>& edges);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_CAPTURES_H_
