/* The numbers of cuBLASLt that clients and servers use. C and C++. */
#ifndef WARPLINE_PROTO_ADAPTERS_LT_TYPES_H_
#define WARPLINE_PROTO_ADAPTERS_LT_TYPES_H_

#include <stdint.h>

#include "proto/adapters/blas_types.h"

#ifdef __cplusplus
namespace warpline {
#endif

/* Bits of cublasLtEpilogue_t. */
enum LtEpilogue {
  kLtDefault = 1,
  kLtRelu = 2,
  kLtBias = 4,
  kLtReluGradient = 8,
  kLtBiasGradient = 16,
  kLtGelu = 32,
  kLtGeluGradient = 64,
  kLtAuxiliary = 128,
  kLtSumsOfA = 256,
  kLtSumsOfB = 512
};

/* Returns 1 for the epilogues that cuBLASLt has, without the bit of the default one. */
static inline int IsLtEpilogue(uint64_t epilogue) {
  switch (epilogue) {
    case 0:
    case kLtRelu:
    case kLtRelu | kLtAuxiliary:
    case kLtBias:
    case kLtRelu | kLtBias:
    case kLtRelu | kLtAuxiliary | kLtBias:
    case kLtReluGradient | kLtAuxiliary:
    case kLtReluGradient | kLtAuxiliary | kLtBiasGradient:
    case kLtGelu:
    case kLtGelu | kLtAuxiliary:
    case kLtGelu | kLtBias:
    case kLtGelu | kLtAuxiliary | kLtBias:
    case kLtGeluGradient | kLtAuxiliary:
    case kLtGeluGradient | kLtAuxiliary | kLtBiasGradient:
    case kLtSumsOfA:
    case kLtSumsOfB:
      return 1;
    default:
      return 0;
  }
}

/* Returns the cudaDataType of alpha and beta that goes with a compute type, where C has this type.
 */
static inline int LtScaleType(int64_t compute, int64_t type) {
  const int is_complex = type == kComplex32 || type == kComplex64;
  switch (compute) {
    case kIn16:
    case kIn16Pedantic:
      return kReal16;
    case kInInteger:
    case kInIntegerPedantic:
      return kInteger32;
    case kIn64:
    case kIn64Pedantic:
      return is_complex ? kComplex64 : kReal64;
    default:
      return is_complex ? kComplex32 : kReal32;
  }
}

/* The leading dimension and stride of auxiliary memory are multiples of so many bits for ReLU, and
 * of so many elements for GELU. */
enum { kLtMaskBits = 128, kLtAuxElements = 8 };

/* cublasLtMatrixLayoutAttribute_t */
enum LtLayoutAttribute {
  kLtLayoutType = 0,
  kLtLayoutOrder = 1,
  kLtLayoutRows = 2,
  kLtLayoutColumns = 3,
  kLtLayoutLeading = 4,
  kLtLayoutBatchCount = 5,
  kLtLayoutStride = 6,
  kLtLayoutPlaneOffset = 7,
  kLtLayoutBatchMode = 8
};

/* cublasLtMatmulDescAttributes_t */
enum LtMatmulAttribute {
  kLtComputeType = 0,
  kLtScaleType = 1,
  kLtPointerMode = 2,
  kLtTransA = 3,
  kLtTransB = 4,
  kLtTransC = 5,
  kLtFillMode = 6,
  kLtEpilogueKind = 7,
  kLtBiasPointer = 8,
  kLtBiasStride = 10,
  kLtAuxPointer = 11,
  kLtAuxLeading = 12,
  kLtAuxStride = 13,
  kLtAlphaStride = 14,
  kLtMultiprocessors = 15,
  kLtScaleOfA = 17,
  kLtScaleOfB = 18,
  kLtScaleOfC = 19,
  kLtScaleOfD = 20,
  kLtLargestOfD = 21,
  kLtAuxType = 22,
  kLtScaleOfAux = 23,
  kLtLargestOfAux = 24,
  kLtFastSums = 25,
  kLtBiasType = 26,
  kLtScaleModeOfA = 31,
  kLtScaleModeOfB = 32,
  kLtScaleModeOfC = 33,
  kLtScaleModeOfD = 34,
  kLtScaleModeOfAux = 35,
  kLtOutScaleOfD = 36,
  kLtOutScaleModeOfD = 37,
  kLtEmulation = 38
};

/* cublasLtMatmulPreferenceAttributes_t */
enum LtPreferenceAttribute {
  kLtSearchMode = 0,
  kLtMostWorkspace = 1,
  kLtReductions = 3,
  kLtAlignmentOfA = 5,
  kLtAlignmentOfB = 6,
  kLtAlignmentOfC = 7,
  kLtAlignmentOfD = 8,
  kLtMostWaves = 9,
  kLtImplementations = 12
};
/* All of cublasLtReductionScheme_t. */
enum { kLtAllReductions = 7 };

/* A query has at most so many algorithms as its answer. */
enum { kLtMostAlgorithms = 16 };
/* The library knows no difference between larger alignments, in bytes. */
enum { kLtMostAlignment = 256 };

/* The attributes of an algorithm, by cublasLtMatmulAlgoConfigAttributes_t. Those from
 * kLtFirstShort on have two bytes, the others four. */
enum { kLtConfigAttributes = 9, kLtFirstShort = 7 };

/* Returns the alignment of an address, as far as the library knows a difference. */
static inline uint64_t LtAlignment(uint64_t address) {
  const uint64_t most = kLtMostAlignment, lowest = address & (~address + 1);
  return lowest == 0 || lowest > most ? most : lowest;
}

/* An algorithm that the library would use. Crosses the wire. */
struct LtAlgorithm {
  uint64_t workspace; /* Bytes that it needs. */
  float waves;        /* cublasLtMatmulHeuristicResult_t::wavesCount */
  uint32_t config[kLtConfigAttributes];
};

#ifdef __cplusplus
}  // namespace warpline
#endif

#endif /* WARPLINE_PROTO_ADAPTERS_LT_TYPES_H_ */
