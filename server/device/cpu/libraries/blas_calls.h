// Executes calls of cuBLAS by the C interface of a BLAS (CBLAS) that is loaded at run time.
//
//   const Blas* blas = Blas::Get();
//   if (blas != nullptr && blas->Has(call)) blas->Run(call);
#ifndef WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_BLAS_CALLS_H_
#define WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_BLAS_CALLS_H_

#include <cstdint>
#include <list>
#include <vector>

#include "absl/types/span.h"

namespace warpline::cpu {

// A call whose arguments have been checked and whose operands may be touched now.
struct BlasCall {
  uint32_t function = 0;  // proto/adapters/cublas_numbers.h
  uint32_t modes = 0;     // LibraryModes
  std::vector<uint64_t> values;
  // Copies of the arrays of addresses, to which values lead.
  std::list<std::vector<uint64_t>> addresses;
};

// Immutable, and so thread-safe.
class Blas {
 public:
  // Loads libopenblas.so.0 or else libblas.so.3, when it is first called in the process. Returns
  // nullptr when neither is there with all functions that are needed. A process that will not be
  // able to open files calls this before.
  static const Blas* Get();

  // The version of cuBLAS whose functions these are.
  uint32_t version() const { return 130000; }
  // Returns whether the call's function is there for its types.
  bool Has(const BlasCall& call) const;
  // Returns whether cublasLtMatmul() is there for these values.
  static bool HasProduct(absl::Span<const uint64_t> values);
  // REQUIRES: Has(call).
  void Run(const BlasCall& call) const;

 private:
  Blas() = default;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_BLAS_CALLS_H_
