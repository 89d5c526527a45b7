// cuda.h with every ABI version of every call declared, so that a definition here whose parameters
// differ from the header's does not compile.
#ifndef WARPLINE_CLIENT_STUB_CORE_BASE_CUDA_API_H_
#define WARPLINE_CLIENT_STUB_CORE_BASE_CUDA_API_H_

#define __CUDA_API_VERSION_INTERNAL

#include "common/cuda/cuda_result.h"
#include "cuda.h"

// cudaProfiler.h declares these; toolkits made of wheels lack it.
extern "C" CUresult CUDAAPI cuProfilerStart();
extern "C" CUresult CUDAAPI cuProfilerStop();

namespace warpline::stub {

inline CUresult ToCu(CudaResult result) { return static_cast<CUresult>(result); }

// Converts a handle to its number; HandleOf() converts it back.
template <typename Handle>
uint64_t NumberOf(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}
template <typename Handle>
Handle HandleOf(uint64_t number) {
  return reinterpret_cast<Handle>(number);
}

}  // namespace warpline::stub

// Returns the value of `expression` from the entry point unless it is CUDA_SUCCESS.
#define WARPLINE_TRY(expression)                                                                 \
  do {                                                                                           \
    if (const CUresult try_result = (expression); try_result != CUDA_SUCCESS) return try_result; \
  } while (false)

#endif  // WARPLINE_CLIENT_STUB_CORE_BASE_CUDA_API_H_
