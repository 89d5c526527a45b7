// A context's graphs, and their frames: graphs that have conditional handles before they have
// nodes.
//
//   GraphId graph;
//   CudaResult result = graphs->CreateGraph(nodes, &graph);
//   if (result == CudaResult::kSuccess) result = graphs->LaunchGraph(graph, stream);
#ifndef WARPLINE_SERVER_DEVICE_FACETS_GRAPHS_H_
#define WARPLINE_SERVER_DEVICE_FACETS_GRAPHS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Thread-safe. Graphs whose nodes use memory of other devices get kNotSupported. As on a backend
// without graphs, their nodes are then issued one by one.
class Graphs {
 public:
  static constexpr Capabilities kGives = Capability::kGraphs;

  virtual ~Graphs() = default;

  // Makes a graph that can be launched.
  virtual CudaResult CreateGraph(absl::Span<const GraphNode> nodes, GraphId* graph) = 0;
  virtual CudaResult LaunchGraph(GraphId graph, StreamId stream) = 0;
  // Launches that were already made still complete.
  virtual CudaResult DestroyGraph(GraphId graph) = 0;

  // --- Frames. Kernels are given the numbers of the conditional handles, so the nodes must be
  // added to the graph that has these handles.
  virtual CudaResult CreateFrame(FrameId* frame) = 0;
  virtual CudaResult AddConditional(FrameId frame, uint32_t first_value, uint32_t flags,
                                    uint64_t* conditional) = 0;
  // Adds the nodes; once for each frame. After a failure the frame is of no use.
  virtual CudaResult FillFrame(FrameId frame, absl::Span<const GraphNode> nodes) = 0;
  // Makes a graph that can be launched of a frame that was filled. No two may exist at a time.
  virtual CudaResult CreateGraphOf(FrameId frame, GraphId* graph) = 0;
  // Graphs that were made of the frame stay.
  virtual CudaResult DestroyFrame(FrameId frame) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_GRAPHS_H_
