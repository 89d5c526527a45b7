// The driver API by hand: opens libcuda.so.1 itself, loads PTX from text, and launches in both of
// cuLaunchKernel's ways. Nothing here needs the driver at link time.
#include <cuda.h>
#include <dlfcn.h>

#include <vector>

#include "check.h"

namespace {

// out[i] = a * in[i] + b, for i < n; and a kernel that adds up `step`, a module variable.
const char kPtx[] = R"(
.version 6.4
.target sm_75
.address_size 64

.visible .global .align 4 .u32 step = 7;

.visible .entry affine(.param .u64 out, .param .u64 in, .param .u32 a, .param .u32 b,
                       .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<10>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [in];
  ld.param.u32 %r1, [a];
  ld.param.u32 %r2, [b];
  ld.param.u32 %r3, [n];
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %ntid.x;
  mov.u32 %r6, %tid.x;
  mad.lo.s32 %r7, %r4, %r5, %r6;
  setp.ge.u32 %p1, %r7, %r3;
  @%p1 bra done;
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  mul.wide.u32 %rd5, %r7, 4;
  add.s64 %rd6, %rd4, %rd5;
  ld.global.u32 %r8, [%rd6];
  mad.lo.u32 %r9, %r8, %r1, %r2;
  add.s64 %rd7, %rd3, %rd5;
  st.global.u32 [%rd7], %r9;
done:
  ret;
}

.visible .entry add_step(.param .u64 total)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [total];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [step];
  atom.global.add.u32 %r2, [%rd2], %r1;
  ret;
}
)";

// The functions used, by their names in libcuda.so.1.
#define DRIVER_FUNCTIONS(X)                                    \
  X(cuInit, "cuInit")                                          \
  X(cuDriverGetVersion, "cuDriverGetVersion")                  \
  X(cuGetErrorName, "cuGetErrorName")                          \
  X(cuDeviceGetCount, "cuDeviceGetCount")                      \
  X(cuDeviceGet, "cuDeviceGet")                                \
  X(cuDeviceGetName, "cuDeviceGetName")                        \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2")                   \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")      \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2") \
  X(cuCtxSetCurrent, "cuCtxSetCurrent")                        \
  X(cuCtxGetCurrent, "cuCtxGetCurrent")                        \
  X(cuCtxSynchronize, "cuCtxSynchronize")                      \
  X(cuModuleLoadData, "cuModuleLoadData")                      \
  X(cuModuleUnload, "cuModuleUnload")                          \
  X(cuModuleGetFunction, "cuModuleGetFunction")                \
  X(cuModuleGetGlobal, "cuModuleGetGlobal_v2")                 \
  X(cuMemGetInfo, "cuMemGetInfo_v2")                           \
  X(cuMemAlloc, "cuMemAlloc_v2")                               \
  X(cuMemFree, "cuMemFree_v2")                                 \
  X(cuMemcpyHtoD, "cuMemcpyHtoD_v2")                           \
  X(cuMemcpyDtoH, "cuMemcpyDtoH_v2")                           \
  X(cuMemcpyDtoD, "cuMemcpyDtoD_v2")                           \
  X(cuMemsetD32, "cuMemsetD32_v2")                             \
  X(cuMemsetD16, "cuMemsetD16_v2")                             \
  X(cuStreamCreate, "cuStreamCreate")                          \
  X(cuStreamSynchronize, "cuStreamSynchronize")                \
  X(cuStreamDestroy, "cuStreamDestroy_v2")                     \
  X(cuLaunchKernel, "cuLaunchKernel")

struct Driver {
#define DRIVER_MEMBER(function, symbol) decltype(&::function) function = nullptr;
  DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

Driver g_driver;

void OpenDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) examples::Fail("%s", dlerror());
#define DRIVER_LOAD(function, symbol)                                                        \
  g_driver.function = reinterpret_cast<decltype(g_driver.function)>(dlsym(library, symbol)); \
  if (g_driver.function == nullptr) examples::Fail("libcuda.so.1 has no %s", symbol);
  DRIVER_FUNCTIONS(DRIVER_LOAD)
#undef DRIVER_LOAD
}

const char* Name(CUresult code) {
  const char* name = nullptr;
  if (g_driver.cuGetErrorName(code, &name) != CUDA_SUCCESS || name == nullptr) return "unknown";
  return name;
}

#define DRIVER_CHECK(call)                                                                \
  do {                                                                                    \
    const CUresult driver_result = g_driver.call;                                         \
    if (driver_result != CUDA_SUCCESS) {                                                  \
      examples::Fail("%s:%d: %s: %s (%d)", examples::BaseName(__FILE__), __LINE__, #call, \
                     Name(driver_result), int(driver_result));                            \
    }                                                                                     \
  } while (false)

void ExpectCode(CUresult got, CUresult expected, const char* call) {
  examples::Expect(got == expected, "%s gives %s (%d), expected %s (%d)", call, Name(got), int(got),
                   Name(expected), int(expected));
}
#define EXPECT_CODE(call, expected) ExpectCode(g_driver.call, (expected), #call)

void CheckLaunches(CUmodule module, unsigned n) {
  CUfunction affine, add_step;
  DRIVER_CHECK(cuModuleGetFunction(&affine, module, "affine"));
  DRIVER_CHECK(cuModuleGetFunction(&add_step, module, "add_step"));
  std::vector<unsigned> host(n), got(n);
  for (unsigned i = 0; i < n; ++i) host[i] = i * 2654435761u;
  CUdeviceptr in, out, total;
  DRIVER_CHECK(cuMemAlloc(&in, n * 4));
  DRIVER_CHECK(cuMemAlloc(&out, n * 4));
  DRIVER_CHECK(cuMemAlloc(&total, 4));
  DRIVER_CHECK(cuMemcpyHtoD(in, host.data(), n * 4));

  // Launches with an array of pointers to the parameters.
  unsigned a = 3, b = 11;
  void* parameters[] = {&out, &in, &a, &b, &n};
  const unsigned blocks = (n + 127) / 128;
  CUstream stream;
  DRIVER_CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  DRIVER_CHECK(cuLaunchKernel(affine, blocks, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr));
  DRIVER_CHECK(cuStreamSynchronize(stream));
  DRIVER_CHECK(cuMemcpyDtoH(got.data(), out, n * 4));
  unsigned wrong = 0;
  for (unsigned i = 0; i < n; ++i) wrong += got[i] != a * host[i] + b;
  examples::Expect(wrong == 0, "%u words are wrong after a launch with kernelParams", wrong);

  // Launches with one packed buffer.
  struct {
    CUdeviceptr out, in;
    unsigned a, b, n;
  } packed = {out, in, 5, 1000, n};
  size_t packed_size = 2 * sizeof(CUdeviceptr) + 3 * sizeof(unsigned);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &packed_size, CU_LAUNCH_PARAM_END};
  DRIVER_CHECK(cuLaunchKernel(affine, blocks, 1, 1, 128, 1, 1, 0, stream, nullptr, extra));
  DRIVER_CHECK(cuStreamSynchronize(stream));
  DRIVER_CHECK(cuMemcpyDtoH(got.data(), out, n * 4));
  wrong = 0;
  for (unsigned i = 0; i < n; ++i) wrong += got[i] != 5 * host[i] + 1000;
  examples::Expect(wrong == 0, "%u words are wrong after a launch with extra", wrong);

  // Reads the first value of the module's variable, then sets a new one.
  CUdeviceptr step;
  size_t step_size = 0;
  DRIVER_CHECK(cuModuleGetGlobal(&step, &step_size, module, "step"));
  examples::Expect(step_size == 4, "size of the module's variable: %zu", step_size);
  DRIVER_CHECK(cuMemsetD32(total, 0, 1));
  void* total_parameter[] = {&total};
  DRIVER_CHECK(cuLaunchKernel(add_step, 2, 1, 1, 32, 1, 1, 0, nullptr, total_parameter, nullptr));
  DRIVER_CHECK(cuMemsetD32(step, 100, 1));
  DRIVER_CHECK(cuLaunchKernel(add_step, 1, 1, 1, 10, 1, 1, 0, nullptr, total_parameter, nullptr));
  DRIVER_CHECK(cuCtxSynchronize());
  unsigned sum = 0;
  DRIVER_CHECK(cuMemcpyDtoH(&sum, total, 4));
  examples::Expect(sum == 64 * 7 + 10 * 100, "sum of the steps: %u, expected %u", sum,
                   64 * 7 + 10 * 100);
  DRIVER_CHECK(cuStreamDestroy(stream));
  DRIVER_CHECK(cuMemFree(in));
  DRIVER_CHECK(cuMemFree(out));
  DRIVER_CHECK(cuMemFree(total));
}

void CheckMemory(CUdevice device) {
  size_t total = 0, free_bytes = 0, all = 0;
  DRIVER_CHECK(cuDeviceTotalMem(&total, device));
  DRIVER_CHECK(cuMemGetInfo(&free_bytes, &all));
  examples::Expect(total > 0 && free_bytes <= all && all <= total,
                   "memory: %zu free of %zu, device total %zu", free_bytes, all, total);
  CUdeviceptr first, second;
  DRIVER_CHECK(cuMemAlloc(&first, 4096));
  DRIVER_CHECK(cuMemAlloc(&second, 4096));
  DRIVER_CHECK(cuMemsetD32(first, 0xdeadbeef, 1024));
  DRIVER_CHECK(cuMemsetD16(first + 16, 0x1234, 4));
  DRIVER_CHECK(cuMemsetD32(second, 0, 1024));
  DRIVER_CHECK(cuMemcpyDtoD(second + 400, first, 800));
  std::vector<unsigned> words(1024);
  DRIVER_CHECK(cuMemcpyDtoH(words.data(), second, 4096));
  unsigned wrong = 0;
  for (unsigned i = 0; i < 1024; ++i) {
    const bool copied = i >= 100 && i < 300, halves = i == 104 || i == 105;
    wrong += words[i] != (!copied ? 0 : halves ? 0x12341234 : 0xdeadbeef);
  }
  examples::Expect(wrong == 0, "%u words are wrong after memset and a device copy", wrong);
  EXPECT_CODE(cuMemAlloc(&second, size_t{1} << 46), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CODE(cuMemAlloc(&second, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CODE(cuMemsetD32(first + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CODE(cuMemcpyDtoH(words.data(), 0x10, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CODE(cuMemFree(0x10), CUDA_ERROR_INVALID_VALUE);
  DRIVER_CHECK(cuMemFree(first));
}

void CheckRefusals(CUmodule module) {
  CUfunction function = nullptr;
  CUmodule other = nullptr;
  CUdeviceptr address = 0;
  size_t size = 0;
  CUdevice device;
  EXPECT_CODE(cuModuleGetFunction(&function, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
  EXPECT_CODE(cuModuleGetGlobal(&address, &size, module, "no_such_variable"), CUDA_ERROR_NOT_FOUND);
  EXPECT_CODE(cuModuleLoadData(&other, ".version 6.4\n.target sm_75\n.address_size 64\nnonsense\n"),
              CUDA_ERROR_INVALID_PTX);
  EXPECT_CODE(cuDeviceGet(&device, 9999), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_CODE(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  DRIVER_CHECK(cuModuleGetFunction(&function, module, "add_step"));
  CUdeviceptr total = 0;
  void* parameters[] = {&total};
  EXPECT_CODE(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, nullptr, parameters, nullptr),
              CUDA_ERROR_INVALID_VALUE);
  EXPECT_CODE(cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr),
              CUDA_ERROR_INVALID_VALUE);
  EXPECT_CODE(cuLaunchKernel(nullptr, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr),
              CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CODE(cuModuleUnload(nullptr), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "driver_api", "PTX text, launches, errors by libcuda.so.1");
  const unsigned n = static_cast<unsigned>(options.Number("n", 10000, "words"));
  options.Finish();
  OpenDriver();

  int version = 0, count = 0;
  EXPECT_CODE(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  DRIVER_CHECK(cuInit(0));
  DRIVER_CHECK(cuDriverGetVersion(&version));
  DRIVER_CHECK(cuDeviceGetCount(&count));
  CUdevice device;
  CUcontext context, current = nullptr;
  CUmodule module;
  char name[256];
  DRIVER_CHECK(cuDeviceGet(&device, 0));
  DRIVER_CHECK(cuDeviceGetName(name, sizeof(name), device));
  EXPECT_CODE(cuModuleLoadData(&module, kPtx), CUDA_ERROR_INVALID_CONTEXT);
  DRIVER_CHECK(cuDevicePrimaryCtxRetain(&context, device));
  DRIVER_CHECK(cuCtxSetCurrent(context));
  DRIVER_CHECK(cuCtxGetCurrent(&current));
  examples::Expect(current == context, "the current context is not the one set");
  DRIVER_CHECK(cuModuleLoadData(&module, kPtx));

  CheckLaunches(module, n);
  CheckMemory(device);
  CheckRefusals(module);
  DRIVER_CHECK(cuModuleUnload(module));
  DRIVER_CHECK(cuDevicePrimaryCtxRelease(device));
  return examples::Report("%u words, driver %d, %d devices", n, version, count);
}
