// The status numbers of cuBLAS and cuBLASLt, and how their functions are found.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_CUBLAS_STATUS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_CUBLAS_STATUS_H_

#include <dlfcn.h>

namespace warpline::device {

// Numbers of cublasStatus_t.
enum CublasStatus : int {
  kSuccess = 0,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kArchMismatch = 8,
  kExecutionFailed = 13,
  kNotSupported = 15,
};

// Finds a function in the library behind the dlopen() handle. Returns false for one that it lacks.
template <typename F>
bool FindFunction(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_CUBLAS_STATUS_H_
