// How many blocks a launch may have on a device that many share. A session's end waits for its
// kernels, whose blocks ask whether to stop when they begin (docs/guarded-ptx.md, Blocks), and each
// has to begin.
//
//   using FooSharedContext = ContextOf<FooState, ..., WithBoundedGrids<FooLaunches>,
//                                      WithBoundedNodes<FooGraphs>>;
#ifndef WARPLINE_SERVER_DEVICE_BOUNDED_GRIDS_H_
#define WARPLINE_SERVER_DEVICE_BOUNDED_GRIDS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/graphs.h"
#include "server/device/facets/launches.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Any row of blocks that CUDA allows has fewer. A GPU begins about one block a nanosecond, so that
// a grid of so many ends within seconds of being told to. One of 2^63, the most that CUDA allows,
// would take three centuries.
inline constexpr uint64_t kMostGridBlocks = uint64_t{1} << 31;

// Whether the grid has more, which a line of the log says then. Thread-safe.
bool HasTooManyBlocks(const std::array<uint32_t, 3>& grid);

// Launches of such grids alone; others get CUDA's error for a grid that is too large.
template <typename Launches>
class WithBoundedGrids : public Launches {
 public:
  using Launches::Launches;

  CudaResult Launch(KernelId kernel, const LaunchConfig& config, absl::Span<const std::byte> params,
                    StreamId stream) override {
    if (HasTooManyBlocks(config.grid)) return CudaResult::kInvalidValue;
    return Launches::Launch(kernel, config, params, stream);
  }
};

// Graphs whose kernels have such grids. A graph that is updated is made again, so nothing else
// gives a node its grid.
template <typename Graphs>
class WithBoundedNodes : public Graphs {
 public:
  using Graphs::Graphs;

  CudaResult CreateGraph(absl::Span<const GraphNode> nodes, GraphId* graph) override {
    const bool is_too_large = std::any_of(nodes.begin(), nodes.end(), [](const GraphNode& node) {
      return node.kind == GraphNode::Kind::kLaunch && HasTooManyBlocks(node.config.grid);
    });
    return is_too_large ? CudaResult::kInvalidValue : Graphs::CreateGraph(nodes, graph);
  }
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_BOUNDED_GRIDS_H_
