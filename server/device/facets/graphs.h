// A context's graphs, and their frames: graphs that have conditional handles before they have
// nodes.
#ifndef WARPLINE_SERVER_DEVICE_FACETS_GRAPHS_H_
#define WARPLINE_SERVER_DEVICE_FACETS_GRAPHS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Thread-safe. kNotSupported for nodes with memory of other devices: as on a backend without
// graphs, they are then issued one by one.
class Graphs {
 public:
  static constexpr Capabilities kGives = Capability::kGraphs;

  virtual ~Graphs() = default;

  // Makes a graph and what it takes to launch it.
  virtual CudaResult CreateGraph(absl::Span<const GraphNode> nodes, GraphId* graph) = 0;
  virtual CudaResult LaunchGraph(GraphId graph, StreamId stream) = 0;
  // Launches that were made complete.
  virtual CudaResult DestroyGraph(GraphId graph) = 0;

  // --- Frames. Kernels are given the handles' numbers, so the nodes must become those of the same
  // graph.
  virtual CudaResult CreateFrame(FrameId* frame) = 0;
  virtual CudaResult AddConditional(FrameId frame, uint32_t first_value, uint32_t flags,
                                    uint64_t* conditional) = 0;
  // Once for a frame. After a failure it is good for nothing.
  virtual CudaResult FillFrame(FrameId frame, absl::Span<const GraphNode> nodes) = 0;
  // A graph to launch of a frame that was filled; no two exist at a time.
  virtual CudaResult CreateGraphOf(FrameId frame, GraphId* graph) = 0;
  // Graphs that were made of it stay.
  virtual CudaResult DestroyFrame(FrameId frame) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_GRAPHS_H_
