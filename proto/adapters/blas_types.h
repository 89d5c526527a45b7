/* The numbers of cudaDataType and cublasComputeType_t that servers execute calls for. C and C++. */
#ifndef WARPLINE_PROTO_ADAPTERS_BLAS_TYPES_H_
#define WARPLINE_PROTO_ADAPTERS_BLAS_TYPES_H_

#include <stdint.h>

#ifdef __cplusplus
namespace warpline {
#endif

/* cudaDataType */
enum BlasType {
  kReal32 = 0,
  kReal64 = 1,
  kReal16 = 2,
  kInteger8 = 3,
  kComplex32 = 4,
  kComplex64 = 5,
  kComplex16 = 6,
  kInteger32 = 10,
  kBrain16 = 14,
  kComplexBrain16 = 15,
  kE4m3 = 28, /* CUDA_R_8F_E4M3: 8-bit floating point, with 4 bits for the exponent. */
  kE5m2 = 29
};

/* cublasComputeType_t */
enum BlasCompute {
  kIn16 = 64,
  kIn16Pedantic = 65,
  kIn32 = 68,
  kIn32Pedantic = 69,
  kIn64 = 70,
  kIn64Pedantic = 71,
  kInInteger = 72,
  kInIntegerPedantic = 73,
  kFast16 = 74,
  kFastBrain16 = 75,
  kFastTf32 = 77
};

/* Returns the bytes of an element of a type; 0 for types that are not passed on. */
static inline uint32_t BlasTypeBytes(int64_t type) {
  switch (type) {
    case kInteger8:
    case kE4m3:
    case kE5m2:
      return 1;
    case kReal16:
    case kBrain16:
      return 2;
    case kReal32:
    case kInteger32:
      return 4;
    case kReal64:
    case kComplex32:
      return 8;
    case kComplex64:
      return 16;
    default:
      return 0;
  }
}

/* Returns 1 for the types of 8-bit floating point. */
static inline int IsBlasFloat8(int64_t type) { return type == kE4m3 || type == kE5m2; }

/* Returns 1 for complex numbers. */
static inline int IsBlasComplex(int64_t type) {
  return type == kComplex32 || type == kComplex64 || type == kComplex16 || type == kComplexBrain16;
}

/* Returns the bytes of a scalar of a function with a compute type, whose C has this type; 0 for
 * types that are not passed on. */
static inline uint32_t BlasScalarBytes(int64_t compute, int64_t type) {
  const int is_complex = IsBlasComplex(type);
  switch (compute) {
    case kIn16:
    case kIn16Pedantic:
      return 2;
    case kIn32:
    case kIn32Pedantic:
    case kFast16:
    case kFastBrain16:
    case kFastTf32:
      return is_complex ? 8 : 4;
    case kIn64:
    case kIn64Pedantic:
      return is_complex ? 16 : 8;
    case kInInteger:
    case kInIntegerPedantic:
      return 4;
    default:
      return 0;
  }
}

#ifdef __cplusplus
}  // namespace warpline
#endif

#endif /* WARPLINE_PROTO_ADAPTERS_BLAS_TYPES_H_ */
