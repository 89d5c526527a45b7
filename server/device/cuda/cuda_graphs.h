// A GPU's graphs and frames.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_GRAPHS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_GRAPHS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/facets/graphs.h"

namespace warpline::device {

// Thread-safe, as the driver is.
class CudaGraphs : public virtual Graphs, protected CudaPart {
 public:
  explicit CudaGraphs(CudaMember* member) : CudaPart(*member) {}

  CudaResult CreateGraph(absl::Span<const GraphNode> nodes, GraphId* graph) override;
  CudaResult LaunchGraph(GraphId graph, StreamId stream) override;
  CudaResult DestroyGraph(GraphId graph) override;
  CudaResult CreateFrame(FrameId* frame) override;
  CudaResult AddConditional(FrameId frame, uint32_t first_value, uint32_t flags,
                            uint64_t* conditional) override;
  CudaResult FillFrame(FrameId frame, absl::Span<const GraphNode> nodes) override;
  CudaResult CreateGraphOf(FrameId frame, GraphId* graph) override;
  CudaResult DestroyFrame(FrameId frame) override;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_GRAPHS_H_
