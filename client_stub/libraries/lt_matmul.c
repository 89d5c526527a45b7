/* cublasLtMatmul(): the contents of the descriptors become the values of a call that the server
 * makes. */
#define _GNU_SOURCE
#include <string.h>

#include "client_stub/libraries/lt_algorithms.h"
#include "client_stub/libraries/lt_values.h"
#include "proto/adapters/blas_types.h"

int cublasLtMatmul(struct cublasContext* handle, const struct lt_description* description,
                   const void* alpha, const void* a, const struct lt_layout* a_layout,
                   const void* b, const struct lt_layout* b_layout, const void* beta, const void* c,
                   const struct lt_layout* c_layout, void* d, const struct lt_layout* d_layout,
                   const struct lt_algorithm* algorithm, void* workspace, size_t workspace_bytes,
                   CUstream stream);
int cublasLtMatmul(struct cublasContext* handle, const struct lt_description* description,
                   const void* alpha, const void* a, const struct lt_layout* a_layout,
                   const void* b, const struct lt_layout* b_layout, const void* beta, const void* c,
                   const struct lt_layout* c_layout, void* d, const struct lt_layout* d_layout,
                   const struct lt_algorithm* algorithm, void* workspace, size_t workspace_bytes,
                   CUstream stream) {
  (void)workspace; /* The server has its own: a tenant's kernels could write to the tenant's. */
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  if (alpha == NULL || beta == NULL) return kInvalidValue;
  struct lt_matrices matrices = {a_layout,
                                 b_layout,
                                 c_layout,
                                 d_layout,
                                 {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)d}};
  /* Without a C there is none to read. D may have another type, of which C has none. */
  struct lt_layout none;
  if (c == NULL && c_layout != NULL && d_layout != NULL) {
    none = *d_layout;
    none.type = c_layout->type;
    matrices.c = &none;
    matrices.at[2] = matrices.at[3];
  }
  uint64_t values[kLtMatmulValues];
  int status = warpline_lt_values(description, &matrices, values);
  if (status != kSuccess) return status;
  const size_t bytes = BlasScalarBytes(description->compute, matrices.c->type);
  if (bytes == 0) return kNotSupported;
  if (description->pointer_mode == 0) {
    memcpy(&values[kLtMatmulAlpha], alpha, bytes);
    memcpy(&values[kLtMatmulBeta], beta, bytes);
    if (c == NULL && (values[kLtMatmulBeta] != 0 || values[kLtMatmulBeta + 1] != 0)) {
      return kInvalidValue;
    }
  } else {
    values[kLtMatmulAlpha] = (uintptr_t)alpha;
    values[kLtMatmulBeta] = (uintptr_t)beta;
  }
  status = warpline_lt_put_algorithm(algorithm, workspace_bytes, values);
  if (status != kSuccess) return status;
  const struct warpline_driver* driver = warpline_driver();
  int result = warpline_enter(driver);
  if (result == CUDA_SUCCESS) {
    result = driver->library_call(stream, kLtMatmulNumber, warpline_lt_modes(description), values,
                                  kLtMatmulValues);
  }
  return warpline_status(result);
}
