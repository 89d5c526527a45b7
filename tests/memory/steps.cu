// steps: a lone program that allocates and frees at random, in every way that there is. After each
// step an allocation of what cudaMemGetInfo calls free, less --slack_mib, must succeed in time.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "../../examples/check.h"

namespace {

using examples::Fail;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kGranularity = 2 * kMiB;

template <typename F>
F Entry(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how;
  CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how));
  if (found == nullptr) Fail("the driver has no %s", name);
  return reinterpret_cast<F>(found);
}

#define DRIVER_CALL(name, ...)                                                         \
  do {                                                                                 \
    static const auto entry = Entry<decltype(&name)>(#name);                           \
    const CUresult result = entry(__VA_ARGS__);                                        \
    if (result != CUDA_SUCCESS) Fail("%s: error %d", #name, static_cast<int>(result)); \
  } while (false)

__global__ void Touch(unsigned char* bytes, size_t count) {
  bytes[0] = 1;
  bytes[count - 1] = 2;
}

struct Mapping {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
};

struct Allocation {
  unsigned char* bytes = nullptr;
  size_t count = 0;
};

class Steps {
 public:
  Steps(unsigned seed, double promise_s, size_t slack)
      : random_(seed), promise_s_(promise_s), slack_(slack) {
    size_t free = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total_));
    for (cudaStream_t& stream : streams_) CUDA_CHECK(cudaStreamCreate(&stream));
  }

  void Step() {
    switch (Pick(10)) {
      case 0:
      case 1:
        name_ = "cudaMalloc";
        return Allocate();
      case 2:
      case 3:
        name_ = "cudaFree";
        return Free(&allocations_, [](unsigned char* bytes) { CUDA_CHECK(cudaFree(bytes)); });
      case 4:
        name_ = "cudaMallocAsync";
        return AllocateAsync();
      case 5:
        name_ = "cudaFreeAsync";
        return Free(&async_, [this](unsigned char* bytes) {
          CUDA_CHECK(cudaFreeAsync(bytes, streams_[Pick(kStreams)]));
        });
      case 6:
        name_ = "cuMemMap";
        return Map();
      case 7:
        name_ = "cuMemUnmap";
        return Unmap();
      case 8:
        name_ = "cudaMallocHost";
        return AllocateHost();
      default:
        name_ = "cudaFreeHost";
        return Free(&host_, [](unsigned char* bytes) { CUDA_CHECK(cudaFreeHost(bytes)); });
    }
  }

  // Allocates what is free.
  void Probe(int step) {
    size_t free = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total_));
    if (free <= slack_) return;
    const size_t bytes = (free - slack_) / kGranularity * kGranularity;
    if (bytes == 0) return;
    const auto start = std::chrono::steady_clock::now();
    unsigned char* all = nullptr;
    const cudaError_t result = cudaMalloc(&all, bytes);
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    slowest_s_ = std::max(slowest_s_, took);
    if (result != cudaSuccess) {
      Fail(
          "after step %d, %s: %s for %zu of %zu free bytes; held: %zu allocations, %zu async, %zu "
          "mappings",
          step, name_, cudaGetErrorName(result), bytes, free, allocations_.size(), async_.size(),
          mappings_.size());
    }
    if (took > promise_s_) Fail("after step %d, %s: it took %.2f s", step, name_, took);
    Touch<<<1, 1>>>(all, bytes);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaFree(all));
  }

  double slowest_s() const { return slowest_s_; }

 private:
  static constexpr size_t kStreams = 3;
  static constexpr size_t kMostHeld = 12;

  size_t Pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  // From 1 KiB to an eighth of the device, small and large ones as often.
  size_t PickSize() {
    const double most = std::log2(static_cast<double>(total_) / 8);
    return static_cast<size_t>(
        std::exp2(std::uniform_real_distribution<double>(10, most)(random_)));
  }
  bool Fits(size_t bytes) {
    size_t free = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total_));
    return bytes + 2 * slack_ < free;
  }
  // Leaves work under way that uses the memory.
  void Use(const Allocation& allocation, cudaStream_t stream) {
    Touch<<<1, 1, 0, stream>>>(allocation.bytes, allocation.count);
    CUDA_CHECK(cudaGetLastError());
  }

  void Allocate() {
    Allocation made;
    made.count = PickSize();
    if (allocations_.size() >= kMostHeld || !Fits(made.count)) return;
    CUDA_CHECK(cudaMalloc(&made.bytes, made.count));
    Use(made, streams_[Pick(kStreams)]);
    allocations_.push_back(made);
  }
  void AllocateAsync() {
    Allocation made;
    made.count = PickSize();
    if (async_.size() >= kMostHeld || !Fits(made.count)) return;
    const cudaStream_t stream = streams_[Pick(kStreams)];
    CUDA_CHECK(cudaMallocAsync(&made.bytes, made.count, stream));
    Use(made, stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    async_.push_back(made);
  }
  void AllocateHost() {
    Allocation made;
    made.count = 1 + Pick(8 * kMiB);
    if (host_.size() >= kMostHeld) return;
    CUDA_CHECK(cudaMallocHost(&made.bytes, made.count));
    made.bytes[made.count - 1] = 1;
    host_.push_back(made);
  }
  template <typename Give>
  void Free(std::vector<Allocation>* held, Give give) {
    if (held->empty()) return;
    const size_t i = Pick(held->size());
    give((*held)[i].bytes);
    held->erase(held->begin() + static_cast<std::ptrdiff_t>(i));
  }
  void Map() {
    Mapping made;
    made.bytes = (PickSize() / 2 / kGranularity + 1) * kGranularity;
    if (mappings_.size() >= kMostHeld || !Fits(made.bytes)) return;
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    DRIVER_CALL(cuMemAddressReserve, &made.address, made.bytes, 0, 0, 0);
    DRIVER_CALL(cuMemCreate, &made.handle, made.bytes, &properties, 0);
    DRIVER_CALL(cuMemMap, made.address, made.bytes, 0, made.handle, 0);
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER_CALL(cuMemSetAccess, made.address, made.bytes, &access, 1);
    Use({reinterpret_cast<unsigned char*>(made.address), made.bytes}, streams_[Pick(kStreams)]);
    mappings_.push_back(made);
  }
  void Unmap() {
    if (mappings_.empty()) return;
    const size_t i = Pick(mappings_.size());
    const Mapping gone = mappings_[i];
    mappings_.erase(mappings_.begin() + static_cast<std::ptrdiff_t>(i));
    CUDA_CHECK(cudaDeviceSynchronize());
    DRIVER_CALL(cuMemUnmap, gone.address, gone.bytes);
    DRIVER_CALL(cuMemRelease, gone.handle);
    DRIVER_CALL(cuMemAddressFree, gone.address, gone.bytes);
  }

  std::mt19937_64 random_;
  const double promise_s_;
  const size_t slack_;
  size_t total_ = 0;
  double slowest_s_ = 0;
  const char* name_ = "nothing";
  cudaStream_t streams_[kStreams] = {};
  std::vector<Allocation> allocations_;
  std::vector<Allocation> async_;
  std::vector<Allocation> host_;
  std::vector<Mapping> mappings_;
};

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "steps", "allocates and frees at random");
  const auto steps = options.Number("steps", 200, "how many");
  const auto seed = static_cast<unsigned>(options.Number("seed", 1, "of the random numbers"));
  const auto promise_ms = options.Number("promise_ms", 2000, "in which what is free can be had");
  const auto slack =
      static_cast<size_t>(options.Number("slack_mib", 1024, "less than what is free"));
  options.Finish();
  CUDA_CHECK(cudaFree(nullptr));
  Steps run(seed, static_cast<double>(promise_ms) / 1000, slack * kMiB);
  for (int i = 0; i < steps; ++i) {
    run.Step();
    run.Probe(i);
  }
  return examples::Report("%lld steps, the slowest allocation of all took %.1f ms", steps,
                          run.slowest_s() * 1000);
}
