/* A handle of our libcublas.so.13 or libcublasLt.so.13, and what the exported functions use. As
 * with NVIDIA's libraries, a cublasHandle_t is a cublasLtHandle_t, too.
 *
 * As with NVIDIA's library, threads may share a handle. The results are cublasStatus_ts. */
#ifndef WARPLINE_CLIENT_STUB_LIBRARIES_CUBLAS_HANDLE_H_
#define WARPLINE_CLIENT_STUB_LIBRARIES_CUBLAS_HANDLE_H_

#include <cuda.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "client_stub/shim/library_abi.h"

#define HIDDEN __attribute__((visibility("hidden")))

enum cublas_status {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15,
};

enum { kHandleMagic = 0x5742434d };

/* Behind a cublasHandle_t. */
struct cublasContext {
  uint32_t magic;
  unsigned version;   /* Of the server's library. */
  CUstream stream;    /* Borrowed from the program. */
  int pointer_mode;   /* cublasPointerMode_t */
  int atomics_mode;   /* cublasAtomicsMode_t */
  unsigned math_mode; /* cublasMath_t */
  int sm_count_target;
  pthread_mutex_t mu; /* Guards the memory for results. */
  CUdeviceptr result; /* 16 bytes; made when it is first needed. */
};

/* The functions of libcuda.so.1 that are used. */
struct warpline_driver {
  warpline_library_find_t library_find;
  warpline_library_call_t library_call;
  warpline_library_ask_t library_ask;
  CUresult (*init)(unsigned flags);
  CUresult (*get_current)(CUcontext* context);
  CUresult (*set_current)(CUcontext context);
  CUresult (*retain)(CUcontext* context, CUdevice device);
  CUresult (*alloc)(CUdeviceptr* memory, size_t bytes);
  CUresult (*release)(CUdeviceptr memory);
  CUresult (*copy_out)(void* dst, CUdeviceptr src, size_t bytes, CUstream stream);
  CUresult (*copy_rows)(const CUDA_MEMCPY2D* copy);
  CUresult (*copy_rows_on)(const CUDA_MEMCPY2D* copy, CUstream stream);
  CUresult (*synchronize)(CUstream stream);
};

/* Finds them once. Returns NULL, after one line on stderr, when libcuda.so.1 is not Warpline's. */
HIDDEN const struct warpline_driver* warpline_driver(void);
/* The cublasStatus_t for a CUresult. */
HIDDEN int warpline_status(int result);

/* Makes a handle, for which the server must execute calls; ends one. */
HIDDEN int warpline_create(struct cublasContext** handle);
HIDDEN int warpline_destroy(struct cublasContext* handle);

/* The name of a cublasStatus_t, and a sentence about it. */
HIDDEN const char* warpline_status_name(int status);
HIDDEN const char* warpline_status_words(int status);

/* --- For the generated functions */

HIDDEN int warpline_begin(const struct cublasContext* handle);
/* Makes a context current where the thread has none, as NVIDIA's library does: the first device's.
 * Returns a CUresult. */
HIDDEN int warpline_enter(const struct warpline_driver* driver);
/* Puts a scalar of `bytes` (at most 16; 0 is a type that is not supported), or its address on the
 * device, into two values. */
HIDDEN int warpline_scalar(const struct cublasContext* handle, const void* scalar, int bytes,
                           uint64_t* values);
HIDDEN int warpline_call(const struct cublasContext* handle, unsigned function,
                         const uint64_t* values, unsigned count);
/* The same for a function whose value `slot` says where a result of `bytes` goes: to `result`, in
 * host or device memory. Waits for it in host memory. */
HIDDEN int warpline_call_for(struct cublasContext* handle, unsigned function, uint64_t* values,
                             unsigned count, unsigned slot, void* result, int bytes);

#endif /* WARPLINE_CLIENT_STUB_LIBRARIES_CUBLAS_HANDLE_H_ */
