// grower: a vector that doubles, by cuMemAlloc with a copy, or by mapping more memory behind it.
//
// Every size is checked: what was written before is there, and what is new can be written.
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../../examples/check.h"

namespace {

using examples::Fail;

constexpr size_t kMiB = size_t{1} << 20;

template <typename F>
F Entry(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how;
  CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how));
  if (found == nullptr) Fail("the driver has no %s", name);
  return reinterpret_cast<F>(found);
}

#define DRIVER(name) static const auto name##_ = Entry<decltype(&name)>(#name)

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Check(CUresult result, const char* what, size_t bytes) {
  if (result == CUDA_SUCCESS) return;
  size_t free = 0;
  size_t total = 0;
  cudaMemGetInfo(&free, &total);
  std::printf("refused: %s of %zu bytes: error %d, free %zu of %zu\n", what, bytes, int(result),
              free, total);
  std::fflush(stdout);
  std::abort();
}

__global__ void Fill(uint64_t* words, size_t from, size_t count, size_t step) {
  const size_t i = (blockIdx.x * size_t{blockDim.x} + threadIdx.x) * step;
  if (i < count) words[from + i] = from + i;
}

__global__ void Verify(const uint64_t* words, size_t count, size_t step, unsigned* wrong) {
  const size_t i = (blockIdx.x * size_t{blockDim.x} + threadIdx.x) * step;
  if (i < count && words[i] != i) atomicAdd(wrong, 1u);
}

// One word in each 64 KiB.
constexpr size_t kStep = 8192;

unsigned Blocks(size_t words) { return static_cast<unsigned>((words / kStep + 255) / 256); }

void Use(uint64_t* words, size_t old_bytes, size_t bytes) {
  static unsigned* wrong = nullptr;
  if (wrong == nullptr) CUDA_CHECK(cudaMalloc(&wrong, sizeof(*wrong)));
  CUDA_CHECK(cudaMemset(wrong, 0, sizeof(*wrong)));
  const size_t from = old_bytes / 8;
  const size_t count = (bytes - old_bytes) / 8;
  Fill<<<Blocks(count) + 1, 256>>>(words, from, count, kStep);
  Verify<<<Blocks(bytes / 8) + 1, 256>>>(words, bytes / 8, kStep, wrong);
  CUDA_CHECK(cudaDeviceSynchronize());
  unsigned found = 0;
  CUDA_CHECK(cudaMemcpy(&found, wrong, sizeof(found), cudaMemcpyDefault));
  if (found != 0) Fail("%u words are wrong at %zu bytes", found, bytes);
}

class Vector {
 public:
  virtual ~Vector() = default;
  virtual void Grow(size_t bytes) = 0;
  uint64_t* words() const { return words_; }

 protected:
  uint64_t* words_ = nullptr;
  size_t bytes_ = 0;
};

class Allocated : public Vector {
 public:
  ~Allocated() override { cudaFree(words_); }
  void Grow(size_t bytes) override {
    DRIVER(cuMemAlloc);
    CUdeviceptr next = 0;
    Check(cuMemAlloc_(&next, bytes), "cuMemAlloc", bytes);
    auto* const words = reinterpret_cast<uint64_t*>(next);
    if (bytes_ > 0) CUDA_CHECK(cudaMemcpy(words, words_, bytes_, cudaMemcpyDefault));
    CUDA_CHECK(cudaFree(words_));
    words_ = words;
    bytes_ = bytes;
  }
};

class Mapped : public Vector {
 public:
  explicit Mapped(size_t most) : most_(most) {
    DRIVER(cuMemAddressReserve);
    Check(cuMemAddressReserve_(&base_, most, 0, 0, 0), "cuMemAddressReserve", most);
    words_ = reinterpret_cast<uint64_t*>(base_);
  }
  ~Mapped() override {
    DRIVER(cuMemUnmap);
    DRIVER(cuMemRelease);
    DRIVER(cuMemAddressFree);
    if (bytes_ > 0) cuMemUnmap_(base_, bytes_);
    for (const CUmemGenericAllocationHandle handle : handles_) cuMemRelease_(handle);
    cuMemAddressFree_(base_, most_);
  }
  void Grow(size_t bytes) override {
    DRIVER(cuMemCreate);
    DRIVER(cuMemMap);
    DRIVER(cuMemSetAccess);
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    const size_t more = bytes - bytes_;
    CUmemGenericAllocationHandle handle;
    Check(cuMemCreate_(&handle, more, &properties, 0), "cuMemCreate", more);
    handles_.push_back(handle);
    Check(cuMemMap_(base_ + bytes_, more, 0, handle, 0), "cuMemMap", more);
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    Check(cuMemSetAccess_(base_ + bytes_, more, &access, 1), "cuMemSetAccess", more);
    bytes_ = bytes;
  }

 private:
  const size_t most_;
  CUdeviceptr base_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;
};

void Run(Vector* vector, const char* kind, size_t to_bytes) {
  size_t before = 0;
  for (size_t bytes = 2 * kMiB; bytes <= to_bytes; bytes *= 2) {
    const double start = Now();
    vector->Grow(bytes);
    const double grown = Now();
    Use(vector->words(), before, bytes);
    before = bytes;
    size_t free = 0;
    size_t total = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    std::printf("%s %zu MiB in %.1f ms, free %zu MiB\n", kind, bytes / kMiB, (grown - start) * 1e3,
                free / kMiB);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "grower", "a vector that doubles");
  const size_t to = static_cast<size_t>(options.Number("to_mib", 1024, "the last size")) * kMiB;
  const std::string kind = options.Text("kind", "both", "vmm, alloc, or both");
  const auto rounds = options.Number("rounds", 1, "how often");
  options.Finish();
  CUDA_CHECK(cudaFree(nullptr));
  for (long long i = 0; i < rounds; ++i) {
    if (kind != "alloc") {
      Mapped vector(to);
      Run(&vector, "vmm", to);
    }
    if (kind != "vmm") {
      Allocated vector;
      Run(&vector, "alloc", to);
    }
  }
  return examples::Report("%s to %zu MiB", kind.c_str(), to / kMiB);
}
