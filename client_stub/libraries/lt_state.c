/* Handles of cuBLASLt, its version, and what programs set that changes nothing here. */
#define _GNU_SOURCE
#include <stddef.h>

#include "client_stub/libraries/cublas_handle.h"

int cublasLtCreate(struct cublasContext** handle);
int cublasLtCreate(struct cublasContext** handle) { return warpline_create(handle); }

int cublasLtDestroy(struct cublasContext* handle);
int cublasLtDestroy(struct cublasContext* handle) { return warpline_destroy(handle); }

const char* cublasLtGetStatusName(int status);
const char* cublasLtGetStatusName(int status) { return warpline_status_name(status); }

const char* cublasLtGetStatusString(int status);
const char* cublasLtGetStatusString(int status) { return warpline_status_words(status); }

/* The server's version; 0 without a server that executes calls. */
size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) {
  const struct warpline_driver* driver = warpline_driver();
  unsigned version = 0;
  if (driver == NULL || warpline_enter(driver) != CUDA_SUCCESS) return 0;
  return driver->library_find(&version) == CUDA_SUCCESS ? version : 0;
}

size_t cublasLtGetCudartVersion(void);
size_t cublasLtGetCudartVersion(void) { return 13000; }

/* The version of the interface that this library has. */
int cublasLtGetProperty(int type, int* value);
int cublasLtGetProperty(int type, int* value) {
  if (value == NULL || type < 0 || type > 2) return kInvalidValue;
  *value = type == 0 ? 13 : 0; /* Major, minor, patch level. */
  return kSuccess;
}

/* The server keeps what its library has found, whatever this says. */
static size_t g_capacity = 8192;
int cublasLtHeuristicsCacheGetCapacity(size_t* capacity);
int cublasLtHeuristicsCacheGetCapacity(size_t* capacity) {
  if (capacity == NULL) return kInvalidValue;
  *capacity = g_capacity;
  return kSuccess;
}
int cublasLtHeuristicsCacheSetCapacity(size_t capacity);
int cublasLtHeuristicsCacheSetCapacity(size_t capacity) {
  g_capacity = capacity;
  return kSuccess;
}

/* Nothing is logged. */
int cublasLtLoggerSetCallback(void* callback);
int cublasLtLoggerSetCallback(void* callback) {
  (void)callback;
  return kSuccess;
}
int cublasLtLoggerSetFile(void* file);
int cublasLtLoggerSetFile(void* file) {
  (void)file;
  return kSuccess;
}
int cublasLtLoggerOpenFile(const char* path);
int cublasLtLoggerOpenFile(const char* path) {
  (void)path;
  return kSuccess;
}
int cublasLtLoggerSetLevel(int level);
int cublasLtLoggerSetLevel(int level) {
  (void)level;
  return kSuccess;
}
int cublasLtLoggerSetMask(int mask);
int cublasLtLoggerSetMask(int mask) {
  (void)mask;
  return kSuccess;
}
int cublasLtLoggerForceDisable(void);
int cublasLtLoggerForceDisable(void) { return kSuccess; }
