// A GPU's graphs and frames.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_GRAPHS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_GRAPHS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/cuda/shared/live_set.h"
#include "server/device/facets/graphs.h"
#include "server/device/gate/address_gate.h"

namespace warpline::device {

// Memory outside the arena that a node of a graph names, as the gate admitted it.
struct OutsideSpan {
  uint64_t named = 0;
  uint64_t address = 0;  // Where that was, as the node has it.
  uint64_t bytes = 0;
  MemoryUse use = MemoryUse::kRead;
};

// Thread-safe, as the driver is.
class CudaGraphs : public virtual Graphs, protected CudaPart {
 public:
  explicit CudaGraphs(CudaMember* member)
      : CudaPart(*member), live_frames_(is_shared()), live_graphs_(is_shared()) {}
  ~CudaGraphs() override;

  CudaResult CreateGraph(absl::Span<const GraphNode> nodes, GraphId* graph) override;
  // kInvalidValue once host memory or variables of a node are the session's no more.
  CudaResult LaunchGraph(GraphId graph, StreamId stream) override;
  CudaResult DestroyGraph(GraphId graph) override;
  CudaResult CreateFrame(FrameId* frame) override;
  CudaResult AddConditional(FrameId frame, uint32_t first_value, uint32_t flags,
                            uint64_t* conditional) override;
  CudaResult FillFrame(FrameId frame, absl::Span<const GraphNode> nodes) override;
  CudaResult CreateGraphOf(FrameId frame, GraphId* graph) override;
  CudaResult DestroyFrame(FrameId frame) override;

 protected:
  // Where the kernels of nodes that are added now run.
  virtual CUcontext NodeContext() const { return context_; }

 private:
  struct Outside {
    std::vector<OutsideSpan> spans;
    uint64_t removals = 0;  // AddressGate::removals() from before they were last admitted.
  };
  // Whether the gate still admits what the graph's nodes name outside the arena.
  bool StillAdmitted(GraphId graph);

  LiveSet<FrameId> live_frames_;
  LiveSet<GraphId> live_graphs_;
  std::atomic<bool> any_outside_{false};  // Some graph had such memory.
  Mutex mu_;                              // No other lock is taken under it, and no call made.
  std::map<FrameId, Outside> frames_ ABSL_GUARDED_BY(mu_);
  std::map<GraphId, Outside> graphs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_GRAPHS_H_
