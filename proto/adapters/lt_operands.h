/* Where the memory of cublasLtMatmul() is among the call's values. C and C++. */
#ifndef WARPLINE_PROTO_ADAPTERS_LT_OPERANDS_H_
#define WARPLINE_PROTO_ADAPTERS_LT_OPERANDS_H_

#include <stdint.h>

#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/lt_types.h"

#ifdef __cplusplus
namespace warpline {
#endif

/* The slots of a matrix. Its leading dimension and stride follow on its order. `plane` has the
 * address of its imaginary parts, and `array` those of the matrices of a batch. */
struct LtOperand {
  uint32_t address, type, order, plane, array;
};
enum LtMatrix { kLtA, kLtB, kLtC, kLtD, kLtMatrices };
static const struct LtOperand kLtOperands[kLtMatrices] = {
    {kLtMatmulA, kLtMatmulAtype, kLtMatmulOrderA, kLtMatmulImagA, kLtMatmulArrayA},
    {kLtMatmulB, kLtMatmulBtype, kLtMatmulOrderB, kLtMatmulImagB, kLtMatmulArrayB},
    {kLtMatmulC, kLtMatmulCtype, kLtMatmulOrderC, kLtMatmulImagC, kLtMatmulArrayC},
    {kLtMatmulD, kLtMatmulDtype, kLtMatmulOrderD, kLtMatmulImagD, kLtMatmulArrayD}};

/* The addresses of what is no matrix and no scalar. */
enum { kLtOtherAddresses = 10 };
static const uint32_t kLtOthers[kLtOtherAddresses] = {
    kLtMatmulBias,    kLtMatmulGradient,   kLtMatmulMaskRead, kLtMatmulMaskWritten,
    kLtMatmulAuxRead, kLtMatmulAuxWritten, kLtMatmulScaleA,   kLtMatmulScaleB,
    kLtMatmulScaleD,  kLtMatmulLargestD};

/* Auxiliary memory of an epilogue that has it: its slot, and how many bits or elements a unit of
 * its leading dimension and stride has. */
struct LtAuxiliaryMemory {
  uint32_t slot;
  int64_t unit;
};
static inline struct LtAuxiliaryMemory LtAuxiliaryOf(uint64_t epilogue) {
  const int is_mask = (epilogue & (kLtRelu | kLtReluGradient)) != 0;
  const int reads = (epilogue & (kLtReluGradient | kLtGeluGradient)) != 0;
  struct LtAuxiliaryMemory memory;
  if (is_mask) {
    memory.slot = reads ? kLtMatmulMaskRead : kLtMatmulMaskWritten;
    memory.unit = kLtMaskBits;
  } else {
    memory.slot = reads ? kLtMatmulAuxRead : kLtMatmulAuxWritten;
    memory.unit = kLtAuxElements;
  }
  return memory;
}

#ifdef __cplusplus
}  // namespace warpline
#endif

#endif /* WARPLINE_PROTO_ADAPTERS_LT_OPERANDS_H_ */
