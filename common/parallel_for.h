// Work that several threads share, such as pieces to be hashed.
#ifndef WARPLINE_COMMON_PARALLEL_FOR_H_
#define WARPLINE_COMMON_PARALLEL_FOR_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace warpline {

// Calls `body` for the numbers below `count`, on `threads` threads with this one among them, each
// in no order. Returns the first error, after which no further call begins, once all calls have
// returned. `body` is called on several threads at once.
absl::Status ParallelFor(int threads, uint64_t count,
                         const std::function<absl::Status(uint64_t)>& body);

}  // namespace warpline

#endif  // WARPLINE_COMMON_PARALLEL_FOR_H_
