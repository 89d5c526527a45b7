// The graphs of a context of a shared device.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_GRAPHS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cuda/cuda_graphs.h"
#include "server/device/cuda/shared/share_plan.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Thread-safe. The driver binds a graph's kernels to multiprocessors when the graph is made, not
// when it is launched. So the nodes are kept here. A graph is made again when it is launched after
// its session has got another place.
class CudaSharedGraphs : public CudaGraphs {
 public:
  using CudaGraphs::CudaGraphs;

  CudaResult CreateGraph(absl::Span<const GraphNode> nodes, GraphId* graph) override;
  CudaResult LaunchGraph(GraphId graph, StreamId stream) override;
  CudaResult DestroyGraph(GraphId graph) override;

 protected:
  CUcontext NodeContext() const override;

 private:
  // A graph's nodes, and the driver's graph that was made of them. Thread-compatible, but for `mu`.
  struct Recipe {
    std::vector<GraphNode> nodes;
    std::vector<std::vector<std::byte>> params;  // Parameters that the nodes borrow.
    Mutex mu;  // Held while the graph is made and launched: two launches may want it elsewhere.
    SlotRange place ABSL_GUARDED_BY(mu);
    GraphId made ABSL_GUARDED_BY(mu){};
    bool exists ABSL_GUARDED_BY(mu) = false;
  };

  // Makes the graph for the session's current place, unless it was made for that place.
  CudaResult Place(Recipe* recipe) ABSL_EXCLUSIVE_LOCKS_REQUIRED(recipe->mu);

  Mutex recipes_mu_;  // No other lock is taken under it, and no call made.
  uint64_t next_ ABSL_GUARDED_BY(recipes_mu_) = 1;
  std::map<GraphId, std::shared_ptr<Recipe>> recipes_ ABSL_GUARDED_BY(recipes_mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_GRAPHS_H_
