// What a session finds in memory of each kind that it was given and has not written. Neighbours
// whose sessions ended just before had their secrets in each.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/attack/tier/attack.h"

namespace warpline::attack {
namespace {

constexpr unsigned kThreads = 128, kBlocks = 256;
constexpr size_t kPiece = 8 << 20;  // Is copied at a time.

// Kernels that write out what they find. Each thread has kWords words in `out`. The array
// stays in local memory for its indices and a store that is never executed.
constexpr unsigned kWords = 64;
constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 16 .b8 unwritten[1048576];
.visible .entry shared(.param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<5>;
  .shared .align 16 .b8 memory[32768];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r3, %r2, 128, %r1;
  mul.wide.u32 %rd2, %r3, 256;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r4, memory;
  mad.lo.u32 %r5, %r1, 256, %r4;
  mov.u32 %r6, 0;
NEXT:
  ld.volatile.shared.u32 %r7, [%r5];
  st.global.u32 [%rd3], %r7;
  add.u32 %r5, %r5, 4;
  add.s64 %rd3, %rd3, 4;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p1, %r6, 64;
  @%p1 bra NEXT;
  ret;
}
.visible .entry local(.param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<6>;
  .local .align 16 .b8 memory[256];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r3, %r2, 128, %r1;
  mul.wide.u32 %rd2, %r3, 256;
  add.s64 %rd3, %rd1, %rd2;
  mov.u64 %rd4, memory;
  setp.eq.u64 %p1, %rd1, 0;
  and.b64 %rd5, %rd1, 252;
  add.s64 %rd5, %rd4, %rd5;
  @%p1 st.local.u32 [%rd5], %r1;
  mov.u32 %r6, 0;
NEXT:
  add.u32 %r8, %r6, %r2;
  and.b32 %r8, %r8, 63;
  mul.wide.u32 %rd5, %r8, 4;
  add.s64 %rd5, %rd4, %rd5;
  ld.local.u32 %r7, [%rd5];
  st.global.u32 [%rd3], %r7;
  add.s64 %rd3, %rd3, 4;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p1, %r6, 64;
  @%p1 bra NEXT;
  ret;
}
)";

// Keeps those words that are secrets, and counts all.
class Search {
 public:
  void Look(const uint32_t* words, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (IsSecret(words[i])) found_.push_back(words[i]);
    }
    looked_at_ += count;
  }
  absl::Status LookAtDevice(CUdeviceptr at, size_t bytes) {
    std::vector<uint32_t> piece(kPiece / sizeof(uint32_t));
    for (size_t done = 0; done < bytes; done += kPiece) {
      const size_t now = std::min(kPiece, bytes - done);
      if (DRIVER(cuMemcpyDtoH_v2)(piece.data(), at + done, now) != CUDA_SUCCESS) {
        return absl::InternalError("it cannot be read");
      }
      Look(piece.data(), now / sizeof(uint32_t));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<Loot> Finish() && {
    if (looked_at_ == 0) return absl::InternalError("nothing was looked at");
    return Loot{std::move(found_), absl::StrCat("looked at ", looked_at_, " words")};
  }

 private:
  std::vector<uint32_t> found_;
  uint64_t looked_at_ = 0;
};

// As much memory as there is, in pieces that become smaller.
absl::StatusOr<Loot> AllMemory(Home*, const TierTarget&) {
  Search search;
  for (size_t bytes = size_t{4} << 30; bytes >= 4096; bytes /= 2) {
    CUdeviceptr at = 0;
    while (DRIVER(cuMemAlloc_v2)(&at, bytes) == CUDA_SUCCESS) {
      if (const absl::Status looked = search.LookAtDevice(at, bytes); !looked.ok()) return looked;
    }
  }
  return std::move(search).Finish();
}

absl::StatusOr<Loot> PoolMemory(Home*, const TierTarget&) {
  Search search;
  for (size_t bytes = size_t{4} << 30; bytes >= kPiece; bytes /= 2) {
    CUdeviceptr at = 0;
    while (DRIVER(cuMemAllocAsync)(&at, bytes, nullptr) == CUDA_SUCCESS) {
      if (const absl::Status looked = search.LookAtDevice(at, bytes); !looked.ok()) return looked;
    }
  }
  return std::move(search).Finish();
}

absl::StatusOr<CUmodule> Load() {
  CUmodule module = nullptr;
  if (const CUresult result = DRIVER(cuModuleLoadData)(&module, kKernels); result != CUDA_SUCCESS) {
    return absl::InternalError(absl::StrCat("no module: ", int{result}));
  }
  return module;
}

absl::StatusOr<Loot> Variables(Home*, const TierTarget&) {
  const auto module = Load();
  if (!module.ok()) return module.status();
  CUdeviceptr at = 0;
  size_t bytes = 0;
  if (DRIVER(cuModuleGetGlobal_v2)(&at, &bytes, *module, "unwritten") != CUDA_SUCCESS) {
    return absl::InternalError("no variable");
  }
  Search search;
  if (const absl::Status looked = search.LookAtDevice(at, bytes); !looked.ok()) return looked;
  return std::move(search).Finish();
}

absl::StatusOr<Loot> OfKernel(Home* home, const char* name) {
  const auto module = Load();
  if (!module.ok()) return module.status();
  constexpr size_t kBytes = size_t{kBlocks} * kThreads * kWords * sizeof(uint32_t);
  CUfunction kernel = nullptr;
  CUdeviceptr out = 0;
  if (DRIVER(cuModuleGetFunction)(&kernel, *module, name) != CUDA_SUCCESS ||
      DRIVER(cuMemAlloc_v2)(&out, kBytes) != CUDA_SUCCESS) {
    return absl::InternalError("no kernel, or no memory for what it finds");
  }
  void* parameters[] = {&out};
  CUresult result = DRIVER(cuLaunchKernel)(kernel, kBlocks, 1, 1, kThreads, 1, 1, 0, nullptr,
                                           parameters, nullptr);
  if (result == CUDA_SUCCESS) result = home->Wait();
  if (result != CUDA_SUCCESS) return absl::InternalError(absl::StrCat("CUDA error ", int{result}));
  Search search;
  if (const absl::Status looked = search.LookAtDevice(out, kBytes); !looked.ok()) return looked;
  return std::move(search).Finish();
}

absl::StatusOr<Loot> SharedMemory(Home* home, const TierTarget&) {
  return OfKernel(home, "shared");
}

absl::StatusOr<Loot> LocalMemory(Home* home, const TierTarget&) { return OfKernel(home, "local"); }

absl::StatusOr<Loot> HostMemory(Home*, const TierTarget&) {
  Search search;
  for (int i = 0; i < 4; ++i) {
    void* at = nullptr;
    if (DRIVER(cuMemHostAlloc)(&at, kPiece, 0) != CUDA_SUCCESS) break;
    search.Look(static_cast<const uint32_t*>(at), kPiece / sizeof(uint32_t));
  }
  return std::move(search).Finish();
}

constexpr TierAttack kAttacks[] = {
    {"residue_in_memory", &AllMemory},         {"residue_in_pools", &PoolMemory},
    {"residue_in_variables", &Variables},      {"residue_in_shared_memory", &SharedMemory},
    {"residue_in_local_memory", &LocalMemory}, {"residue_in_host_memory", &HostMemory},
};

}  // namespace

absl::Span<const TierAttack> ResidueAttacks() { return kAttacks; }

}  // namespace warpline::attack
