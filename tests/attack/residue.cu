// What memory that a program was just given still holds of somebody else's.
//
//   residue plant|look|own KIND [SCALE]
//   residue hold PATTERN [SCALE]
//
// `plant` fills memory of the kind with a pattern and gives it back; `look` takes such memory,
// writes nothing and counts the words of the pattern; `own` does both in one process, which shows
// whether this program would see what is there. Prints `found N of M words`, or `not here` where
// the device has no such memory. `hold` fills device memory with a pattern of its own, prints
// `held` and keeps it until its standard input ends. SCALE multiplies the bytes (1).
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CUDA_CHECK(call)                                                            \
  do {                                                                              \
    if (const cudaError_t result = (call); result != cudaSuccess) {                 \
      std::fprintf(stderr, "residue: %s: %s\n", #call, cudaGetErrorString(result)); \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (false)

namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kLocalWords = 512, kHeapWords = 1024, kSharedBytes = 48 << 10;
constexpr size_t kVariableWords = 1 << 20;

struct Count {
  uint64_t found;
  uint64_t words;
};

size_t g_bytes = 8 << 20;
uint32_t g_pattern = 0x5ec2e75e;
unsigned g_blocks = 1;

__device__ uint32_t variable[kVariableWords];

// Neither writes nor reads through the result may be left out.
template <typename T>
__device__ T* Opaque(T* pointer) {
  asm volatile("" : "+l"(pointer) : : "memory");
  return pointer;
}

__device__ void Walk(uint32_t* words, size_t n, size_t first, size_t step, bool fill,
                     uint32_t pattern, unsigned long long* found) {
  unsigned long long here = 0;
  for (size_t i = first; i < n; i += step) {
    if (fill) {
      words[i] = pattern;
    } else {
      here += words[i] == pattern;
    }
  }
  if (here != 0) atomicAdd(found, here);
}

__device__ size_t Thread() { return size_t{blockIdx.x} * blockDim.x + threadIdx.x; }

__global__ void Global(uint32_t* words, size_t n, bool fill, uint32_t pattern,
                       unsigned long long* found) {
  Walk(words, n, Thread(), size_t{gridDim.x} * blockDim.x, fill, pattern, found);
}

__global__ void Variable(bool fill, uint32_t pattern, unsigned long long* found) {
  Walk(variable, kVariableWords, Thread(), size_t{gridDim.x} * blockDim.x, fill, pattern, found);
}

__global__ void Local(bool fill, uint32_t pattern, unsigned long long* found) {
  uint32_t words[kLocalWords];
  Walk(Opaque(words), kLocalWords, 0, 1, fill, pattern, found);
  Opaque(words);
}

__global__ void Shared(bool fill, uint32_t pattern, unsigned long long* found) {
  extern __shared__ uint32_t words[];
  Walk(Opaque(words), kSharedBytes / 4, threadIdx.x, blockDim.x, fill, pattern, found);
  Opaque(words);
}

__global__ void Heap(bool fill, uint32_t pattern, unsigned long long* found,
                     unsigned long long* words) {
  auto* const taken = static_cast<uint32_t*>(malloc(kHeapWords * 4));
  if (taken == nullptr) return;
  Walk(Opaque(taken), kHeapWords, 0, 1, fill, pattern, found);
  atomicAdd(words, kHeapWords);
  if (fill) free(taken);
}

// Two counters on the device: words found, and words looked at.
class Counters {
 public:
  Counters() {
    CUDA_CHECK(cudaMalloc(&at_, 16));
    CUDA_CHECK(cudaMemset(at_, 0, 16));
  }
  unsigned long long* found() { return at_; }
  unsigned long long* words() { return at_ + 1; }
  Count Read(uint64_t words) {
    unsigned long long read[2];
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(read, at_, sizeof(read), cudaMemcpyDeviceToHost));
    return {read[0], words != 0 ? words : read[1]};
  }

 private:
  unsigned long long* at_ = nullptr;
};

Count InMemory(bool fill) {
  Counters counters;
  uint32_t* words;
  CUDA_CHECK(cudaMalloc(&words, g_bytes));
  Global<<<g_blocks, kThreads>>>(words, g_bytes / 4, fill, g_pattern, counters.found());
  const Count count = counters.Read(g_bytes / 4);
  CUDA_CHECK(cudaFree(words));
  return count;
}

Count InPool(bool fill) {
  Counters counters;
  uint32_t* words;
  CUDA_CHECK(cudaMallocAsync(&words, g_bytes, nullptr));
  Global<<<g_blocks, kThreads>>>(words, g_bytes / 4, fill, g_pattern, counters.found());
  const Count count = counters.Read(g_bytes / 4);
  CUDA_CHECK(cudaFreeAsync(words, nullptr));
  return count;
}

Count InArray(bool fill) {
  const size_t width = 1024, height = g_bytes / 4 / width;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<uint32_t>();
  cudaArray_t array;
  CUDA_CHECK(cudaMallocArray(&array, &format, width, height));
  std::vector<uint32_t> words(width * height, fill ? g_pattern : 0);
  Count count = {0, words.size()};
  if (fill) {
    CUDA_CHECK(cudaMemcpy2DToArray(array, 0, 0, words.data(), width * 4, width * 4, height,
                                   cudaMemcpyHostToDevice));
  } else {
    CUDA_CHECK(cudaMemcpy2DFromArray(words.data(), width * 4, array, 0, 0, width * 4, height,
                                     cudaMemcpyDeviceToHost));
    for (const uint32_t word : words) count.found += word == g_pattern;
  }
  CUDA_CHECK(cudaFreeArray(array));
  return count;
}

Count InVariable(bool fill) {
  Counters counters;
  Variable<<<g_blocks, kThreads>>>(fill, g_pattern, counters.found());
  return counters.Read(kVariableWords);
}

Count InLocal(bool fill) {
  Counters counters;
  Local<<<g_blocks, kThreads>>>(fill, g_pattern, counters.found());
  return counters.Read(uint64_t{g_blocks} * kThreads * kLocalWords);
}

Count InShared(bool fill) {
  Counters counters;
  Shared<<<g_blocks, kThreads, kSharedBytes>>>(fill, g_pattern, counters.found());
  return counters.Read(uint64_t{g_blocks} * kSharedBytes / 4);
}

Count InHeap(bool fill) {
  // The size cannot be changed once the heap is in use.
  static const cudaError_t sized = cudaDeviceSetLimit(cudaLimitMallocHeapSize, g_bytes);
  if (sized != cudaSuccess) {
    std::printf("not here\n");  // A device without a heap for kernels.
    std::exit(0);
  }
  Counters counters;
  const auto threads = static_cast<unsigned>(g_bytes / 2 / (kHeapWords * 4));
  Heap<<<(threads + 31) / 32, 32>>>(fill, g_pattern, counters.found(), counters.words());
  return counters.Read(0);
}

Count InHostMemory(bool fill) {
  uint32_t* words;
  CUDA_CHECK(cudaMallocHost(&words, g_bytes));
  Count count = {0, g_bytes / 4};
  for (size_t i = 0; i < g_bytes / 4; ++i) {
    count.found += words[i] == g_pattern;
    if (fill) words[i] = g_pattern;
  }
  CUDA_CHECK(cudaFreeHost(words));
  return count;
}

// Keeps memory with the pattern until the standard input ends.
void Hold() {
  Counters counters;
  uint32_t* words;
  CUDA_CHECK(cudaMalloc(&words, g_bytes));
  Global<<<g_blocks, kThreads>>>(words, g_bytes / 4, true, g_pattern, counters.found());
  CUDA_CHECK(cudaDeviceSynchronize());
  std::printf("held\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

struct Kind {
  const char* name;
  Count (*visit)(bool fill);
};

constexpr Kind kKinds[] = {
    {"memory", InMemory}, {"pool", InPool},     {"array", InArray}, {"variable", InVariable},
    {"local", InLocal},   {"shared", InShared}, {"heap", InHeap},   {"host_memory", InHostMemory},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const Kind& kind : kKinds) std::printf("%s\n", kind.name);
    return 0;
  }
  if (argc < 3) {
    std::fprintf(stderr,
                 "Usage: residue plant|look|own KIND [SCALE], residue hold PATTERN [SCALE], or "
                 "residue --list\n");
    return 2;
  }
  const std::string verb = argv[1], name = argv[2];
  if (argc > 3) g_bytes *= std::strtoul(argv[3], nullptr, 10);
  int processors;
  CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  g_blocks = static_cast<unsigned>(processors) * 4;
  if (verb == "hold") {
    g_pattern = static_cast<uint32_t>(std::strtoul(name.c_str(), nullptr, 0));
    Hold();
    return 0;
  }
  for (const Kind& kind : kKinds) {
    if (name != kind.name) continue;
    if (verb != "look") kind.visit(true);
    if (verb == "plant") return 0;
    const Count count = kind.visit(false);
    std::printf("found %llu of %llu words\n", static_cast<unsigned long long>(count.found),
                static_cast<unsigned long long>(count.words));
    return 0;
  }
  std::fprintf(stderr, "residue: no kind '%s'\n", name.c_str());
  return 2;
}
