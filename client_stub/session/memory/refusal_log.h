// Decides which refused requests for memory deserve a line in an application's log: each reason
// gets one. An allocator that runs into its limit and tries again, as PyTorch's does, deserves
// none.
#ifndef WARPLINE_CLIENT_STUB_SESSION_MEMORY_REFUSAL_LOG_H_
#define WARPLINE_CLIENT_STUB_SESSION_MEMORY_REFUSAL_LOG_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class RefusalLog {
 public:
  // Reasons come from a server that is not trusted, so both the text of one and the number of kinds
  // are bounded.
  static constexpr size_t kMostText = 256;
  static constexpr size_t kMostKinds = 8;

  // Returns the line for a request that was refused with `error` because of `why`; empty when a
  // refusal of the same kind had its line. Reasons that differ only in their numbers are of one
  // kind.
  std::string LineFor(CudaResult error, std::string_view why);

 private:
  Mutex mu_;
  absl::flat_hash_set<std::string> seen_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_MEMORY_REFUSAL_LOG_H_
