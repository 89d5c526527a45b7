// Compiles one kernel with NVRTC and prints a checksum of the code.
//
//   compile_kernel libnvrtc.so.13
//
// A second process finds in the compile cache what the first one left there.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr char kSource[] = R"(
template <int kCount> __device__ float Sum(const float* x) {
  float sum = 0;
  for (int i = 0; i < kCount; ++i) sum += x[i] * i;
  return sum;
}
extern "C" __global__ void kernel(float* x) { x[threadIdx.x] = Sum<17>(x); }
)";

template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

int main(int argc, char** argv) {
  void* const library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: compile_kernel LIBRARY");
    return 64;
  }
  void* program = nullptr;
  using Create = int(void**, const char*, const char*, int, const char* const*, const char* const*);
  const char* const options[] = {"--gpu-architecture=sm_90"};
  size_t bytes = 0;
  if (Find<Create>(library, "nvrtcCreateProgram")(&program, kSource, "kernel.cu", 0, nullptr,
                                                  nullptr) != 0 ||
      Find<int(void*, int, const char* const*)>(library, "nvrtcCompileProgram")(program, 1,
                                                                                options) != 0 ||
      Find<int(void*, size_t*)>(library, "nvrtcGetCUBINSize")(program, &bytes) != 0 || bytes == 0) {
    std::fprintf(stderr, "compile_kernel: not compiled\n");
    return 1;
  }
  std::vector<char> code(bytes);
  if (Find<int(void*, char*)>(library, "nvrtcGetCUBIN")(program, code.data()) != 0) return 1;
  uint64_t checksum = 14695981039346656037u;  // FNV-1a
  for (const char byte : code) checksum = (checksum ^ static_cast<uint8_t>(byte)) * 1099511628211u;
  std::printf("%zu bytes %016jx\n", bytes, static_cast<uintmax_t>(checksum));
  return 0;
}
