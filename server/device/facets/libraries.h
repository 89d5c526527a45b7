// A context's libraries: functions of cuBLAS that the device's side executes for programs that
// cannot bring NVIDIA's code themselves.
//
//   CudaResult result = libraries->CallLibrary(
//       {function, modes, values, operands, addresses, take, give}, stream, &launches);
#ifndef WARPLINE_SERVER_DEVICE_FACETS_LIBRARIES_H_
#define WARPLINE_SERVER_DEVICE_FACETS_LIBRARIES_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "proto/adapters/lt_types.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// A call, whose arguments are within the ranges that the function documents.
struct LibraryRequest {
  // Memory of the device that the call touches.
  struct Operand {
    uint32_t slot = 0;  // The place of its address among the values.
    uint64_t bytes = 0;
    bool writes = false;
  };

  // Addresses in the operand with this slot, which the context copies and checks when the call
  // runs (proto/adapters/library_call.h).
  struct Addresses {
    uint32_t slot = 0;
    uint64_t count = 0;
    uint64_t bytes = 0;  // That each leads to; 0 when the call touches none of them.
    uint32_t align = 1;  // Each is a multiple of this power of two.
    bool writes = false;
  };

  uint32_t function = 0;  // Its number, and the handle's modes (proto/adapters/library_call.h).
  uint32_t modes = 0;
  absl::Span<const uint64_t> values;
  absl::Span<const Operand> operands;
  absl::Span<const Addresses> addresses;
  // Pay for memory of the device that the context needs besides, and then keeps until it ends:
  // `take` before it is made, `give` when it could not be made.
  absl::FunctionRef<CudaResult(uint64_t bytes)> take;
  absl::FunctionRef<void(uint64_t bytes)> give;
};

// The figures from which a call's time is estimated.
struct LibraryCost {
  uint64_t work = 0;               // Operations on numbers of `number_bytes`.
  uint64_t bytes = 0;              // Read and written.
  uint64_t batches = 1;            // The products that it makes.
  uint64_t blocks = ~uint64_t{0};  // The blocks that share the work, at most.
  uint32_t number_bytes = 4;       // 2, 4 or 8
};

// Thread-safe.
class Libraries {
 public:
  static constexpr Capabilities kGives = Capability::kLibraries;

  virtual ~Libraries() = default;

  // Gets what cublasGetVersion() says of the device's library. kNotSupported when there is none.
  virtual CudaResult LibraryVersion(uint32_t* version) = 0;
  // Returns how long a call takes, in microseconds, on the multiprocessors that the session has. An
  // estimate, from which follows what is issued at once: nothing ends a library's kernels.
  virtual uint64_t LibraryMicroseconds(const LibraryCost& cost) = 0;
  // Issues the call to the stream. kInvalidValue when an operand is not in the session's arena;
  // kNotSupported for functions and types that the device's library lacks. `*launches` gets the
  // number of operations that it has put on the stream, also when it failed halfway.
  virtual CudaResult CallLibrary(const LibraryRequest& request, StreamId stream,
                                 uint32_t* launches) = 0;
  // Gets the algorithms that the device's library would use for a call of cublasLtMatmul() with
  // these values, the best one first, or the one that the values configure. For addresses the
  // values have alignments. Nothing is issued.
  virtual CudaResult LibraryAlgorithms(uint32_t modes, absl::Span<const uint64_t> values,
                                       std::vector<LtAlgorithm>* algorithms) = 0;
  // Gets the algorithms that a program can configure for calls with the types of these values.
  virtual CudaResult LibraryKinds(absl::Span<const uint64_t> values,
                                  std::vector<LtKind>* kinds) = 0;
  // Returns the error of a call that is complete, from then on, or kSuccess: kIllegalAddress or
  // kMisalignedAddress for an address in device memory, in whose place another was used.
  virtual CudaResult LibraryFault() = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_LIBRARIES_H_
