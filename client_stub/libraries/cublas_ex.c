/* Functions of cuBLAS that are others in another form: those whose parameters say the types, and
 * groups of products, each of which is a call of its own. */
#include <stdint.h>

#include "client_stub/libraries/cublas_handle.h"
#include "proto/adapters/blas_types.h"

struct cublasContext;
typedef struct cublasContext* Handle;

static int Fits(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

/* Declares the functions for the letters of a name. */
#define OF_EACH(Name, Arguments) \
  int cublasS##Name Arguments;   \
  int cublasD##Name Arguments;   \
  int cublasC##Name Arguments;   \
  int cublasZ##Name Arguments;

/* Calls the function for a type. */
#define BY_TYPE(type, Name, Values) \
  switch (type) {                   \
    case kReal32:                   \
      return cublasS##Name Values;  \
    case kReal64:                   \
      return cublasD##Name Values;  \
    case kComplex32:                \
      return cublasC##Name Values;  \
    case kComplex64:                \
      return cublasZ##Name Values;  \
    default:                        \
      return kNotSupported;         \
  }

/* --- Vectors whose parameters say their types. Those that differ are not supported. */

OF_EACH(axpy_v2, (Handle, int, const void*, const void*, int, void*, int))
int cublasAxpyEx(Handle handle, int n, const void* alpha, int alpha_type, const void* x, int x_type,
                 int incx, void* y, int y_type, int incy, int execution);
int cublasAxpyEx(Handle handle, int n, const void* alpha, int alpha_type, const void* x, int x_type,
                 int incx, void* y, int y_type, int incy, int execution) {
  if (alpha_type != x_type || y_type != x_type || execution != x_type) return kNotSupported;
  BY_TYPE(x_type, axpy_v2, (handle, n, alpha, x, incx, y, incy))
}
int cublasAxpyEx_64(Handle handle, int64_t n, const void* alpha, int alpha_type, const void* x,
                    int x_type, int64_t incx, void* y, int y_type, int64_t incy, int execution);
int cublasAxpyEx_64(Handle handle, int64_t n, const void* alpha, int alpha_type, const void* x,
                    int x_type, int64_t incx, void* y, int y_type, int64_t incy, int execution) {
  if (!Fits(n) || !Fits(incx) || !Fits(incy)) return kNotSupported;
  return cublasAxpyEx(handle, (int)n, alpha, alpha_type, x, x_type, (int)incx, y, y_type, (int)incy,
                      execution);
}

OF_EACH(scal_v2, (Handle, int, const void*, void*, int))
int cublasScalEx(Handle handle, int n, const void* alpha, int alpha_type, void* x, int x_type,
                 int incx, int execution);
int cublasScalEx(Handle handle, int n, const void* alpha, int alpha_type, void* x, int x_type,
                 int incx, int execution) {
  if (alpha_type != x_type || execution != x_type) return kNotSupported;
  BY_TYPE(x_type, scal_v2, (handle, n, alpha, x, incx))
}
int cublasScalEx_64(Handle handle, int64_t n, const void* alpha, int alpha_type, void* x,
                    int x_type, int64_t incx, int execution);
int cublasScalEx_64(Handle handle, int64_t n, const void* alpha, int alpha_type, void* x,
                    int x_type, int64_t incx, int execution) {
  if (!Fits(n) || !Fits(incx)) return kNotSupported;
  return cublasScalEx(handle, (int)n, alpha, alpha_type, x, x_type, (int)incx, execution);
}

int cublasSnrm2_v2(Handle handle, int n, const void* x, int incx, void* result);
int cublasDnrm2_v2(Handle handle, int n, const void* x, int incx, void* result);
int cublasNrm2Ex(Handle handle, int n, const void* x, int x_type, int incx, void* result,
                 int result_type, int execution);
int cublasNrm2Ex(Handle handle, int n, const void* x, int x_type, int incx, void* result,
                 int result_type, int execution) {
  if (result_type != x_type || execution != x_type) return kNotSupported;
  if (x_type == kReal32) return cublasSnrm2_v2(handle, n, x, incx, result);
  if (x_type == kReal64) return cublasDnrm2_v2(handle, n, x, incx, result);
  return kNotSupported;
}
int cublasNrm2Ex_64(Handle handle, int64_t n, const void* x, int x_type, int64_t incx, void* result,
                    int result_type, int execution);
int cublasNrm2Ex_64(Handle handle, int64_t n, const void* x, int x_type, int64_t incx, void* result,
                    int result_type, int execution) {
  if (!Fits(n) || !Fits(incx)) return kNotSupported;
  return cublasNrm2Ex(handle, (int)n, x, x_type, (int)incx, result, result_type, execution);
}

#define DOT(Name, S, C)                                                                           \
  int cublasS##S(Handle, int, const void*, int, const void*, int, void*);                         \
  int cublasD##S(Handle, int, const void*, int, const void*, int, void*);                         \
  int cublasC##C(Handle, int, const void*, int, const void*, int, void*);                         \
  int cublasZ##C(Handle, int, const void*, int, const void*, int, void*);                         \
  int Name(Handle handle, int n, const void* x, int x_type, int incx, const void* y, int y_type,  \
           int incy, void* result, int result_type, int execution);                               \
  int Name(Handle handle, int n, const void* x, int x_type, int incx, const void* y, int y_type,  \
           int incy, void* result, int result_type, int execution) {                              \
    if (y_type != x_type || result_type != x_type || execution != x_type) return kNotSupported;   \
    switch (x_type) {                                                                             \
      case kReal32:                                                                               \
        return cublasS##S(handle, n, x, incx, y, incy, result);                                   \
      case kReal64:                                                                               \
        return cublasD##S(handle, n, x, incx, y, incy, result);                                   \
      case kComplex32:                                                                            \
        return cublasC##C(handle, n, x, incx, y, incy, result);                                   \
      case kComplex64:                                                                            \
        return cublasZ##C(handle, n, x, incx, y, incy, result);                                   \
      default:                                                                                    \
        return kNotSupported;                                                                     \
    }                                                                                             \
  }                                                                                               \
  int Name##_64(Handle handle, int64_t n, const void* x, int x_type, int64_t incx, const void* y, \
                int y_type, int64_t incy, void* result, int result_type, int execution);          \
  int Name##_64(Handle handle, int64_t n, const void* x, int x_type, int64_t incx, const void* y, \
                int y_type, int64_t incy, void* result, int result_type, int execution) {         \
    if (!Fits(n) || !Fits(incx) || !Fits(incy)) return kNotSupported;                             \
    return Name(handle, (int)n, x, x_type, (int)incx, y, y_type, (int)incy, result, result_type,  \
                execution);                                                                       \
  }

DOT(cublasDotEx, dot_v2, dotu_v2)
DOT(cublasDotcEx, dot_v2, dotc_v2)

/* --- Products with themselves of complex matrices */

#define RANK_K(Name, Of)                                                                          \
  int Of(Handle, int, int, int, int, const void*, const void*, int, const void*, void*, int);     \
  int Name(Handle handle, int uplo, int trans, int n, int k, const void* alpha, const void* a,    \
           int a_type, int lda, const void* beta, void* c, int c_type, int ldc);                  \
  int Name(Handle handle, int uplo, int trans, int n, int k, const void* alpha, const void* a,    \
           int a_type, int lda, const void* beta, void* c, int c_type, int ldc) {                 \
    if (a_type != kComplex32 || c_type != kComplex32) return kNotSupported;                       \
    return Of(handle, uplo, trans, n, k, alpha, a, lda, beta, c, ldc);                            \
  }                                                                                               \
  int Name##_64(Handle handle, int uplo, int trans, int64_t n, int64_t k, const void* alpha,      \
                const void* a, int a_type, int64_t lda, const void* beta, void* c, int c_type,    \
                int64_t ldc);                                                                     \
  int Name##_64(Handle handle, int uplo, int trans, int64_t n, int64_t k, const void* alpha,      \
                const void* a, int a_type, int64_t lda, const void* beta, void* c, int c_type,    \
                int64_t ldc) {                                                                    \
    if (!Fits(n) || !Fits(k) || !Fits(lda) || !Fits(ldc)) return kNotSupported;                   \
    return Name(handle, uplo, trans, (int)n, (int)k, alpha, a, a_type, (int)lda, beta, c, c_type, \
                (int)ldc);                                                                        \
  }

RANK_K(cublasCsyrkEx, cublasCsyrk_v2)
RANK_K(cublasCsyrk3mEx, cublasCsyrk_v2)
RANK_K(cublasCherkEx, cublasCherk_v2)
RANK_K(cublasCherk3mEx, cublasCherk_v2)

/* --- Groups of products. The arrays of a group's parameters are in host memory, and so are the
 * scalars; those of addresses are on the device, one group behind the other. */

/* Looks at the parameters of all groups, so that none is computed when another one is wrong. */
#define CHECK_GROUPS(Name, Int)                                                             \
  static int Name(const struct cublasContext* handle, const Int* const* sizes, Int count) { \
    if (warpline_begin(handle) != kSuccess) return kNotInitialized;                         \
    if (count < 0 || handle->pointer_mode != 0) return kInvalidValue;                       \
    for (int j = 0; j < kSizes; ++j) {                                                      \
      if (count > 0 && sizes[j] == NULL) return kInvalidValue;                              \
      for (Int i = 0; i < count; ++i) {                                                     \
        if (sizes[j][i] < 0) return kInvalidValue;                                          \
        if (!Fits(sizes[j][i])) return kNotSupported;                                       \
      }                                                                                     \
    }                                                                                       \
    return kSuccess;                                                                        \
  }

enum { kSizes = 7 };
CHECK_GROUPS(CheckGroups, int)
CHECK_GROUPS(CheckGroups64, int64_t)

#define GROUPED(Name, Type, Int, Check, Batched)                                                   \
  int Name(Handle handle, const int* transa, const int* transb, const Int* m, const Int* n,        \
           const Int* k, const Type* alpha, const void* const* a, const Int* lda,                  \
           const void* const* b, const Int* ldb, const Type* beta, void* const* c, const Int* ldc, \
           Int count, const Int* group);                                                           \
  int Name(Handle handle, const int* transa, const int* transb, const Int* m, const Int* n,        \
           const Int* k, const Type* alpha, const void* const* a, const Int* lda,                  \
           const void* const* b, const Int* ldb, const Type* beta, void* const* c, const Int* ldc, \
           Int count, const Int* group) {                                                          \
    const Int* const sizes[kSizes] = {m, n, k, lda, ldb, ldc, group};                              \
    int status = Check(handle, sizes, count);                                                      \
    if (status != kSuccess || count == 0) return status;                                           \
    if (transa == NULL || transb == NULL || alpha == NULL || beta == NULL) return kInvalidValue;   \
    for (Int i = 0; i < count && status == kSuccess; ++i) {                                        \
      status = Batched(handle, transa[i], transb[i], (int)m[i], (int)n[i], (int)k[i], &alpha[i],   \
                       a, (int)lda[i], b, (int)ldb[i], &beta[i], c, (int)ldc[i], (int)group[i]);   \
      a += group[i];                                                                               \
      b += group[i];                                                                               \
      c += group[i];                                                                               \
    }                                                                                              \
    return status;                                                                                 \
  }

int cublasSgemmBatched(Handle, int, int, int, int, int, const void*, const void*, int, const void*,
                       int, const void*, const void*, int, int);
int cublasDgemmBatched(Handle, int, int, int, int, int, const void*, const void*, int, const void*,
                       int, const void*, const void*, int, int);
GROUPED(cublasSgemmGroupedBatched, float, int, CheckGroups, cublasSgemmBatched)
GROUPED(cublasDgemmGroupedBatched, double, int, CheckGroups, cublasDgemmBatched)
GROUPED(cublasSgemmGroupedBatched_64, float, int64_t, CheckGroups64, cublasSgemmBatched)
GROUPED(cublasDgemmGroupedBatched_64, double, int64_t, CheckGroups64, cublasDgemmBatched)

int cublasGemmBatchedEx(Handle, int, int, int, int, int, const void*, const void*, int, int,
                        const void*, int, int, const void*, const void*, int, int, int, int, int);

#define GROUPED_EX(Name, Int, Check)                                                              \
  int Name(Handle handle, const int* transa, const int* transb, const Int* m, const Int* n,       \
           const Int* k, const void* alpha, const void* const* a, int a_type, const Int* lda,     \
           const void* const* b, int b_type, const Int* ldb, const void* beta, void* const* c,    \
           int c_type, const Int* ldc, Int count, const Int* group, int compute);                 \
  int Name(Handle handle, const int* transa, const int* transb, const Int* m, const Int* n,       \
           const Int* k, const void* alpha, const void* const* a, int a_type, const Int* lda,     \
           const void* const* b, int b_type, const Int* ldb, const void* beta, void* const* c,    \
           int c_type, const Int* ldc, Int count, const Int* group, int compute) {                \
    const Int* const sizes[kSizes] = {m, n, k, lda, ldb, ldc, group};                             \
    int status = Check(handle, sizes, count);                                                     \
    if (status != kSuccess || count == 0) return status;                                          \
    if (transa == NULL || transb == NULL || alpha == NULL || beta == NULL) return kInvalidValue;  \
    const size_t scalar = BlasScalarBytes(compute, c_type);                                       \
    for (Int i = 0; i < count && status == kSuccess; ++i) {                                       \
      const size_t at = scalar * (size_t)i;                                                       \
      status = cublasGemmBatchedEx(handle, transa[i], transb[i], (int)m[i], (int)n[i], (int)k[i], \
                                   (const char*)alpha + at, a, a_type, (int)lda[i], b, b_type,    \
                                   (int)ldb[i], (const char*)beta + at, c, c_type, (int)ldc[i],   \
                                   (int)group[i], compute, -1);                                   \
      a += group[i];                                                                              \
      b += group[i];                                                                              \
      c += group[i];                                                                              \
    }                                                                                             \
    return status;                                                                                \
  }

GROUPED_EX(cublasGemmGroupedBatchedEx, int, CheckGroups)
GROUPED_EX(cublasGemmGroupedBatchedEx_64, int64_t, CheckGroups64)
