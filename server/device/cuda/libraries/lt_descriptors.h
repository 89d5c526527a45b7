// NVIDIA's descriptors of a call of cublasLtMatmul(), made from the call's values.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_DESCRIPTORS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_DESCRIPTORS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/device/cuda/libraries/lt_functions.h"

namespace warpline::device::lt {

// The types of a call, as the library's functions take them: cublasComputeType_t and cudaDataType.
struct CallTypes {
  explicit CallTypes(absl::Span<const uint64_t> values);

  int compute, scale, a, b, c, d;
};

// The descriptors of a call. `values` are those of the wire (proto/adapters/cublas_slots.h), have
// been checked, and outlive it. The library keeps no address of the descriptors. REQUIRES: Lt() is
// not null.
class Descriptors {
 public:
  Descriptors(absl::Span<const uint64_t> values, uint32_t modes);

  // The first error, or kSuccess.
  int status() const { return status_; }

  Description description;
  Layout a, b, c, d;

 private:
  void Note(int status);
  template <typename T>
  void Set(int attribute, T value);
  void Describe(uint32_t modes);
  void DescribeEpilogue(uint64_t epilogue);
  void DescribeScales();
  // A matrix's leading dimension and stride follow on its order. `plane` is the slot of its
  // imaginary part.
  void Lay(int type, uint32_t order, uint32_t address, uint32_t plane, uint64_t rows,
           uint64_t columns, Layout* layout);

  const absl::Span<const uint64_t> values_;
  const CallTypes types_;
  int status_ = kSuccess;
};

}  // namespace warpline::device::lt

#endif  // WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_DESCRIPTORS_H_
