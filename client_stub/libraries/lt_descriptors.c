/* Descriptors of cuBLASLt: made, ended, and their attributes read and written. Nothing of this asks
 * the server; cublasLtMatmul() looks at the values. */
#include "client_stub/libraries/lt_descriptors.h"

#include <stdlib.h>
#include <string.h>

#include "client_stub/libraries/cublas_handle.h"
#include "proto/adapters/lt_types.h"

/* Where an attribute lies in its descriptor. */
struct Attribute {
  int number;
  size_t offset, bytes;
};

#define AT(number, Struct, field) \
  { number, offsetof(struct Struct, field), sizeof(((struct Struct*)0)->field) }

static const struct Attribute kLayout[] = {
    AT(kLtLayoutType, lt_layout, type),
    AT(kLtLayoutOrder, lt_layout, order),
    AT(kLtLayoutRows, lt_layout, rows),
    AT(kLtLayoutColumns, lt_layout, columns),
    AT(kLtLayoutLeading, lt_layout, leading),
    AT(kLtLayoutBatchCount, lt_layout, batch_count),
    AT(kLtLayoutStride, lt_layout, stride),
    AT(kLtLayoutPlaneOffset, lt_layout, plane_offset),
    AT(kLtLayoutBatchMode, lt_layout, batch_mode),
};

static const struct Attribute kDescription[] = {
    AT(kLtComputeType, lt_description, compute),
    AT(kLtScaleType, lt_description, scale),
    AT(kLtPointerMode, lt_description, pointer_mode),
    AT(kLtTransA, lt_description, trans[0]),
    AT(kLtTransB, lt_description, trans[1]),
    AT(kLtTransC, lt_description, trans[2]),
    AT(kLtFillMode, lt_description, fill_mode),
    AT(kLtEpilogueKind, lt_description, epilogue),
    AT(kLtBiasPointer, lt_description, bias),
    AT(kLtBiasStride, lt_description, bias_stride),
    AT(kLtAuxPointer, lt_description, aux),
    AT(kLtAuxLeading, lt_description, aux_leading),
    AT(kLtAuxStride, lt_description, aux_stride),
    AT(kLtAlphaStride, lt_description, alpha_stride),
    AT(kLtMultiprocessors, lt_description, multiprocessors),
    AT(kLtScaleOfA, lt_description, scales[0]),
    AT(kLtScaleOfB, lt_description, scales[1]),
    AT(kLtScaleOfC, lt_description, scales[2]),
    AT(kLtScaleOfD, lt_description, scales[3]),
    AT(kLtLargestOfD, lt_description, largest[0]),
    AT(kLtAuxType, lt_description, aux_type),
    AT(kLtScaleOfAux, lt_description, scales[4]),
    AT(kLtLargestOfAux, lt_description, largest[1]),
    AT(kLtFastSums, lt_description, fast_sums),
    AT(kLtBiasType, lt_description, bias_type),
    AT(kLtScaleModeOfA, lt_description, scale_modes[0]),
    AT(kLtScaleModeOfB, lt_description, scale_modes[1]),
    AT(kLtScaleModeOfC, lt_description, scale_modes[2]),
    AT(kLtScaleModeOfD, lt_description, scale_modes[3]),
    AT(kLtScaleModeOfAux, lt_description, scale_modes[4]),
    AT(kLtOutScaleOfD, lt_description, out_scale),
    AT(kLtOutScaleModeOfD, lt_description, scale_modes[5]),
    AT(kLtEmulation, lt_description, emulation),
};

static const struct Attribute kPreference[] = {
    AT(kLtSearchMode, lt_preference, search),
    AT(kLtMostWorkspace, lt_preference, workspace),
    AT(kLtReductions, lt_preference, reductions),
    AT(kLtAlignmentOfA, lt_preference, alignments[0]),
    AT(kLtAlignmentOfB, lt_preference, alignments[1]),
    AT(kLtAlignmentOfC, lt_preference, alignments[2]),
    AT(kLtAlignmentOfD, lt_preference, alignments[3]),
    AT(kLtMostWaves, lt_preference, waves),
    AT(kLtImplementations, lt_preference, implementations),
};

static const struct Attribute* FindAttribute(const struct Attribute* attributes, size_t count,
                                             int number) {
  for (size_t i = 0; i < count; ++i) {
    if (attributes[i].number == number) return &attributes[i];
  }
  return NULL;
}

static int Set(void* descriptor, const struct Attribute* attribute, const void* value,
               size_t bytes) {
  if (descriptor == NULL || attribute == NULL || value == NULL || bytes != attribute->bytes) {
    return kInvalidValue;
  }
  memcpy((char*)descriptor + attribute->offset, value, bytes);
  return kSuccess;
}

static int Get(const void* descriptor, const struct Attribute* attribute, void* value, size_t bytes,
               size_t* written) {
  if (descriptor == NULL || attribute == NULL) return kInvalidValue;
  if (bytes == 0) {
    if (written == NULL) return kInvalidValue;
    *written = attribute->bytes;
    return kSuccess;
  }
  if (value == NULL || bytes != attribute->bytes) return kInvalidValue;
  memcpy(value, (const char*)descriptor + attribute->offset, bytes);
  if (written != NULL) *written = bytes;
  return kSuccess;
}

/* The functions that every kind of descriptor has. */
#define DESCRIPTOR(Name, Struct, attributes)                                                  \
  int cublasLt##Name##Destroy(struct Struct* descriptor);                                     \
  int cublasLt##Name##Destroy(struct Struct* descriptor) {                                    \
    free(descriptor);                                                                         \
    return kSuccess;                                                                          \
  }                                                                                           \
  int cublasLt##Name##SetAttribute(struct Struct* descriptor, int number, const void* value,  \
                                   size_t bytes);                                             \
  int cublasLt##Name##SetAttribute(struct Struct* descriptor, int number, const void* value,  \
                                   size_t bytes) {                                            \
    return Set(descriptor,                                                                    \
               FindAttribute(attributes, sizeof(attributes) / sizeof(*(attributes)), number), \
               value, bytes);                                                                 \
  }                                                                                           \
  int cublasLt##Name##GetAttribute(const struct Struct* descriptor, int number, void* value,  \
                                   size_t bytes, size_t* written);                            \
  int cublasLt##Name##GetAttribute(const struct Struct* descriptor, int number, void* value,  \
                                   size_t bytes, size_t* written) {                           \
    return Get(descriptor,                                                                    \
               FindAttribute(attributes, sizeof(attributes) / sizeof(*(attributes)), number), \
               value, bytes, written);                                                        \
  }

DESCRIPTOR(MatrixLayout, lt_layout, kLayout)
DESCRIPTOR(MatmulDesc, lt_description, kDescription)
DESCRIPTOR(MatmulPreference, lt_preference, kPreference)

/* --- Made in the program's memory, and in memory of ours. */

int cublasLtMatrixLayoutInit_internal(struct lt_layout* layout, size_t bytes, int type,
                                      uint64_t rows, uint64_t columns, int64_t leading) {
  if (layout == NULL) return kInvalidValue;
  if (bytes < sizeof(*layout)) return kAllocFailed;
  memset(layout, 0, sizeof(*layout));
  layout->type = type;
  layout->rows = rows;
  layout->columns = columns;
  layout->leading = leading;
  layout->batch_count = 1;
  return kSuccess;
}

int cublasLtMatmulDescInit_internal(struct lt_description* description, size_t bytes, int compute,
                                    int scale) {
  if (description == NULL) return kInvalidValue;
  if (bytes < sizeof(*description)) return kAllocFailed;
  memset(description, 0, sizeof(*description));
  description->compute = compute;
  description->scale = scale;
  description->fill_mode = 2; /* CUBLAS_FILL_MODE_FULL */
  description->epilogue = kLtDefault;
  description->bias_type = description->aux_type = -1;
  return kSuccess;
}

int cublasLtMatmulPreferenceInit_internal(struct lt_preference* preference, size_t bytes);
int cublasLtMatmulPreferenceInit_internal(struct lt_preference* preference, size_t bytes) {
  if (preference == NULL) return kInvalidValue;
  if (bytes < sizeof(*preference)) return kAllocFailed;
  memset(preference, 0, sizeof(*preference));
  preference->reductions = kLtAllReductions;
  for (int i = 0; i < 4; ++i) preference->alignments[i] = kLtMostAlignment;
  preference->implementations = ~(uint64_t)0;
  return kSuccess;
}

int cublasLtMatrixLayoutCreate(struct lt_layout** layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading);
int cublasLtMatrixLayoutCreate(struct lt_layout** layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading) {
  if (layout == NULL) return kInvalidValue;
  *layout = malloc(sizeof(**layout));
  if (*layout == NULL) return kAllocFailed;
  return cublasLtMatrixLayoutInit_internal(*layout, sizeof(**layout), type, rows, columns, leading);
}

int cublasLtMatmulDescCreate(struct lt_description** description, int compute, int scale);
int cublasLtMatmulDescCreate(struct lt_description** description, int compute, int scale) {
  if (description == NULL) return kInvalidValue;
  *description = malloc(sizeof(**description));
  if (*description == NULL) return kAllocFailed;
  return cublasLtMatmulDescInit_internal(*description, sizeof(**description), compute, scale);
}

int cublasLtMatmulPreferenceCreate(struct lt_preference** preference);
int cublasLtMatmulPreferenceCreate(struct lt_preference** preference) {
  if (preference == NULL) return kInvalidValue;
  *preference = malloc(sizeof(**preference));
  if (*preference == NULL) return kAllocFailed;
  return cublasLtMatmulPreferenceInit_internal(*preference, sizeof(**preference));
}
