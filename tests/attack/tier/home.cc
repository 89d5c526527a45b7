#include "tests/attack/tier/home.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace warpline::attack {
namespace {

constexpr unsigned kThreads = 64;

constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to, .param .u32 words)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  ld.param.u32 %r1, [words];
  mov.u32 %r2, %tid.x;
NEXT:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra OUT;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.volatile.global.u32 %r3, [%rd4];
  st.volatile.global.u32 [%rd5], %r3;
  add.u32 %r2, %r2, 64;
  bra NEXT;
OUT:
  ret;
}
.visible .entry fill(.param .u64 to, .param .u32 words, .param .u32 value)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [words];
  ld.param.u32 %r3, [value];
  mov.u32 %r2, %tid.x;
NEXT:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra OUT;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r3;
  add.u32 %r2, %r2, 64;
  bra NEXT;
OUT:
  ret;
}
.visible .entry follow(.param .u64 pointers, .param .u64 to, .param .u32 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [pointers];
  ld.param.u64 %rd2, [to];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %tid.x;
NEXT:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra OUT;
  mul.wide.u32 %rd3, %r2, 8;
  add.s64 %rd4, %rd1, %rd3;
  ld.global.u64 %rd5, [%rd4];
  ld.global.u32 %r3, [%rd5];
  mul.wide.u32 %rd6, %r2, 4;
  add.s64 %rd7, %rd2, %rd6;
  st.global.u32 [%rd7], %r3;
  add.u32 %r2, %r2, 64;
  bra NEXT;
OUT:
  ret;
}
.visible .entry trample(.param .u64 pointers, .param .u32 count, .param .u32 value)
{
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [pointers];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r3, [value];
  mov.u32 %r2, %tid.x;
NEXT:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra OUT;
  mul.wide.u32 %rd2, %r2, 8;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u64 %rd4, [%rd3];
  st.global.u32 [%rd4], %r3;
  atom.global.add.u32 %r4, [%rd4], 1;
  add.u32 %r2, %r2, 64;
  bra NEXT;
OUT:
  ret;
}
)";

absl::Status Failed(const char* what, CUresult result) {
  return absl::InternalError(absl::StrCat(what, ": CUDA error ", static_cast<int>(result)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Home>> Home::Open() {
  if (surface::TakeContext() == nullptr) return absl::UnavailableError("no session");
  std::unique_ptr<Home> home(new Home);
  if (const CUresult result = DRIVER(cuModuleLoadData)(&home->module_, kKernels);
      result != CUDA_SUCCESS) {
    return Failed("its own kernels", result);
  }
  CUresult result = DRIVER(cuMemAlloc_v2)(&home->memory_, kBytes);
  if (result == CUDA_SUCCESS) result = DRIVER(cuMemsetD32_v2)(home->memory_, 0, kWords);
  if (result == CUDA_SUCCESS) result = home->Wait();
  if (result != CUDA_SUCCESS) return Failed("its own memory", result);
  return home;
}

CUfunction Home::Kernel(const char* name) const {
  CUfunction kernel = nullptr;
  DRIVER(cuModuleGetFunction)(&kernel, module_, name);
  return kernel;
}

CUresult Home::Launch(const char* kernel, std::initializer_list<void*> parameters,
                      CUstream stream) const {
  std::vector<void*> list = parameters;
  return DRIVER(cuLaunchKernel)(Kernel(kernel), 1, 1, 1, kThreads, 1, 1, 0, stream, list.data(),
                                nullptr);
}

CUresult Home::Wait(absl::Duration patience) const {
  CUevent event = nullptr;
  CUresult result = DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) result = DRIVER(cuEventRecord)(event, nullptr);
  if (result != CUDA_SUCCESS) return result;
  const absl::Time deadline = absl::Now() + patience;
  while ((result = DRIVER(cuEventQuery)(event)) == CUDA_ERROR_NOT_READY) {
    if (absl::Now() > deadline) return CUDA_ERROR_TIMEOUT;
    absl::SleepFor(absl::Microseconds(200));
  }
  DRIVER(cuEventDestroy_v2)(event);
  return result;
}

CUresult Home::Write(const std::vector<uint32_t>& words) const {
  return DRIVER(cuMemcpyHtoD_v2)(memory_, words.data(), words.size() * sizeof(uint32_t));
}

std::vector<uint32_t> Home::ReadMemory() const {
  std::vector<uint32_t> words(kWords);
  if (DRIVER(cuMemcpyDtoH_v2)(words.data(), memory_, kBytes) != CUDA_SUCCESS) return {};
  return words;
}

}  // namespace warpline::attack
