// Parts of contexts of a shared device, made of a backend's own: they refuse what nobody could end
// without ending the work of others.
//
//   using FooSharedContext = ContextOf<FooState, ..., WithoutWaits<FooCopies>, ...>;
#ifndef WARPLINE_SERVER_DEVICE_SHARED_PARTS_H_
#define WARPLINE_SERVER_DEVICE_SHARED_PARTS_H_

#include <algorithm>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/graphs.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Copies whose operations on words of memory do not wait: a word may never be what is waited for.
template <typename Copies>
class WithoutWaits : public Copies {
 public:
  using Copies::Copies;

  CudaResult MemOps(absl::Span<const MemOp> operations, StreamId stream) override {
    if (std::any_of(operations.begin(), operations.end(), IsWait)) {
      return CudaResult::kNotSupported;
    }
    return Copies::MemOps(operations, stream);
  }
};

// Graphs without such waits, and without frames, whose conditional nodes may loop for ever.
template <typename Graphs>
class WithoutLoops : public Graphs {
 public:
  using Graphs::Graphs;

  CudaResult CreateGraph(absl::Span<const GraphNode> nodes, GraphId* graph) override {
    for (const GraphNode& node : nodes) {
      // Not kNotSupported, after which the nodes would be issued one by one.
      if (std::any_of(node.operations.begin(), node.operations.end(), IsWait)) {
        return CudaResult::kInvalidValue;
      }
    }
    return Graphs::CreateGraph(nodes, graph);
  }
  CudaResult CreateFrame(FrameId*) override { return Lacks(Capability::kGraphs); }
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_SHARED_PARTS_H_
