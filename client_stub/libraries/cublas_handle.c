/* What the exported functions of our libcublas.so.13 and libcublasLt.so.13 have in common.
 *
 * C on libc alone, as libcuda.so.1: it is loaded into programs of every kind. */
#define _GNU_SOURCE
#include "client_stub/libraries/cublas_handle.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "client_stub/shim/log_line.h"

enum { kResultBytes = 16 };

static struct warpline_driver g_driver;
static int g_found;

static int Find(void* library, const char* name, void* function) {
  void* const found = dlsym(library, name);
  memcpy(function, &found, sizeof(found));
  return found != NULL;
}

static void FindDriver(void) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    WarplineLogLine('W', "cublas", "no libcuda.so.1: %s", dlerror());
    return;
  }
  if (!Find(library, "warplineLibraryFind", &g_driver.library_find) ||
      !Find(library, "warplineLibraryCall", &g_driver.library_call) ||
      !Find(library, "warplineLibraryAsk", &g_driver.library_ask)) {
    WarplineLogLine('W', "cublas",
                    "libcuda.so.1 is not Warpline's: this libcublas.so.13 needs `warpline run`");
    return;
  }
  g_found = Find(library, "cuInit", &g_driver.init) &&
            Find(library, "cuCtxGetCurrent", &g_driver.get_current) &&
            Find(library, "cuCtxSetCurrent", &g_driver.set_current) &&
            Find(library, "cuDevicePrimaryCtxRetain", &g_driver.retain) &&
            Find(library, "cuMemAlloc_v2", &g_driver.alloc) &&
            Find(library, "cuMemFree_v2", &g_driver.release) &&
            Find(library, "cuMemcpyDtoHAsync_v2", &g_driver.copy_out) &&
            Find(library, "cuMemcpy2DUnaligned_v2", &g_driver.copy_rows) &&
            Find(library, "cuMemcpy2DAsync_v2", &g_driver.copy_rows_on) &&
            Find(library, "cuStreamSynchronize", &g_driver.synchronize);
}

const struct warpline_driver* warpline_driver(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, FindDriver);
  return g_found ? &g_driver : NULL;
}

int warpline_status(int result) {
  switch (result) {
    case CUDA_SUCCESS:
      return kSuccess;
    case CUDA_ERROR_INVALID_VALUE:
      return kInvalidValue;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return kAllocFailed;
    case CUDA_ERROR_NOT_SUPPORTED:
      return kNotSupported;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return kNotInitialized;
    default:
      return kExecutionFailed;
  }
}

int warpline_enter(const struct warpline_driver* driver) {
  CUcontext context = NULL;
  CUresult result = driver->get_current(&context);
  if (result == CUDA_ERROR_NOT_INITIALIZED) {
    result = driver->init(0);
    if (result == CUDA_SUCCESS) result = driver->get_current(&context);
  }
  if (result == CUDA_SUCCESS && context == NULL) {
    result = driver->retain(&context, 0);
    if (result == CUDA_SUCCESS) result = driver->set_current(context);
  }
  return result;
}

int warpline_begin(const struct cublasContext* handle) {
  return handle == NULL || handle->magic != kHandleMagic ? kNotInitialized : kSuccess;
}

int warpline_scalar(const struct cublasContext* handle, const void* scalar, int bytes,
                    uint64_t* values) {
  values[0] = values[1] = 0;
  if (bytes == 0) return kNotSupported;
  if (scalar == NULL) return kInvalidValue;
  if (handle->pointer_mode == 0) {
    memcpy(values, scalar, (size_t)bytes);
  } else {
    values[0] = (uint64_t)(uintptr_t)scalar;
  }
  return kSuccess;
}

static unsigned Modes(const struct cublasContext* handle) {
  return (handle->pointer_mode != 0 ? 1u : 0u) | (handle->atomics_mode != 0 ? 2u : 0u) |
         handle->math_mode << 8;
}

int warpline_call(const struct cublasContext* handle, unsigned function, const uint64_t* values,
                  unsigned count) {
  const struct warpline_driver* driver = warpline_driver();
  int result = warpline_enter(driver);
  if (result == CUDA_SUCCESS) {
    result = driver->library_call(handle->stream, function, Modes(handle), values, count);
  }
  return warpline_status(result);
}

static int CallAndCopy(struct cublasContext* handle, unsigned function, uint64_t* values,
                       unsigned count, unsigned slot, void* result, int bytes) {
  const struct warpline_driver* driver = warpline_driver();
  const int entered = warpline_status(warpline_enter(driver));
  if (entered != kSuccess) return entered;
  if (handle->result == 0) {
    const int made = warpline_status(driver->alloc(&handle->result, kResultBytes));
    if (made != kSuccess) return made;
  }
  values[slot] = handle->result;
  const int called = warpline_call(handle, function, values, count);
  if (called != kSuccess) return called;
  CUresult copied = driver->copy_out(result, handle->result, (size_t)bytes, handle->stream);
  if (copied == CUDA_SUCCESS) copied = driver->synchronize(handle->stream);
  return warpline_status(copied);
}

int warpline_call_for(struct cublasContext* handle, unsigned function, uint64_t* values,
                      unsigned count, unsigned slot, void* result, int bytes) {
  if (result == NULL) return kInvalidValue;
  if (handle->pointer_mode != 0) {
    values[slot] = (uint64_t)(uintptr_t)result;
    return warpline_call(handle, function, values, count);
  }
  pthread_mutex_lock(&handle->mu);
  const int status = CallAndCopy(handle, function, values, count, slot, result, bytes);
  pthread_mutex_unlock(&handle->mu);
  return status;
}

int warpline_create(struct cublasContext** handle) {
  const struct warpline_driver* driver = warpline_driver();
  if (handle == NULL) return kInvalidValue;
  *handle = NULL;
  if (driver == NULL) return kNotInitialized;
  unsigned version = 0;
  int result = warpline_enter(driver);
  if (result == CUDA_SUCCESS) result = driver->library_find(&version);
  if (result == CUDA_ERROR_NOT_SUPPORTED) {
    WarplineLogLine('W', "cublas",
                    "the server executes no cuBLAS for this session (docs/libraries.md)");
  }
  if (result != CUDA_SUCCESS) return warpline_status(result);
  struct cublasContext* made = calloc(1, sizeof(*made));
  if (made == NULL) return kAllocFailed;
  made->magic = kHandleMagic;
  made->version = version;
  pthread_mutex_init(&made->mu, NULL);
  *handle = made;
  return kSuccess;
}

int warpline_destroy(struct cublasContext* handle) {
  if (warpline_begin(handle) != kSuccess) return kNotInitialized;
  if (handle->result != 0) warpline_driver()->release(handle->result);
  pthread_mutex_destroy(&handle->mu);
  handle->magic = 0;
  free(handle);
  return kSuccess;
}

const char* warpline_status_name(int status) {
  switch (status) {
    case 0:
      return "CUBLAS_STATUS_SUCCESS";
    case 1:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case 3:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case 7:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case 8:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case 11:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case 13:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 14:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case 15:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case 16:
      return "CUBLAS_STATUS_LICENSE_ERROR";
    default:
      return "CUBLAS_STATUS_UNKNOWN";
  }
}

const char* warpline_status_words(int status) {
  switch (status) {
    case 0:
      return "success";
    case 1:
      return "the library was not initialized";
    case 3:
      return "the resource allocation failed";
    case 7:
      return "an unsupported value or parameter was passed to the function";
    case 13:
      return "the program failed to execute";
    case 15:
      return "the function or its arguments are not supported";
    default:
      return warpline_status_name(status);
  }
}
