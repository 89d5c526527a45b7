// Calls NVIDIA's cublasLtMatmul() for sessions: with descriptors that are made here, of numbers
// that have been checked, and with algorithms that the library itself has found.
//
//   lt::LoadLt(library);                         // The dlopen() handle of cuBLAS.
//   { LibraryScope scope(...);
//     auto plans = lt.Find(values, modes, workspace_bytes, searcher);
//     int status = plans->status;
//     if (status == 0) status = LtMatmul::Run(*plans, values, modes, scalars, handle, ...); }
//
// A session never hands over an algorithm: it names one by its place among those that are found for
// its values, or configures one by numbers. The answers are kept, so that most calls search for
// nothing.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_MATMUL_H_
#define WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_MATMUL_H_

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/lt_types.h"
#include "server/device/cuda/libraries/lt_functions.h"
#include "server/device/cuda/libraries/lt_kinds.h"

namespace warpline::device {

// The algorithms for a call, the best one first. Immutable.
struct LtPlans {
  struct Plan {
    lt::Algorithm algorithm;
    LtAlgorithm known;
  };

  int status = 0;  // A cublasStatus_t. If it is not 0 there are none.
  std::vector<Plan> plans;
};

// Thread-safe. `values` are those of the wire (proto/adapters/cublas_slots.h), and have been
// checked. Statuses are cublasStatus_ts.
class LtMatmul {
 public:
  // Finds the algorithms for such a call, with at most `workspace_bytes`. Only the alignment of the
  // addresses counts. Called in a LibraryScope. Searches take turns in the order in which they
  // come, so that they can all use `searcher`, a cublasHandle_t that is for searches alone.
  // Without a library, no call is supported.
  std::shared_ptr<const LtPlans> Find(absl::Span<const uint64_t> values, uint32_t modes,
                                      uint64_t workspace_bytes, void* searcher);

  // Finds the algorithms that programs can configure for the types of such a call. Takes a turn, as
  // a search does.
  std::shared_ptr<const lt::Kinds::List> FindKinds(absl::Span<const uint64_t> values,
                                                   void* searcher);

  struct Scalars {
    const void* alpha;
    const void* beta;
  };
  struct Workspace {
    CUdeviceptr address;
    uint64_t bytes;
  };
  // Puts the call on the stream, with the plan that its values name, or the first one where there
  // are fewer. REQUIRES: plans.status is 0, and Find() found them for these values and no more
  // workspace. The calling thread has `handle` for itself.
  static int Run(const LtPlans& plans, absl::Span<const uint64_t> values, uint32_t modes,
                 const Scalars& scalars, void* handle, CUstream stream, const Workspace& workspace);

 private:
  // The algorithms for a call depend on this: its values without addresses and scalars, and modes.
  using Key = std::array<uint64_t, kLtMatmulValues + 1>;
  using PlansPointer = std::shared_ptr<const LtPlans>;
  using Kept = absl::flat_hash_map<Key, PlansPointer>;

  // So many calls' algorithms are kept in each generation. When the young one is full it becomes
  // the old one, from which those that are used again come back.
  static constexpr size_t kMostKept = 4096;

  static Key MakeKey(absl::Span<const uint64_t> values, uint32_t modes, uint64_t workspace_bytes);
  PlansPointer Look(const Key& key);
  PlansPointer Search(const Key& key, void* searcher);
  // Asks the library's heuristics. Returns a cublasStatus_t.
  static int Ask(absl::Span<const uint64_t> values, uint32_t modes, void* searcher,
                 std::vector<lt::Result>* results);
  void TakeTurn();
  void EndTurn();
  void Keep(const Key& key, const PlansPointer& plans);

  lt::Kinds kinds_;
  Mutex mu_;  // No other lock is taken under it, and no call made.
  CondVar turned_;
  uint64_t next_turn_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t turn_ ABSL_GUARDED_BY(mu_) = 0;
  Kept young_ ABSL_GUARDED_BY(mu_);
  Kept old_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_MATMUL_H_
