// A session that does what it should not, again and again, while others share its GPU.
//
//   unruly --role=NAME [--seconds=N] [--rounds=N]
//
//   stray        kernels read and write at addresses from all over the address space
//   misaligned   kernels access words at odd addresses
//   shared       kernels index far beyond their shared memory and their local arrays
//   trap, assert kernels end with an error
//   deep         kernels call themselves without end
//   endless      a kernel never ends; the program waits for it
//   partial      a kernel waits at a barrier for threads that never come; the program waits for it
//   calls        calls with addresses, sizes, handles and shapes from nowhere
//   code         modules that are none, and cut-off ones
//
// It goes on for so many seconds, and until it has made so many rounds. Its own results are of no
// interest. It starts anew in a child process when an error sticks. The
// last line of its output is "unruly: done rounds=N errors=N".
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

__device__ uint64_t Mixed(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

__global__ void Stray(uint64_t seed, unsigned rounds, uint64_t mask) {
  uint64_t at = seed + blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned i = 0; i < rounds; ++i) {
    at = Mixed(at + i);
    auto* const word = reinterpret_cast<uint32_t*>(at & mask & ~uint64_t{3});
    if (i % 3 == 0) {
      at += *word;
    } else if (i % 3 == 1) {
      *word = static_cast<uint32_t>(at);
    } else {
      atomicAdd(word, 1u);
    }
  }
}

__global__ void Misaligned(char* memory, unsigned rounds) {
  for (unsigned i = 0; i < rounds; ++i) {
    *reinterpret_cast<volatile uint64_t*>(memory + 1 + threadIdx.x * 3 + i) = i;
  }
}

__global__ void Shared(uint32_t* out, unsigned rounds, unsigned stride) {
  __shared__ uint32_t tile[32];
  uint32_t local[8] = {};
  for (unsigned i = 0; i < rounds; ++i) {
    tile[threadIdx.x * stride + i] = i;
    local[(threadIdx.x * stride + i) & 0xffff] += tile[i * stride];
  }
  out[threadIdx.x] = local[rounds & 7];
}

__global__ void Trap() { asm volatile("trap;"); }

__global__ void Assert(int value) { assert(value == 0); }

__device__ __noinline__ uint64_t Deeper(uint64_t depth, volatile uint64_t* end) {
  volatile uint64_t kept[16];
  kept[depth & 15] = depth;
  if (*end != 0) return depth;
  return Deeper(depth + 1, end) + kept[depth & 15];
}

__global__ void Deep(uint64_t* end) { *end += Deeper(0, end); }

__global__ void Endless(volatile uint32_t* word) {
  while (*word != 0xffffffff) {
  }
}

__global__ void Partial(volatile uint32_t* word) {
  if (threadIdx.x < 32) {
    while (*word != 0xffffffff) {
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) *word = 0;
}

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Calls(std::mt19937_64* random) {
  const auto any = [&] { return (*random)() >> ((*random)() % 64); };
  const auto address = [&] { return reinterpret_cast<void*>(any()); };
  std::vector<char> host(4096);
  switch ((*random)() % 7) {
    case 0:
      cudaMemcpy(address(), host.data(), any() % host.size(), cudaMemcpyHostToDevice);
      break;
    case 1:
      cudaMemcpy(host.data(), address(), any() % host.size(), cudaMemcpyDeviceToHost);
      break;
    case 2:
      cudaMemcpy(address(), address(), any(), cudaMemcpyDeviceToDevice);
      break;
    case 3:
      cudaMemset(address(), 7, any());
      break;
    case 4:
      cudaFree(address());
      break;
    case 5:
      Stray<<<static_cast<unsigned>(any()), static_cast<unsigned>(any()), any()>>>(any(), 1, any());
      break;
    default:
      cudaMemset2D(address(), any(), 1, any(), any());
  }
  cudaGetLastError();
}

void Code(std::mt19937_64* random) {
  std::string text =
      ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry f(.param .u64 p)\n{\n.reg "
      ".b64 "
      "%a<3>;\nld.param.u64 %a1, [p];\nst.global.u64 [%a1], %a1;\nret;\n}\n";
  const uint64_t how = (*random)();
  if (how % 3 == 0) text.resize(how / 3 % text.size());
  if (how % 3 == 1) text[how / 3 % text.size()] = static_cast<char>(1 + how / 1024 % 255);
  if (how % 3 == 2) {
    // A container whose entries are text.
    const uint64_t bytes = text.size();
    std::string header("\x50\xed\x55\xba\x01\x00\x10\x00", 8);
    header.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    text = header + text;
  }
  cudaLibrary_t library = nullptr;
  if (cudaLibraryLoadData(&library, text.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
      cudaSuccess) {
    cudaKernel_t kernel = nullptr;
    cudaLibraryGetKernel(&kernel, library, "f");
    cudaLibraryUnload(library);
  }
  cudaGetLastError();
}

// Returns whether an error sticks.
bool Round(const std::string& role, std::mt19937_64* random, char* memory) {
  auto* const words = reinterpret_cast<uint32_t*>(memory);
  const uint64_t seed = (*random)();
  if (role == "stray") Stray<<<64, 128>>>(seed, 200, ~uint64_t{0} >> (seed % 40));
  if (role == "misaligned") Misaligned<<<4, 64>>>(memory, 50);
  if (role == "shared") Shared<<<4, 32>>>(words, 64, static_cast<unsigned>(seed));
  if (role == "trap") Trap<<<1, 32>>>();
  if (role == "assert") Assert<<<1, 1>>>(1);
  if (role == "deep") Deep<<<1, 32>>>(reinterpret_cast<uint64_t*>(memory));
  if (role == "endless") Endless<<<1056, 256>>>(words);
  if (role == "partial") Partial<<<2, 64>>>(words);
  if (const cudaError_t launched = cudaGetLastError(); launched != cudaSuccess) {
    std::printf("unruly: FAILED (the kernel is not launched: %s)\n", cudaGetErrorString(launched));
    std::fflush(stdout);
    _exit(1);
  }
  if (role == "calls") Calls(random);
  if (role == "code") Code(random);
  if (cudaDeviceSynchronize() == cudaSuccess) return false;
  return cudaDeviceSynchronize() != cudaSuccess;
}

struct Counts {
  unsigned rounds = 0, errors = 0;
};

// How long it goes on: both must be over.
struct Extent {
  double until = 0;
  unsigned rounds = 0;

  bool GoesOn(unsigned made) const { return Now() < until || made < rounds; }
};

Counts Run(const std::string& role, const Extent& extent, uint64_t seed) {
  Counts counts;
  std::mt19937_64 random(seed);
  char* memory = nullptr;
  if (cudaMalloc(&memory, 1 << 20) != cudaSuccess ||
      cudaMemset(memory, 0, 1 << 20) != cudaSuccess) {
    ++counts.errors;
    usleep(100'000);
    return counts;
  }
  while (extent.GoesOn(counts.rounds)) {
    ++counts.rounds;
    if (!Round(role, &random, memory)) continue;
    ++counts.errors;
    break;
  }
  return counts;
}

// The child has a session of its own.
Counts RunInChild(const std::string& role, const Extent& extent, uint64_t seed) {
  Counts counts;
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    counts = Run(role, extent, seed);
    const ssize_t written = write(ends[1], &counts, sizeof(counts));
    _exit(written == sizeof(counts) ? 0 : 1);
  }
  close(ends[1]);
  if (read(ends[0], &counts, sizeof(counts)) != sizeof(counts)) ++counts.errors;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) std::exit(1);
  return counts;
}

const char* Value(int argc, char** argv, const char* name, const char* otherwise) {
  const size_t length = std::strlen(name);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], name, length) == 0) return argv[i] + length;
  }
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = Value(argc, argv, "--role=", "stray");
  const Extent extent = {Now() + std::atof(Value(argc, argv, "--seconds=", "3")),
                         static_cast<unsigned>(std::atoi(Value(argc, argv, "--rounds=", "0")))};
  Counts all;
  for (uint64_t seed = 1; extent.GoesOn(all.rounds); ++seed) {
    const Extent left = {extent.until, extent.rounds - std::min(extent.rounds, all.rounds)};
    const Counts counts = RunInChild(role, left, seed);
    all.rounds += counts.rounds;
    all.errors += counts.errors;
  }
  std::printf("unruly: done rounds=%u errors=%u\n", all.rounds, all.errors);
  return 0;
}
