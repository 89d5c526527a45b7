#include "server/device/cuda/libraries/address_copies.h"

#include <algorithm>
#include <array>

#include "absl/memory/memory.h"
#include "common/cuda/cuda_result.h"

namespace warpline::device {
namespace {

// The kernel's parameter.
struct Parameter {
  std::array<AddressCopies::Array, AddressCopies::kMostArrays> arrays;
};
static_assert(sizeof(AddressCopies::Array) == 56);
static_assert(sizeof(Parameter) == 224);

}  // namespace

// Each address is read once.
const char* const AddressCopies::kPtx = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry copy_addresses(.param .align 8 .b8 arrays[224]) {
  .reg .pred %p<4>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<16>;
  mov.u32 %r1, %ctaid.y;
  mul.wide.u32 %rd1, %r1, 56;
  mov.b64 %rd2, arrays;
  add.u64 %rd2, %rd2, %rd1;
  ld.param.u64 %rd3, [%rd2];
  ld.param.u64 %rd4, [%rd2+8];
  ld.param.u64 %rd5, [%rd2+16];
  ld.param.u64 %rd6, [%rd2+24];
  ld.param.u64 %rd7, [%rd2+32];
  ld.param.u64 %rd8, [%rd2+40];
  ld.param.u64 %rd9, [%rd2+48];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.wide.u32 %rd10, %r2, %r3, 0;
  cvt.u64.u32 %rd11, %r4;
  add.u64 %rd10, %rd10, %rd11;
  setp.ge.u64 %p1, %rd10, %rd5;
  @%p1 bra done;
  shl.b64 %rd11, %rd10, 3;
  add.u64 %rd12, %rd3, %rd11;
  add.u64 %rd13, %rd4, %rd11;
  ld.volatile.global.u64 %rd14, [%rd12];
  mov.u32 %r5, 716;
  and.b64 %rd15, %rd14, %rd8;
  setp.ne.u64 %p2, %rd15, 0;
  @%p2 bra other;
  mov.u32 %r5, 700;
  setp.lt.u64 %p2, %rd14, %rd6;
  @%p2 bra other;
  setp.gt.u64 %p2, %rd14, %rd7;
  @%p2 bra other;
  bra copy;
other:
  mov.u64 %rd14, %rd6;
  setp.eq.u64 %p3, %rd9, 0;
  @%p3 bra copy;
  st.volatile.global.u32 [%rd9], %r5;
copy:
  st.global.u64 [%rd13], %rd14;
done:
  ret;
}
)";

absl::StatusOr<std::unique_ptr<AddressCopies>> AddressCopies::Open(const DriverApi* api) {
  auto copies = absl::WrapUnique(new AddressCopies(api));
  CUmodule module;
  CUresult result = api->p_cuModuleLoadDataEx(&module, kPtx, 0, nullptr, nullptr);
  if (result == CUDA_SUCCESS) {
    result = api->p_cuModuleGetFunction(&copies->kernel_, module, "copy_addresses");
  }
  // With lazy loading, its code would be loaded by the first launch.
  if (result == CUDA_SUCCESS && api->p_cuFuncLoad != nullptr) {
    result = api->p_cuFuncLoad(copies->kernel_);
  }
  void* words = nullptr;
  if (result == CUDA_SUCCESS) {
    result = api->p_cuMemHostAlloc(&words, kWords * sizeof(uint32_t),
                                   CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  }
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "copies of addresses");
  copies->words_ = static_cast<uint32_t*>(words);
  MutexLock lock(&copies->mu_);
  for (size_t i = 0; i < kWords; ++i) copies->free_.push_back(copies->words_ + i);
  return copies;
}

AddressCopies::~AddressCopies() {
  if (words_ != nullptr) api_->p_cuMemFreeHost(words_);
}

uint32_t* AddressCopies::TakeWord() {
  MutexLock lock(&mu_);
  if (free_.empty()) return nullptr;
  uint32_t* const word = free_.back();
  free_.pop_back();
  *word = 0;
  return word;
}

void AddressCopies::GiveWord(uint32_t* word) {
  MutexLock lock(&mu_);
  free_.push_back(word);
}

CUresult AddressCopies::Copy(absl::Span<const Array> arrays, CUstream stream) {
  Parameter parameter;
  uint64_t most = 1;
  for (size_t i = 0; i < arrays.size(); ++i) {
    parameter.arrays[i] = arrays[i];
    most = std::max(most, arrays[i].count);
  }
  void* parameters[] = {&parameter};
  const auto blocks = static_cast<unsigned>((most + kThreads - 1) / kThreads);
  return api_->p_cuLaunchKernel(kernel_, blocks, static_cast<unsigned>(arrays.size()), 1, kThreads,
                                1, 1, 0, stream, parameters, nullptr);
}

}  // namespace warpline::device
