// Stream capture: while streams capture, the work that they are given becomes nodes of a graph.
//
// All of it happens in this process: a capture (captures.h) begins in one stream and spreads to
// others through events (capture_state.h). Everything that can be captured is turned into a node
// before it is sent, so a command that reaches SendOn() on a capturing stream is one that cannot be
// captured.
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_CAPTURE_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_CAPTURE_H_

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/graph/graph.h"

namespace warpline::stub {

// All functions here take GraphMutex() themselves.

// ---- Beginning, ending and looking at a capture.

// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED for the legacy stream, CUDA_ERROR_ILLEGAL_STATE for a
// stream that captures already. Without a `graph` (nullptr) the capture makes a new one.
CUresult BeginCapture(Stream* stream, CUstreamCaptureMode mode, CUgraph graph,
                      const CUgraphNode* dependencies, const CUgraphEdgeData* data, size_t count);
// `graph` may be nullptr where the capture did not make the graph itself.
CUresult EndCapture(Stream* stream, CUgraph* graph);

struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  // Valid until the stream is used again.
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  bool has_edge_data = false;  // Some edge has data other than the default.
};
// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream while a blocking one captures.
CUresult GetCaptureInfo(Stream* stream, CaptureInfo* info);
CUresult UpdateCaptureDependencies(Stream* stream, const CUgraphNode* nodes,
                                   const CUgraphEdgeData* data, size_t count, unsigned int flags);

// ---- Work that a capturing stream (Captured()) is given.

CUresult CaptureNode(Stream* stream, CUgraphNodeType type, SharedNodeParams params,
                     std::unique_ptr<Graph> child = nullptr);
CUresult CaptureLaunch(Stream* stream, Kernel* kernel, const LaunchGeometry& launch,
                       const LaunchAttributes* attributes, std::string_view packed);
CUresult CaptureLibraryCall(Stream* stream, LibraryNodeParams call);
CUresult CaptureCopy(Stream* stream, const CUDA_MEMCPY3D& copy);
CUresult CaptureMemset(Stream* stream, const CUDA_MEMSET_NODE_PARAMS_v2& params);
// Add nodes that record the event, or wait for it, whenever the graph is launched.
CUresult CaptureExternalRecord(Stream* stream, const Event* event);
CUresult CaptureExternalWait(Stream* stream, const Event* event);
// Calls `append` with the stream's graph and dependencies, and makes the stream go on from the node
// that it gives.
using CaptureAppend =
    std::function<CUresult(Graph* graph, const std::vector<GraphEdge>&, GraphNode** node)>;
CUresult CaptureWith(Stream* stream, const CaptureAppend& append);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_CAPTURE_H_
