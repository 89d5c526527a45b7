// What is passed to a device: the numbers of its objects, launches, operations on words, and nodes
// of graphs. All are plain values.
#ifndef WARPLINE_SERVER_DEVICE_FACETS_TYPES_H_
#define WARPLINE_SERVER_DEVICE_FACETS_TYPES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/box.h"

namespace warpline::device {

// The objects of a backend. A number means something only to the Context that made it; an event's
// also to the contexts that were opened with that one.
enum class StreamId : uint64_t {};
enum class EventId : uint64_t {};
enum class ModuleId : uint64_t {};
enum class KernelId : uint64_t {};
enum class GraphId : uint64_t {};
enum class FrameId : uint64_t {};
enum class LinkId : uint64_t {};
enum class ArrayId : uint64_t {};
enum class PartitionId : uint64_t {};

// CUDA's legacy default stream: it synchronizes with every blocking stream of its context.
inline constexpr StreamId kLegacyStream{1};

// Some of a device's multiprocessors, in whatever pieces it counts, of which each bit is one.
struct ProcessorSet {
  uint64_t pieces = 0;

  bool empty() const { return pieces == 0; }
  bool Overlaps(const ProcessorSet& other) const { return (pieces & other.pieces) != 0; }
  friend bool operator==(const ProcessorSet&, const ProcessorSet&) = default;
};

// One kernel parameter's place in the parameter buffer, in bytes.
struct ParamLayout {
  uint32_t offset = 0;
  uint32_t size = 0;
};

// One CUlaunchAttribute, with its value laid out as in cuda.h.
struct LaunchAttribute {
  uint32_t id = 0;
  std::array<std::byte, 64> value{};
};

// An option of the just-in-time compiler: a CUjit_option whose value is a number.
struct JitOption {
  uint32_t id = 0;
  uint32_t value = 0;
};

// What the just-in-time compiler said.
struct JitLog {
  float wall_ms = 0;
  std::string info;
  std::string errors;
};

// One operation on a word of device memory, in the order of its stream. `kind` and `flags` are
// those of CUDA: CUstreamBatchMemOpType, CUstreamWaitValue_flags, CUstreamWriteValue_flags.
struct MemOp {
  static constexpr uint32_t kWait32 = 1;
  static constexpr uint32_t kWrite32 = 2;
  static constexpr uint32_t kWait64 = 4;
  static constexpr uint32_t kWrite64 = 5;
  static constexpr uint32_t kBarrier = 6;  // Has no address and no value.

  uint32_t kind = 0;
  uint32_t flags = 0;
  uint64_t address = 0;
  uint64_t value = 0;
};
static_assert(sizeof(MemOp) == 24);
constexpr bool IsWait(const MemOp& operation) {
  return operation.kind == MemOp::kWait32 || operation.kind == MemOp::kWait64;
}
inline constexpr size_t kMaxMemOps = 256;  // In one call; CUDA has the same limit.

struct LaunchConfig {
  std::array<uint32_t, 3> grid{};
  std::array<uint32_t, 3> block{};
  uint32_t dynamic_shared_bytes = 0;
  // All blocks run at the same time and may synchronize across the grid.
  bool cooperative = false;
  // All attributes but the cooperative one. kNotSupported for one that the backend lacks.
  std::vector<LaunchAttribute> attributes = {};
};

// The size of the blocks of Modules::TakeBlock().
inline constexpr uint64_t kBlockBytes = 2u << 20;

// What one node of a graph does, and after which earlier nodes, by their places, it comes.
struct GraphNode {
  enum class Kind { kNothing, kLaunch, kMemset, kCopy, kMemOps, kConditional };

  Kind kind = Kind::kNothing;
  std::vector<uint32_t> after;
  // The graph that the node is in: 0, or one of the bodies of earlier kConditional nodes, which are
  // numbered in the order of those nodes. The nodes that it comes after are in the same graph.
  uint32_t body = 0;
  // For kLaunch. The parameters are borrowed. Partition 0 stands for all multiprocessors.
  KernelId kernel{};
  PartitionId partition{};
  LaunchConfig config;
  absl::Span<const std::byte> params;
  // For kCopy: boxes; a run of bytes is a box of height and depth 1. For kMemset: address and
  // pitch.
  BoxPlace dst;
  BoxPlace src;
  BoxExtent extent;
  // For kMemset.
  uint32_t value = 0;
  uint32_t width = 0;
  uint64_t columns = 0;
  uint64_t rows = 0;
  // For kMemOps.
  std::vector<MemOp> operations;
  // For kConditional: the handle that AddConditional() gave, a CUgraphConditionalNodeType, and the
  // number of bodies.
  uint64_t conditional = 0;
  uint32_t type = 0;
  uint32_t bodies = 0;
};

// The values of CUmemAccess_flags.
enum class MemoryAccess : uint32_t { kNone = 0, kRead = 1, kReadWrite = 3 };

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_TYPES_H_
