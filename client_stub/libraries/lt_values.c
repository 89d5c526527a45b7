#define _GNU_SOURCE
#include "client_stub/libraries/lt_values.h"

#include <string.h>

#include "client_stub/shim/log_line.h"
#include "proto/adapters/blas_types.h"

int warpline_lt_unsupported(const char* what, char* said) {
  if (!__atomic_test_and_set(said, __ATOMIC_RELAXED)) {
    WarplineLogLine('W', "cublas",
                    "cublasLtMatmul: %s is not supported on the guarded tier (docs/libraries.md)",
                    what);
  }
  return kNotSupported;
}

unsigned warpline_lt_modes(const struct lt_description* description) {
  return description->pointer_mode != 0 ? 1u : 0u;
}

static int CheckLayout(const struct lt_layout* layout) {
  if (layout->rows == 0 || layout->columns == 0 || layout->batch_count < 1) return kInvalidValue;
  if (layout->rows > INT32_MAX || layout->columns > INT32_MAX || layout->leading > INT32_MAX) {
    return kNotSupported;
  }
  LT_WITHOUT(layout->order != 0 && layout->order != 1, "an order other than by columns or rows");
  LT_WITHOUT(layout->batch_mode != 0 && layout->batch_mode != 1, "this batch mode");
  return kSuccess;
}

/* `type` is that of C. */
static int CheckDescription(const struct lt_description* description, int type, int d_type) {
  LT_WITHOUT(description->trans[2] != 0, "a transposed C");
  LT_WITHOUT(description->fill_mode != 2, "a fill mode");
  LT_WITHOUT(description->pointer_mode != 0 && description->pointer_mode != 1,
             "a vector of scalars on the device");
  LT_WITHOUT(description->scales[4] != 0 || description->scale_modes[4] != 0 ||
                 description->largest[1] != 0,
             "a scale or AMAX of auxiliary memory");
  LT_WITHOUT(description->scales[2] != 0 || description->scale_modes[2] != 0, "a scale of C");
  LT_WITHOUT(description->scale_modes[3] != 0, "a scale mode of D");
  LT_WITHOUT(description->out_scale != 0 || description->scale_modes[5] != 0, "an output scale");
  LT_WITHOUT(description->emulation != 0, "emulation");
  LT_WITHOUT(description->bias_type != -1 && description->bias_type != type,
             "a bias of another type than C");
  LT_WITHOUT(description->aux_type != -1 && description->aux_type != d_type &&
                 (description->epilogue & (kLtGelu | kLtGeluGradient)) != 0,
             "auxiliary memory of another type than D");
  return kSuccess;
}

static int PutMatrix(const struct LtOperand* slots, const struct lt_layout* layout, uint64_t at,
                     uint64_t* values) {
  const int arrays = values[kLtMatmulArrays] != 0;
  values[arrays ? slots->array : slots->address] = at;
  int type = layout->type;
  if (values[kLtMatmulPlanes] != 0) {
    type = LtPlaneOf(type);
    LT_WITHOUT(type < 0, "this type in two planes");
    values[slots->plane] = at + (uint64_t)layout->plane_offset;
  }
  values[slots->type] = (uint64_t)(int64_t)type;
  values[slots->order] = (uint64_t)layout->order;
  values[slots->order + 1] = (uint64_t)layout->leading;
  const int has_stride = layout->batch_count != 1 && !arrays;
  values[slots->order + 2] = has_stride ? (uint64_t)layout->stride : 0;
  return kSuccess;
}

static int PutMatrices(const struct lt_matrices* matrices, uint64_t* values) {
  const struct lt_layout* const layouts[] = {matrices->a, matrices->b, matrices->c, matrices->d};
  const struct lt_layout* const d = matrices->d;
  values[kLtMatmulBatchCount] = (uint64_t)d->batch_count;
  values[kLtMatmulPlanes] = d->plane_offset != 0;
  values[kLtMatmulArrays] = d->batch_mode == 1;
  for (int i = 0; i < kLtMatrices; ++i) {
    int status = CheckLayout(layouts[i]);
    if (status != kSuccess) return status;
    if (layouts[i]->batch_count != d->batch_count || layouts[i]->batch_mode != d->batch_mode ||
        (layouts[i]->plane_offset != 0) != (d->plane_offset != 0)) {
      return kInvalidValue;
    }
    status = PutMatrix(&kLtOperands[i], layouts[i], matrices->at[i], values);
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

static int PutScales(const struct lt_description* description, uint64_t* values) {
  static const int kScalings[] = {kLtMatmulScalingA, kLtMatmulScalingB, -1, kLtMatmulScalingD};
  for (int i = 0; i < 4; ++i) {
    if (kScalings[i] < 0 || description->scales[i] == 0) continue;
    const int scaling = LtScalingOf(description->scale_modes[i]);
    LT_WITHOUT(scaling < 0, "this scale mode");
    values[kScalings[i]] = (uint64_t)scaling;
    values[kScalings[i] + 1] = description->scales[i];
  }
  values[kLtMatmulLargest] = description->largest[0] != 0;
  values[kLtMatmulLargestD] = description->largest[0];
  /* Other types have no fast sums, and the attribute no effect. */
  values[kLtMatmulFast] = description->fast_sums != 0 && IsBlasFloat8(values[kLtMatmulAtype]);
  return kSuccess;
}

/* Puts the epilogue's memory into the values. Every leading dimension is at least 1. */
static int PutEpilogue(const struct lt_description* description, uint64_t* values) {
  const uint64_t epilogue = description->epilogue & ~(uint32_t)kLtDefault;
  values[kLtMatmulEpilogue] = epilogue;
  values[kLtMatmulLdaux] = 1;
  if ((epilogue & (kLtBiasGradient | kLtSumsOfA | kLtSumsOfB)) != 0) {
    values[kLtMatmulGradient] = description->bias;
  } else if ((epilogue & kLtBias) != 0) {
    values[kLtMatmulBias] = description->bias;
  }
  values[kLtMatmulStrideBias] = (uint64_t)description->bias_stride;
  if ((epilogue & kLtAuxiliary) == 0) return kSuccess;
  const struct LtAuxiliaryMemory memory = LtAuxiliaryOf(epilogue);
  if (description->aux_leading % memory.unit != 0 || description->aux_stride % memory.unit != 0) {
    return kInvalidValue;
  }
  values[memory.slot] = description->aux;
  values[kLtMatmulLdaux] = (uint64_t)(description->aux_leading / memory.unit);
  values[kLtMatmulStrideAux] = (uint64_t)(description->aux_stride / memory.unit);
  return kSuccess;
}

int warpline_lt_values(const struct lt_description* description, const struct lt_matrices* matrices,
                       uint64_t* values) {
  const struct lt_layout *a = matrices->a, *b = matrices->b, *c = matrices->c, *d = matrices->d;
  memset(values, 0, kLtMatmulValues * sizeof(*values));
  if (description == NULL || a == NULL || b == NULL || c == NULL || d == NULL) return kInvalidValue;
  int status = PutMatrices(matrices, values);
  if (status != kSuccess) return status;
  status = CheckDescription(description, c->type, d->type);
  if (status != kSuccess) return status;
  LT_WITHOUT(description->scale != LtScaleType(description->compute, c->type), "this scale type");
  const int ta = description->trans[0] != 0, tb = description->trans[1] != 0;
  const uint64_t m = d->rows, n = d->columns, k = ta ? a->rows : a->columns;
  if ((ta ? a->columns : a->rows) != m || (tb ? b->rows : b->columns) != n ||
      (tb ? b->columns : b->rows) != k || c->rows != m || c->columns != n) {
    return kInvalidValue;
  }
  LT_WITHOUT(c->type != d->type && !IsBlasFloat8(a->type), "a C of another type than D");
  values[kLtMatmulTransa] = (uint64_t)(int64_t)description->trans[0];
  values[kLtMatmulTransb] = (uint64_t)(int64_t)description->trans[1];
  values[kLtMatmulM] = m;
  values[kLtMatmulN] = n;
  values[kLtMatmulK] = k;
  values[kLtMatmulComputeType] = (uint64_t)(int64_t)description->compute;
  status = PutScales(description, values);
  return status == kSuccess ? PutEpilogue(description, values) : status;
}
