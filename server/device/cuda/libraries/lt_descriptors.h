// NVIDIA's descriptors of a call of cublasLtMatmul(), made from the call's values.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_DESCRIPTORS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_DESCRIPTORS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/adapters/lt_operands.h"
#include "server/device/cuda/libraries/cublas_status.h"
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
  void Lay(int type, const LtOperand& operand, uint64_t rows, uint64_t columns, Layout* layout);

  const absl::Span<const uint64_t> values_;
  const CallTypes types_;
  int status_ = kSuccess;
};

}  // namespace warpline::device::lt

#endif  // WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_DESCRIPTORS_H_
