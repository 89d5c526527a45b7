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
  const int is_complex = IsBlasComplex(type);
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

/* Which scales of single precision a matrix has. Modes of cublasLtMatmulMatrixScale_t have other
 * numbers (LtScalingOf). */
enum LtScaling {
  kLtScaleNone = 0,
  kLtScaleOne = 1,     /* One for the whole matrix. */
  kLtScaleOuter = 2,   /* One for each row of A or column of B, as products see them. */
  kLtScaleBlocks = 3,  /* One for each of these and each 128 terms of the sums. */
  kLtScaleSquares = 4, /* One for each 128 of these and each 128 terms. */
  kLtMostScaling = kLtScaleSquares
};

/* Returns the LtScaling of a cublasLtMatmulMatrixScale_t, -1 for the modes of later devices. */
static inline int LtScalingOf(int mode) {
  switch (mode) {
    case 0:
      return kLtScaleOne;
    case 3:
      return kLtScaleOuter;
    case 4:
      return kLtScaleBlocks;
    case 5:
      return kLtScaleSquares;
    default:
      return -1;
  }
}
/* Returns the mode of such a scaling, which is not kLtScaleNone. */
static inline int LtScaleModeOf(int scaling) { return scaling == kLtScaleOne ? 0 : scaling + 1; }

/* Returns the cudaDataType of complex numbers whose parts have a real type. */
static inline int LtComplexOf(int type) {
  switch (type) {
    case kReal16:
      return kComplex16;
    case kBrain16:
      return kComplexBrain16;
    default:
      return kComplex32;
  }
}
/* Returns the real type, -1 for types of which there are no matrices in two planes. */
static inline int LtPlaneOf(int type) {
  switch (type) {
    case kComplex16:
      return kReal16;
    case kComplexBrain16:
      return kBrain16;
    case kComplex32:
      return kReal32;
    default:
      return -1;
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
 * kLtFirstShort on have two bytes, the others four. The call's slots of a configuration are in
 * this order, from that of `own` on. */
enum LtConfig {
  kLtConfigId = 0,
  kLtConfigTile = 1,
  kLtConfigSplits = 2,
  kLtConfigScheme = 3,
  kLtConfigSwizzle = 4,
  kLtConfigCustom = 5,
  kLtConfigStages = 6,
  kLtConfigInner = 7,
  kLtConfigCluster = 8,
  kLtConfigAttributes = 9,
  kLtFirstShort = 7
};

/* Attributes of cublasLtMatmulAlgoCapAttributes_t. */
enum LtCapability {
  kLtCanSplit = 0,
  kLtCanReduce = 1,
  kLtCanSwizzle = 2,
  kLtCanStride = 3, /* Batches. */
  kLtCanLeave = 4,  /* C, for another D. */
  kLtTiles = 6,
  kLtMostCustom = 7,
  kLtPointerModes = 11,
  kLtEpilogues = 12,
  kLtStages = 13,
  kLtNumericalFlags = 15,
  kLtLeastAlignmentOfA = 16,
  kLtLeastAlignmentOfB = 17,
  kLtLeastAlignmentOfC = 18,
  kLtLeastAlignmentOfD = 19,
  kLtCanTakeArrays = 21,
  kLtCapabilities = 23
};

/* What a program may configure of an algorithm of its own. */
enum {
  kLtMostKinds = 128, /* Algorithms for some types. */
  kLtTileWords = 32,  /* Bits for numbers of cublasLtMatmulTile_t. */
  kLtStageWords = 4,  /* Bits for numbers of cublasLtMatmulStages_t. */
  kLtMostSplits = 256,
  kLtMostCluster = 51 /* cublasLtClusterShape_t */
};

/* An algorithm of the library for some types, which programs can configure. Crosses the wire. */
struct LtKind {
  uint64_t flags; /* kLtNumericalFlags */
  uint32_t id;
  uint32_t known;                         /* The bits of the capabilities that it has. */
  uint32_t capabilities[kLtCapabilities]; /* Those with 32 bits, by their numbers. */
  uint32_t tiles[kLtTileWords];
  uint32_t stages[kLtStageWords];
  uint32_t unused;
};

static inline int LtHasBit(const uint32_t* words, uint64_t bits, uint64_t bit) {
  return bit < bits && (words[bit / 32] >> (bit % 32) & 1) != 0;
}
static inline int LtHasAny(const uint32_t* words, int count) {
  for (int i = 0; i < count; ++i) {
    if (words[i] != 0) return 1;
  }
  return 0;
}

/* Returns 1 if the algorithm with this number is of the kind, and its configuration is one that was
 * tested: its numbers are among those that the library names, or within bounds of ours. `config`
 * has a call's values from that of `own` on, so that the attributes are at their numbers. */
static inline int IsLtConfig(const struct LtKind* kind, uint64_t id, const uint64_t* config) {
  const uint32_t* const can = kind->capabilities;
  const uint64_t splits = config[kLtConfigSplits], scheme = config[kLtConfigScheme];
  const int tile_is_known = LtHasAny(kind->tiles, kLtTileWords)
                                ? LtHasBit(kind->tiles, 32 * kLtTileWords, config[kLtConfigTile])
                                : config[kLtConfigTile] == 0;
  const int stages_are_known =
      LtHasAny(kind->stages, kLtStageWords)
          ? LtHasBit(kind->stages, 32 * kLtStageWords, config[kLtConfigStages])
          : config[kLtConfigStages] == 0;
  return id == kind->id && tile_is_known && stages_are_known && (splits > 1) == (scheme != 0) &&
         (splits <= 1 || (can[kLtCanSplit] != 0 && splits <= kLtMostSplits)) &&
         (scheme == 0 || ((scheme & (scheme - 1)) == 0 && (scheme & can[kLtCanReduce]) != 0)) &&
         config[kLtConfigSwizzle] <= can[kLtCanSwizzle] &&
         config[kLtConfigCustom] <= can[kLtMostCustom] && config[kLtConfigInner] == 0 &&
         config[kLtConfigCluster] <= kLtMostCluster;
}

/* Returns the alignment of an address, as far as the library knows a difference. */
static inline uint64_t LtAlignment(uint64_t address) {
  const uint64_t most = kLtMostAlignment, lowest = address & (~address + 1);
  return lowest == 0 || lowest > most ? most : lowest;
}

/* What a client asks about a call of cublasLtMatmul(): which algorithms the library would use, or
 * has with the configuration that the call's values say (LtAlgorithm), and which can be configured
 * for the call's types (LtKind). */
enum LtQuestion { kLtAskAlgorithms = 0, kLtAskKinds = 1 };

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
