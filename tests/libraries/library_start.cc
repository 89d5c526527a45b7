// Uses a CUDA runtime library of any version, and starts libraries that lie above it.
//
//   library_start libcudart.so.12 [libcublas.so.12 libcufft.so.11 ...]
//
// They are opened at run time, as a program does that was built for another version than ours.
// Prints a line for each and exits with 0 when all of it worked.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <thread>

extern "C" const unsigned char kKernelImage[];

namespace {

int g_failures = 0;
void* g_runtime = nullptr;

bool Check(const char* what, int result) {
  std::printf("%s: %d\n", what, result);
  if (result != 0) ++g_failures;
  return result == 0;
}

// Returns the function of that name and type; null when the library has none.
template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

void* Open(const char* name) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    ++g_failures;
  }
  return library;
}

// The form in which nvcc's code registers a kernel. The host's function only names the kernel and
// is never called.
struct Wrapper {
  int magic;
  int version;
  const void* data;
  void* unused;
};
// A container states its own size and has to be aligned.
alignas(16) unsigned char g_container[64 << 10];
Wrapper g_wrapper = {0x466243b1, 1, g_container, nullptr};
void HostAdd() {}
int g_host_table[4];

struct Dim3 {
  unsigned x, y, z;
};

void RunKernel(void* runtime) {
  uint64_t bytes;
  std::memcpy(&bytes, kKernelImage + 8, sizeof(bytes));
  bytes += 16;
  if (bytes > sizeof(g_container)) {
    Check("size of the image", 1);
    return;
  }
  std::memcpy(g_container, kKernelImage, bytes);

  using Register = void**(void*);
  using RegisterEnd = void(void**);
  using RegisterFunction =
      void(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
  using RegisterVariable = void(void**, char*, char*, const char*, int, size_t, int, int);
  void** const handle = Find<Register>(runtime, "__cudaRegisterFatBinary")(&g_wrapper);
  const auto* const function = reinterpret_cast<const char*>(&HostAdd);
  char name[] = "Add";
  char variable[] = "table";
  Find<RegisterFunction>(runtime, "__cudaRegisterFunction")(
      handle, function, name, "Add", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  Find<RegisterVariable>(runtime, "__cudaRegisterVar")(
      handle, reinterpret_cast<char*>(g_host_table), variable, "table", 0, sizeof(g_host_table), 1,
      0);
  Find<RegisterEnd>(runtime, "__cudaRegisterFatBinaryEnd")(handle);

  constexpr int kCount = 100;
  int* values = nullptr;
  if (!Check("cudaMalloc", Find<int(void**, size_t)>(runtime, "cudaMalloc")(
                               reinterpret_cast<void**>(&values), kCount * sizeof(int)))) {
    return;
  }
  Check("cudaMemset",
        Find<int(void*, int, size_t)>(runtime, "cudaMemset")(values, 0, kCount * sizeof(int)));
  const int table[4] = {1, 20, 3, 4};
  constexpr int kToDevice = 1, kToHost = 2;
  Check("cudaMemcpyToSymbol",
        Find<int(const void*, const void*, size_t, size_t, int)>(runtime, "cudaMemcpyToSymbol")(
            g_host_table, table, sizeof(table), 0, kToDevice));
  void* stream = nullptr;
  Check("cudaStreamCreate", Find<int(void**)>(runtime, "cudaStreamCreate")(&stream));
  int count = kCount;
  void* arguments[] = {&values, &count};
  Check("cudaLaunchKernel",
        Find<int(const void*, Dim3, Dim3, void**, size_t, void*)>(runtime, "cudaLaunchKernel")(
            function, Dim3{2, 1, 1}, Dim3{64, 1, 1}, arguments, 0, stream));
  Check("cudaStreamSynchronize", Find<int(void*)>(runtime, "cudaStreamSynchronize")(stream));
  int host[kCount] = {};
  Check("cudaMemcpy", Find<int(void*, const void*, size_t, int)>(runtime, "cudaMemcpy")(
                          host, values, sizeof(host), kToHost));
  Check("result", host[kCount - 1] == kCount - 1 + table[1] ? 0 : host[kCount - 1]);
}

// Calls the functions that create a handle in the library; each of them takes the place for it.
void StartLibrary(const char* name) {
  void* const library = Open(name);
  if (library == nullptr) return;
  int started = 0;
  for (const char* create :
       {"cublasCreate_v2", "cublasLtCreate", "cudnnCreate", "cusolverDnCreate", "cusparseCreate"}) {
    // A library also finds the functions of the libraries that it needs; calling each once is
    // enough.
    auto* const function = Find<int(void**)>(library, create);
    if (function == nullptr) continue;
    void* handle = nullptr;
    Check(create, function(&handle));
    ++started;
  }
  constexpr int kComplexToComplex = 0x29;
  if (auto* const plan = Find<int(int*, int, int, int)>(library, "cufftPlan1d"); plan != nullptr) {
    int handle = 0;
    Check("cufftPlan1d", plan(&handle, 1024, kComplexToComplex, 1));
    ++started;
  }
  Check(name, started > 0 ? 0 : 1);
}

// Threads that never called the runtime, such as those of OpenMP, call libraries. This comes last,
// because not every device can run the kernel.
void CallOnNewThread(const char* name) {
  void* const library = Open(name);
  using Gemv = int(void*, int, int, int, const double*, const double*, int, const double*, int,
                   const double*, double*, int);
  auto* const create = Find<int(void**)>(library, "cublasCreate_v2");
  auto* const gemv = Find<Gemv>(library, "cublasDgemv_v2");
  auto* const allocate = Find<int(void**, size_t)>(g_runtime, "cudaMalloc");
  if (create == nullptr || gemv == nullptr) return;
  constexpr int kSize = 16;
  void* handle = nullptr;
  double* data = nullptr;
  Check("cublasCreate_v2", create(&handle));
  Check("cudaMalloc",
        allocate(reinterpret_cast<void**>(&data), size_t{kSize + 2} * kSize * sizeof(double)));
  double* const x = data + ptrdiff_t{kSize} * kSize;
  const double one = 1, zero = 0;
  int result = -1;
  std::thread([&] {
    result = gemv(handle, 0, kSize, kSize, &one, data, kSize, x, 1, &zero, x + kSize, 1);
  }).join();
  Check("cublasDgemv_v2 on a new thread", result);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  void* const runtime = Open(argv[1]);
  if (runtime == nullptr) return 1;
  g_runtime = runtime;
  int version = 0;
  Check("cudaRuntimeGetVersion", Find<int(int*)>(runtime, "cudaRuntimeGetVersion")(&version));
  std::printf("runtime %d\n", version);
  constexpr int kInsufficientDriver = 35;
  int count = 0;
  const int counted = Find<int(int*)>(runtime, "cudaGetDeviceCount")(&count);
  if (counted == kInsufficientDriver) {
    std::printf("library_start: insufficient driver\n");
    return 2;
  }
  if (Check("cudaGetDeviceCount", counted)) {
    RunKernel(runtime);
    for (int i = 2; i < argc; ++i) StartLibrary(argv[i]);
    Check("cudaDeviceSynchronize", Find<int()>(runtime, "cudaDeviceSynchronize")());
    for (int i = 2; i < argc; ++i) CallOnNewThread(argv[i]);
  }
  std::printf("library_start: %s\n", g_failures == 0 ? "ok" : "FAILED");
  return g_failures == 0 ? 0 : 1;
}
