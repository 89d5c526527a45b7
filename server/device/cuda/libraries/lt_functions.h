// NVIDIA's functions of cuBLASLt, and its structures by their public sizes.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_FUNCTIONS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_FUNCTIONS_H_

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace warpline::device::lt {

template <size_t kWords>
struct Opaque {
  std::array<uint64_t, kWords> words{};
};
using Description = Opaque<32>;
using Layout = Opaque<8>;
using Preference = Opaque<8>;
using Algorithm = Opaque<8>;

// cublasLtMatmulHeuristicResult_t
struct Result {
  Algorithm algorithm;
  size_t workspace = 0;
  int state = 0;
  float waves = 0;
  std::array<int, 4> reserved{};
};

// They have NVIDIA's names behind "cublasLt". All of them return a CublasStatus.
struct Functions {
  int (*init_description)(Description*, size_t, int compute, int scale) = nullptr;
  int (*set_description)(Description*, int attribute, const void*, size_t) = nullptr;
  int (*init_layout)(Layout*, size_t, int type, uint64_t rows, uint64_t columns,
                     int64_t leading) = nullptr;
  int (*set_layout)(Layout*, int attribute, const void*, size_t) = nullptr;
  int (*init_preference)(Preference*, size_t) = nullptr;
  int (*set_preference)(Preference*, int attribute, const void*, size_t) = nullptr;
  int (*find)(void* handle, Description*, Layout* a, Layout* b, Layout* c, Layout* d, Preference*,
              int requested, Result*, int* found) = nullptr;
  int (*get_ids)(void* handle, int compute, int scale, int a, int b, int c, int d, int requested,
                 int* ids, int* found) = nullptr;
  int (*init_algorithm)(void* handle, int compute, int scale, int a, int b, int c, int d, int id,
                        Algorithm*) = nullptr;
  int (*get_capability)(const Algorithm*, int attribute, void*, size_t, size_t* written) = nullptr;
  int (*get_config)(const Algorithm*, int attribute, void*, size_t, size_t* written) = nullptr;
  int (*set_config)(Algorithm*, int attribute, const void*, size_t) = nullptr;
  int (*check)(void* handle, Description*, Layout* a, Layout* b, Layout* c, Layout* d,
               const Algorithm*, Result*) = nullptr;
  int (*multiply)(void* handle, Description*, const void* alpha, const void* a, Layout*,
                  const void* b, Layout*, const void* beta, const void* c, Layout*, void* d,
                  Layout*, const Algorithm*, void* workspace, size_t workspace_bytes,
                  CUstream) = nullptr;
};

// Finds them in the library behind the dlopen() handle. Called once, before any thread calls
// Lt(). Returns false for a library that lacks one.
bool LoadLt(void* library);

// Returns nullptr when they were not found.
const Functions* Lt();

}  // namespace warpline::device::lt

#endif  // WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LT_FUNCTIONS_H_
