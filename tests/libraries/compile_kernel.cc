// Compiles one kernel to machine code with NVRTC, runs it, and prints a checksum of the code.
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

constexpr unsigned kThreads = 32;
constexpr int kCount = 17;

template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// Calls a function of the driver that takes these arguments.
template <typename... Arguments>
bool Call(void* driver, const char* name, Arguments... arguments) {
  auto* const function = Find<int(Arguments...)>(driver, name);
  const int result = function == nullptr ? -1 : function(arguments...);
  if (result != 0) std::fprintf(stderr, "compile_kernel: %s gives %d\n", name, result);
  return result == 0;
}

bool Run(const void* code) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void *context = nullptr, *module = nullptr, *kernel = nullptr, *no_stream = nullptr;
  uint64_t memory = 0;
  float values[kThreads + kCount];
  for (float& value : values) value = 1;
  if (driver == nullptr || !Call(driver, "cuInit", 0u) ||
      !Call(driver, "cuDevicePrimaryCtxRetain", &context, 0) ||
      !Call(driver, "cuCtxSetCurrent", context) ||
      !Call(driver, "cuModuleLoadData", &module, code) ||
      !Call(driver, "cuModuleGetFunction", &kernel, module, "kernel") ||
      !Call(driver, "cuMemAlloc_v2", &memory, sizeof(values)) ||
      !Call(driver, "cuMemcpyHtoD_v2", memory, static_cast<const void*>(values), sizeof(values))) {
    return false;
  }
  void* parameters[] = {&memory};
  void** no_extra = nullptr;
  if (!Call(driver, "cuLaunchKernel", kernel, 1u, 1u, 1u, 1u, 1u, 1u, 0u, no_stream,
            static_cast<void**>(parameters), no_extra) ||
      !Call(driver, "cuMemcpyDtoH_v2", static_cast<void*>(values), memory, sizeof(values))) {
    return false;
  }
  const float sum = (kCount - 1) * kCount / 2;
  if (values[0] == sum && values[1] == 1) return true;
  std::fprintf(stderr, "compile_kernel: %g and %g\n", values[0], values[1]);
  return false;
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
  if (!Run(code.data())) return 1;
  std::printf("%zu bytes %016jx\n", bytes, static_cast<uintmax_t>(checksum));
  return 0;
}
