// What a guarded module may have at most, and the sizes of its variables.
#ifndef WARPLINE_GUARD_REWRITE_LIMITS_H_
#define WARPLINE_GUARD_REWRITE_LIMITS_H_

#include <cstdint>

#include "ptx/ast.h"
#include "ptx/types.h"

namespace warpline::guard {

inline constexpr uint64_t kMostParamBytes = 32'764;
inline constexpr uint64_t kMostLocalBytes = 512 << 10;  // Of one thread; CUDA's own limit
inline constexpr uint64_t kMostConstBytes = 64 << 10;
inline constexpr uint64_t kMostGlobalBytes = uint64_t{1} << 31;
inline constexpr uint64_t kLocalAlignment = 16;
// At a multiple of this the parameters of a kernel begin.
inline constexpr uint64_t kParameterAlignment = 16;
// An offset up to this stays in its instruction.
inline constexpr int64_t kMostOffset = 8 << 20;
inline constexpr uint64_t kMostAccessBytes = 32;
// The bytes of shared memory that one fence may be for. Each block has as many, the driver's.
inline constexpr uint64_t kMostSharedSpan = 1024;
// Fences for several accesses to shared memory that may stand at once.
inline constexpr int kSharedGroups = 4;

// Bytes between the rows of a matrix.
inline constexpr int64_t kMostStride = 65'536;
// More than shared memory has, and less than the zone behind an arena.
inline constexpr int64_t kMostBulkBytes = 1 << 20;

// Of a block.
inline constexpr uint64_t kMostThreads = 1024;
inline constexpr uint64_t kLastBarrier = 15;
inline constexpr uint64_t kLanes = 32;  // Of a warp

// What a thread may execute before it asks whether to stop, in additions: WeightOf() says how many
// of them an instruction may take. On a full GPU that is a second or two.
inline constexpr int64_t kMostBetweenPolls = int64_t{1} << 26;
// What the blocks of a grid may execute in sum, a thread of each counted, if none of them asks
// where it begins. With 1024 threads a block, and integers that a multiprocessor adds 64 of in a
// cycle, that is 0.15 seconds of an H100. (The contract allows eight times as much.)
inline constexpr int64_t kMostUnasked = int64_t{1} << 31;
// More blocks ask in any case. The shortest of so many take a millisecond.
inline constexpr int64_t kMostBlocksUnasked = int64_t{1} << 20;

// False for a variable that is larger than any of them.
inline bool SizeOf(const ptx::Variable& variable, uint64_t* bytes) {
  const auto element = static_cast<uint64_t>(ptx::TypeBytes(variable.type)) * variable.vector_width;
  if (element == 0 || variable.element_count > kMostGlobalBytes) return false;
  *bytes = element * variable.element_count;
  return *bytes <= kMostGlobalBytes;
}

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_LIMITS_H_
