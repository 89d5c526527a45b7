// Takes as much of one thing as it gets, and says how much that was and which error ended it:
//
//   slice_limits WHAT [OPTIONS]
//
//   memory      device memory in pieces of --piece MiB
//   threads     the same from --threads threads at once
//   forks       the same from --processes processes, which all hold what they have until the last
//               has been refused
//   sessions    a session in each of --processes processes, at the same time
//   handles     events
//   modules     images of --piece MiB
//   staging     page-locked host memory in pieces of --piece MiB
//   commands    --count kernels behind a host function that returns when the file --release exists
//   launch      a kernel that does not end by itself
//   multiprocessors  what green contexts are made of, and a part with one more than that
//   hold        holds --piece MiB until it is killed
//   seen        nothing: N is the device's memory as cudaMemGetInfo and the properties have it
//
// Prints "slice_limits: WHAT took=N error=NAME", where N is in MiB or a number.
#include <cuda.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../../examples/check.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

__global__ void Touch(unsigned* words) { words[threadIdx.x] += 1; }

__global__ void Endless(volatile unsigned* words) {
  while (words[0] != 7) words[1] += 1;
}

void Say(const char* what, uint64_t took, const char* error) {
  std::printf("slice_limits: %s took=%llu error=%s\n", what, static_cast<unsigned long long>(took),
              error);
  std::fflush(stdout);
}

// Allocates pieces until it is refused.
cudaError_t TakeMemory(size_t piece, std::atomic<uint64_t>* took) {
  while (true) {
    void* memory = nullptr;
    const cudaError_t result = cudaMalloc(&memory, piece * kMiB);
    if (result != cudaSuccess) {
      (void)cudaGetLastError();
      return result;
    }
    took->fetch_add(piece);
  }
}

int Seen() {
  size_t free_bytes = 0, total_bytes = 0;
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  cudaDeviceProp properties;
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  const bool agree = free_bytes <= total_bytes && properties.totalGlobalMem == total_bytes;
  Say("seen", total_bytes / kMiB, agree ? "cudaSuccess" : "they differ");
  return 0;
}

int Memory(size_t piece) {
  std::atomic<uint64_t> took{0};
  const cudaError_t result = TakeMemory(piece, &took);
  Say("memory", took, cudaGetErrorName(result));
  return 0;
}

int Threads(size_t piece, int count) {
  std::atomic<uint64_t> took{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  CUDA_CHECK(cudaFree(nullptr));
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      if (TakeMemory(piece, &took) == cudaErrorMemoryAllocation) ++refused;
    });
  }
  for (std::thread& thread : threads) thread.join();
  Say("threads", took, refused == count ? "cudaErrorMemoryAllocation" : "other");
  return 0;
}

// The parent uses no CUDA, and what it shares with its children is a page.
int Forks(size_t piece, int count) {
  struct Shared {
    std::atomic<uint64_t> took{0};
    std::atomic<int> refused{0};
    std::atomic<int> ended{0};
  };
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const shared = new (page) Shared;
  for (int i = 0; i < count; ++i) {
    if (fork() != 0) continue;
    const cudaError_t result = TakeMemory(piece, &shared->took);
    if (result == cudaErrorMemoryAllocation) ++shared->refused;
    ++shared->ended;
    while (shared->ended < count) usleep(1000);
    _exit(0);
  }
  while (wait(nullptr) > 0) {
  }
  Say("forks", shared->took, shared->refused > 0 ? "cudaErrorMemoryAllocation" : "other");
  return 0;
}

// As many processes as have a session at a time.
int Sessions(int count) {
  struct Shared {
    std::atomic<int> had{0};
    std::atomic<int> error{0};
    std::atomic<int> ended{0};
  };
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const shared = new (page) Shared;
  for (int i = 0; i < count; ++i) {
    if (fork() != 0) continue;
    const cudaError_t result = cudaFree(nullptr);
    if (result == cudaSuccess) ++shared->had;
    if (result != cudaSuccess) shared->error = result;
    ++shared->ended;
    while (shared->ended < count) usleep(1000);
    _exit(0);
  }
  while (wait(nullptr) > 0) {
  }
  Say("sessions", shared->had, cudaGetErrorName(static_cast<cudaError_t>(shared->error.load())));
  return 0;
}

int Handles() {
  constexpr int kBatch = 16;
  uint64_t took = 0;
  cudaError_t result = cudaSuccess;
  while (result == cudaSuccess) {
    for (int i = 0; i < kBatch && result == cudaSuccess; ++i) {
      cudaEvent_t event;
      result = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    }
    if (result == cudaSuccess) result = cudaDeviceSynchronize();
    if (result == cudaSuccess) took += kBatch;
  }
  Say("handles", took, cudaGetErrorName(result));
  return 0;
}

// Something that no cache has: the text differs from run to run.
std::string Image(size_t bytes, int number) {
  std::string text = ".version 7.0\n.target sm_52\n.address_size 64\n";
  text += ".visible .entry kernel" + std::to_string(number) + "() { ret; }\n// ";
  text += std::to_string(getpid()) + " ";
  unsigned state = static_cast<unsigned>(number + 1) * 2654435761u;
  while (text.size() < bytes) {
    state = state * 1664525u + 1013904223u;
    text += static_cast<char>('a' + (state >> 24) % 26);
  }
  return text + "\n";
}

int Modules(size_t piece) {
  uint64_t took = 0;
  cudaError_t result = cudaSuccess;
  for (int i = 0; i < 4096; ++i) {
    const std::string image = Image(piece * kMiB, i);
    cudaLibrary_t library;
    result = cudaLibraryLoadData(&library, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    cudaKernel_t kernel;
    // Loading may be put off until a kernel is asked for.
    if (result == cudaSuccess) {
      result = cudaLibraryGetKernel(&kernel, library, ("kernel" + std::to_string(i)).c_str());
    }
    if (result == cudaSuccess) result = cudaDeviceSynchronize();
    if (result != cudaSuccess) break;
    took += piece;
  }
  Say("modules", took, cudaGetErrorName(result));
  return 0;
}

int Staging(size_t piece) {
  uint64_t took = 0;
  cudaError_t result = cudaSuccess;
  while (took < 4096) {
    void* memory = nullptr;
    result = cudaMallocHost(&memory, piece * kMiB);
    if (result != cudaSuccess) break;
    took += piece;
  }
  Say("staging", took, cudaGetErrorName(result));
  return 0;
}

std::string g_release;

void AwaitRelease(void*) {
  while (access(g_release.c_str(), F_OK) != 0) usleep(1000);
}

int Commands(int count) {
  unsigned* words = nullptr;
  cudaStream_t stream;
  CUDA_CHECK(cudaMalloc(&words, 4096));
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaMemset(words, 0, 4096));
  Touch<<<1, 32, 0, stream>>>(words);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CUDA_CHECK(cudaLaunchHostFunc(stream, AwaitRelease, nullptr));
  std::printf("slice_limits: commands begin\n");
  std::fflush(stdout);
  for (int i = 0; i < count; ++i) Touch<<<1, 32, 0, stream>>>(words);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaStreamSynchronize(stream));
  unsigned seen = 0;
  CUDA_CHECK(cudaMemcpy(&seen, words, sizeof(seen), cudaMemcpyDeviceToHost));
  Say("commands", seen, cudaGetErrorName(cudaSuccess));
  return seen == static_cast<unsigned>(count) + 1 ? 0 : 1;
}

int Launch() {
  unsigned* words = nullptr;
  CUDA_CHECK(cudaMalloc(&words, 4096));
  CUDA_CHECK(cudaMemset(words, 0, 4096));
  Endless<<<1, 1>>>(words);
  const cudaError_t result = cudaDeviceSynchronize();
  Say("launch", 1, cudaGetErrorName(result));
  return 0;
}

// Finds a function of the driver, in the version of cuda.h.
template <typename Function>
Function* Driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  CUDA_CHECK(
      cudaGetDriverEntryPointByVersion(name, &found, CUDA_VERSION, cudaEnableDefault, &result));
  return reinterpret_cast<Function*>(found);
}

int Multiprocessors() {
  CUDA_CHECK(cudaFree(nullptr));
  CUdevResource whole = {}, part = {};
  unsigned groups = 1;
  if (Driver<decltype(cuDeviceGetDevResource)>("cuDeviceGetDevResource")(
          0, &whole, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS) {
    return 1;
  }
  const CUresult more = Driver<decltype(cuDevSmResourceSplitByCount)>(
      "cuDevSmResourceSplitByCount")(&part, &groups, &whole, nullptr, 0, whole.sm.smCount + 1);
  const char* name = "";
  Driver<decltype(cuGetErrorName)>("cuGetErrorName")(more, &name);
  Say("multiprocessors", whole.sm.smCount, name);
  return 0;
}

int Hold(size_t piece) {
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, piece * kMiB));
  Say("hold", piece, cudaGetErrorName(cudaSuccess));
  while (true) pause();
}

}  // namespace

int main(int argc, char** argv) {
  long piece = 16;
  long threads = 64;
  long processes = 8;
  long count = 4096;
  const std::string what = argc > 1 ? argv[1] : "";
  for (int i = 2; i < argc; ++i) {
    const std::string option = argv[i];
    const size_t equals = option.find('=');
    const std::string name = option.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
    if (name == "--piece") piece = std::atol(value.c_str());
    if (name == "--threads") threads = std::atol(value.c_str());
    if (name == "--processes") processes = std::atol(value.c_str());
    if (name == "--count") count = std::atol(value.c_str());
    if (name == "--release") g_release = value;
  }
  if (what == "memory") return Memory(piece);
  if (what == "threads") return Threads(piece, threads);
  if (what == "forks") return Forks(piece, processes);
  if (what == "sessions") return Sessions(processes);
  if (what == "handles") return Handles();
  if (what == "modules") return Modules(piece);
  if (what == "staging") return Staging(piece);
  if (what == "commands") return Commands(count);
  if (what == "launch") return Launch();
  if (what == "multiprocessors") return Multiprocessors();
  if (what == "hold") return Hold(piece);
  if (what == "seen") return Seen();
  std::fprintf(stderr, "slice_limits: what is to be taken?\n");
  return 2;
}
