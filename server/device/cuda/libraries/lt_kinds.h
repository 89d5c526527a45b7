// Algorithms of cuBLASLt that programs configure themselves: which there are, what of each can be
// configured, and NVIDIA's structure for a configuration that has been checked.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_KINDS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_KINDS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "proto/adapters/lt_types.h"
#include "server/device/cuda/libraries/lt_functions.h"

namespace warpline::device::lt {

// Returns whether the library's answer with this status is the same at another moment: a search
// that failed because of the moment may work later. Called in the LibraryScope of the search.
bool IsFinal(int status);

// Thread-safe. `values` are those of the wire (proto/adapters/cublas_slots.h), and have been
// checked. `handle` is a cublasHandle_t that the calling thread has for itself. REQUIRES: Lt() is
// not null.
class Kinds {
 public:
  using List = std::vector<LtKind>;

  // Returns the algorithms for the types of such a call; none for types that the library lacks.
  // Called in a LibraryScope.
  // Keeps the answer: types that can be passed on are few.
  std::shared_ptr<const List> Find(absl::Span<const uint64_t> values, void* handle);

  // Makes the algorithm that the values configure, and asks the library about it: in `*result` are
  // the algorithm and what it needs. For addresses the values have alignments. kInvalidValue for a
  // configuration that the algorithm's capabilities do not have; kNotSupported when it does not
  // exist for such a call, and for operands that are less aligned than it needs.
  int Make(absl::Span<const uint64_t> values, uint32_t modes, void* handle, Result* result);

 private:
  using Key = std::array<int, 6>;

  Mutex mu_;  // No other lock is taken under it, and no call made.
  absl::flat_hash_map<Key, std::shared_ptr<const List>> known_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device::lt

#endif  // WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_KINDS_H_
