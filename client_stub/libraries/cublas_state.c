/* Handles, their modes, and copies between host and device: what cuBLAS does without kernels. */
#define _GNU_SOURCE
#include <string.h>

#include "client_stub/libraries/cublas_handle.h"

typedef void (*Logger)(const char*);

/* --- Handles */

int cublasCreate_v2(struct cublasContext** handle);
int cublasCreate_v2(struct cublasContext** handle) { return warpline_create(handle); }

int cublasDestroy_v2(struct cublasContext* handle);
int cublasDestroy_v2(struct cublasContext* handle) { return warpline_destroy(handle); }

int cublasGetVersion_v2(const struct cublasContext* handle, int* version);
int cublasGetVersion_v2(const struct cublasContext* handle, int* version) {
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  if (version == NULL) return kInvalidValue;
  *version = (int)handle->version;
  return kSuccess;
}

/* The version of the interface that this library has. */
int cublasGetProperty(int type, int* value);
int cublasGetProperty(int type, int* value) {
  if (value == NULL || type < 0 || type > 2) return kInvalidValue;
  *value = type == 0 ? 13 : 0; /* Major, minor, patch level. */
  return kSuccess;
}

size_t cublasGetCudartVersion(void);
size_t cublasGetCudartVersion(void) { return 13000; }

#define FIELD(Get, Set, Type, field, valid)                         \
  int Get(const struct cublasContext* handle, Type* value);         \
  int Get(const struct cublasContext* handle, Type* value) {        \
    if (warpline_begin(handle) != kSuccess) return kNotInitialized; \
    if (value == NULL) return kInvalidValue;                        \
    *value = (Type)handle->field;                                   \
    return kSuccess;                                                \
  }                                                                 \
  int Set(struct cublasContext* handle, Type value);                \
  int Set(struct cublasContext* handle, Type value) {               \
    if (warpline_begin(handle) != kSuccess) return kNotInitialized; \
    if (!(valid)) return kInvalidValue;                             \
    handle->field = value;                                          \
    return kSuccess;                                                \
  }

FIELD(cublasGetStream_v2, cublasSetStream_v2, CUstream, stream, 1)
FIELD(cublasGetPointerMode_v2, cublasSetPointerMode_v2, int, pointer_mode, value == 0 || value == 1)
FIELD(cublasGetAtomicsMode, cublasSetAtomicsMode, int, atomics_mode, value == 0 || value == 1)
FIELD(cublasGetSmCountTarget, cublasSetSmCountTarget, int, sm_count_target, value >= 0)

/* The modes 0 to 3, and the flag 16 that forbids sums of reduced precision. The others emulate, and
 * the server does not pass them on. */
int cublasGetMathMode(const struct cublasContext* handle, unsigned* mode);
int cublasGetMathMode(const struct cublasContext* handle, unsigned* mode) {
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  if (mode == NULL) return kInvalidValue;
  *mode = handle->math_mode;
  return kSuccess;
}

int cublasSetMathMode(struct cublasContext* handle, unsigned mode);
int cublasSetMathMode(struct cublasContext* handle, unsigned mode) {
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  if ((mode & ~16u) > 8) return kInvalidValue;
  if ((mode & ~16u) > 3) return kNotSupported;
  handle->math_mode = mode;
  return kSuccess;
}

/* The server's own memory is the workspace: a tenant's kernels could write to the tenant's. */
int cublasSetWorkspace_v2(struct cublasContext* handle, void* workspace, size_t bytes);
int cublasSetWorkspace_v2(struct cublasContext* handle, void* workspace, size_t bytes) {
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  return workspace == NULL && bytes != 0 ? kInvalidValue : kSuccess;
}

/* --- Words */

const char* cublasGetStatusName(int status);
const char* cublasGetStatusName(int status) { return warpline_status_name(status); }

const char* cublasGetStatusString(int status);
const char* cublasGetStatusString(int status) { return warpline_status_words(status); }

/* Nothing is logged. */
static Logger g_logger;
int cublasLoggerConfigure(int is_on, int to_stdout, int to_stderr, const char* file);
int cublasLoggerConfigure(int is_on, int to_stdout, int to_stderr, const char* file) {
  (void)is_on, (void)to_stdout, (void)to_stderr, (void)file;
  return kSuccess;
}
int cublasSetLoggerCallback(Logger logger);
int cublasSetLoggerCallback(Logger logger) {
  g_logger = logger;
  return kSuccess;
}
int cublasGetLoggerCallback(Logger* logger);
int cublasGetLoggerCallback(Logger* logger) {
  if (logger == NULL) return kInvalidValue;
  *logger = g_logger;
  return kSuccess;
}

/* --- Copies. A vector is a matrix with one row. */

struct Ends {
  const void* src;
  void* dst;
  int64_t src_leading, dst_leading;
  int to_device;
};

static int Copy(int64_t rows, int64_t columns, int64_t element, const struct Ends* ends,
                CUstream stream, int is_async) {
  const struct warpline_driver* driver = warpline_driver();
  if (driver == NULL) return kNotInitialized;
  const int entered = warpline_status(warpline_enter(driver));
  if (entered != kSuccess) return entered;
  if (rows < 0 || columns < 0 || element <= 0 || ends->src_leading < 1 || ends->dst_leading < 1) {
    return kInvalidValue;
  }
  if (rows == 0 || columns == 0) return kSuccess;
  const int64_t most = INT64_MAX / element;
  if (rows > most || ends->src_leading > most || ends->dst_leading > most) return kInvalidValue;
  CUDA_MEMCPY2D copy;
  memset(&copy, 0, sizeof(copy));
  copy.srcMemoryType = ends->to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.dstMemoryType = ends->to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  copy.srcHost = ends->src;
  copy.srcDevice = (CUdeviceptr)(uintptr_t)ends->src;
  copy.dstHost = ends->dst;
  copy.dstDevice = (CUdeviceptr)(uintptr_t)ends->dst;
  copy.srcPitch = (size_t)(ends->src_leading * element);
  copy.dstPitch = (size_t)(ends->dst_leading * element);
  copy.WidthInBytes = (size_t)(rows * element);
  copy.Height = (size_t)columns;
  return warpline_status(is_async ? driver->copy_rows_on(&copy, stream) : driver->copy_rows(&copy));
}

static int CopyMatrix(int64_t rows, int64_t columns, int64_t element, const struct Ends* ends,
                      CUstream stream, int is_async) {
  if (ends->src_leading < rows || ends->dst_leading < rows) return kInvalidValue;
  return Copy(rows, columns, element, ends, stream, is_async);
}

/* The four functions of a direction, which is Set (to the device) or Get. */
#define COPIES(Verb, to_device, suffix, Int)                                                      \
  int cublas##Verb##Vector##suffix(Int n, Int size, const void* x, Int incx, void* y, Int incy);  \
  int cublas##Verb##Vector##suffix(Int n, Int size, const void* x, Int incx, void* y, Int incy) { \
    const struct Ends ends = {x, y, incx, incy, to_device};                                       \
    return Copy(1, n, size, &ends, NULL, 0);                                                      \
  }                                                                                               \
  int cublas##Verb##VectorAsync##suffix(Int n, Int size, const void* x, Int incx, void* y,        \
                                        Int incy, CUstream stream);                               \
  int cublas##Verb##VectorAsync##suffix(Int n, Int size, const void* x, Int incx, void* y,        \
                                        Int incy, CUstream stream) {                              \
    const struct Ends ends = {x, y, incx, incy, to_device};                                       \
    return Copy(1, n, size, &ends, stream, 1);                                                    \
  }                                                                                               \
  int cublas##Verb##Matrix##suffix(Int rows, Int columns, Int size, const void* a, Int lda,       \
                                   void* b, Int ldb);                                             \
  int cublas##Verb##Matrix##suffix(Int rows, Int columns, Int size, const void* a, Int lda,       \
                                   void* b, Int ldb) {                                            \
    const struct Ends ends = {a, b, lda, ldb, to_device};                                         \
    return CopyMatrix(rows, columns, size, &ends, NULL, 0);                                       \
  }                                                                                               \
  int cublas##Verb##MatrixAsync##suffix(Int rows, Int columns, Int size, const void* a, Int lda,  \
                                        void* b, Int ldb, CUstream stream);                       \
  int cublas##Verb##MatrixAsync##suffix(Int rows, Int columns, Int size, const void* a, Int lda,  \
                                        void* b, Int ldb, CUstream stream) {                      \
    const struct Ends ends = {a, b, lda, ldb, to_device};                                         \
    return CopyMatrix(rows, columns, size, &ends, stream, 1);                                     \
  }

COPIES(Set, 1, , int)
COPIES(Get, 0, , int)
COPIES(Set, 1, _64, int64_t)
COPIES(Get, 0, _64, int64_t)
