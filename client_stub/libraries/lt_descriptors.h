/* The descriptors of cuBLASLt as our libcublasLt.so.13 keeps them, in the program's own memory and
 * in as many bytes as NVIDIA's have: a program may have them on its stack. */
#ifndef WARPLINE_CLIENT_STUB_LIBRARIES_LT_DESCRIPTORS_H_
#define WARPLINE_CLIENT_STUB_LIBRARIES_LT_DESCRIPTORS_H_

#include <stddef.h>
#include <stdint.h>

/* Behind a cublasLtMatrixLayout_t. */
struct lt_layout {
  int32_t type;  /* cudaDataType */
  int32_t order; /* cublasLtOrder_t */
  uint64_t rows, columns;
  int64_t leading;
  int32_t batch_count;
  int32_t batch_mode;
  int64_t stride; /* In elements, from one matrix to the next. */
  int64_t plane_offset;
  uint64_t unused;
};

/* Behind a cublasLtMatmulDesc_t. */
struct lt_description {
  int32_t compute, scale; /* cublasComputeType_t, cudaDataType */
  int32_t pointer_mode;   /* cublasLtPointerMode_t */
  int32_t trans[3];       /* cublasOperation_t of A, B and C */
  int32_t fill_mode;      /* cublasFillMode_t */
  uint32_t epilogue;      /* cublasLtEpilogue_t */
  uint64_t bias;          /* Addresses on the device. */
  uint64_t aux;
  uint64_t scales[5];  /* Of A, B, C, D and the auxiliary memory. */
  uint64_t largest[2]; /* Of D and the auxiliary memory. */
  uint64_t out_scale;
  int64_t bias_stride, aux_leading, aux_stride, alpha_stride;
  int32_t bias_type, aux_type; /* cudaDataType, -1 for that of D */
  int32_t scale_modes[6];      /* As `scales`, and that of `out_scale`. */
  int32_t multiprocessors;
  int8_t fast_sums;
  uint8_t unused[3];
  uint64_t emulation;
  uint64_t rest[8];
};

/* Behind a cublasLtMatmulPreference_t. */
struct lt_preference {
  uint32_t search;     /* cublasLtMatmulSearch_t */
  uint32_t reductions; /* Bits of cublasLtReductionScheme_t. */
  uint64_t workspace;  /* Bytes. */
  uint32_t alignments[4];
  float waves;
  uint32_t unused;
  uint64_t implementations;
  uint64_t rest[2];
};

/* Give a descriptor in the program's memory, which has so many bytes, its first values. These are
 * NVIDIA's functions. */
int cublasLtMatrixLayoutInit_internal(struct lt_layout* layout, size_t bytes, int type,
                                      uint64_t rows, uint64_t columns, int64_t leading);
int cublasLtMatmulDescInit_internal(struct lt_description* description, size_t bytes, int compute,
                                    int scale);

_Static_assert(sizeof(struct lt_layout) == 8 * 8, "the size of NVIDIA's");
_Static_assert(sizeof(struct lt_description) == 8 * 32, "the size of NVIDIA's");
_Static_assert(sizeof(struct lt_preference) == 8 * 8, "the size of NVIDIA's");

#endif /* WARPLINE_CLIENT_STUB_LIBRARIES_LT_DESCRIPTORS_H_ */
