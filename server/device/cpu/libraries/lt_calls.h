// Executes calls of cublasLtMatmul() by the products of a BLAS, in double precision.
//
//   if (HasLtMatmul(values)) RunLtMatmul(values, modes, {dgemm, zgemm});
#ifndef WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_LT_CALLS_H_
#define WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_LT_CALLS_H_

#include <complex>
#include <cstdint>

#include "absl/types/span.h"
#include "server/device/cpu/libraries/cblas_functions.h"

namespace warpline::cpu {

struct LtProducts {
  decltype(Cblas<double>::gemm) real;
  decltype(Cblas<std::complex<double>>::gemm) complex;
};

// `values` are those of the wire (proto/adapters/cublas_slots.h), and have been checked.

// Returns whether the types, the epilogue and the size are there.
bool HasLtMatmul(absl::Span<const uint64_t> values);

// Reads and writes the operands. `modes` are LibraryModes. REQUIRES: HasLtMatmul(values).
void RunLtMatmul(absl::Span<const uint64_t> values, uint32_t modes, const LtProducts& products);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_LT_CALLS_H_
