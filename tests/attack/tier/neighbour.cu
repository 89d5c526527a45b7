// A tenant of the guarded tier with secrets, which checks them and its results all the while.
//
//   tier_neighbour --state=FILE --number=N --rest_ms=N
//
// Its secrets lie in device memory, in memory of a pool, in a variable, in constants and, while its
// kernels run, in shared and local memory. FILE says where (neighbour_state.h). It goes on until
// its standard input ends; then it prints `tier_neighbour: rounds=N wrong=N` and ends with 0 if
// nothing was wrong. It reports, counts and mends each wrong word. It rests between its rounds.
// Ends with 1 at once when a call fails.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "neighbour_state.h"

#define CUDA_CHECK(call)                                                          \
  do {                                                                            \
    if (const cudaError_t result = (call); result != cudaSuccess) {               \
      std::printf("tier_neighbour: %s: %s\n", #call, cudaGetErrorString(result)); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (false)

namespace {

using State = warpline::attack::NeighbourState;
using warpline::attack::kFirstSecret;
using warpline::attack::kSecretsOfOne;

constexpr unsigned kThreads = 128, kBlocks = 2;
constexpr unsigned kSharedWords = 2048, kLocalWords = 64;
constexpr uint32_t kFactor = 3;

__device__ uint32_t g_secrets[State::kVariableWords];
__constant__ uint32_t g_constants[State::kConstantWords];

// A kernel of a library: triples a word.
constexpr char kLibrary[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry triple(.param .u64 word) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [word];
  ld.global.u32 %r1, [%rd1];
  mul.lo.u32 %r2, %r1, 3;
  st.global.u32 [%rd1], %r2;
  ret;
}
)";

// Counts the words of the secrets that are not as they should be.
__global__ void Check(const uint32_t* memory, const uint32_t* pooled, uint32_t first,
                      unsigned* wrong) {
  __shared__ uint32_t shared[kSharedWords];
  volatile uint32_t local[kLocalWords];
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  unsigned here = 0;
  for (unsigned i = 0; i < kLocalWords; ++i) local[i] = first + thread + i;
  for (unsigned i = threadIdx.x; i < kSharedWords; i += blockDim.x) shared[i] = first + i;
  __syncthreads();
  for (unsigned i = thread; i < State::kMemoryWords; i += threads) here += memory[i] != first + i;
  for (unsigned i = thread; i < State::kPoolWords; i += threads) here += pooled[i] != first + i;
  for (unsigned i = thread; i < State::kVariableWords; i += threads) {
    here += g_secrets[i] != first + i;
  }
  for (unsigned i = thread; i < State::kConstantWords; i += threads) {
    here += g_constants[i] != first + i;
  }
  for (unsigned i = threadIdx.x; i < kSharedWords; i += blockDim.x) {
    const unsigned other = kSharedWords - 1 - i;
    here += shared[other] != first + other;
  }
  for (unsigned i = 0; i < kLocalWords; ++i) here += local[i] != first + thread + i;
  if (here != 0) atomicAdd(wrong, here);
}

class Neighbour {
 public:
  Neighbour(State* state, uint32_t number)
      : state_(state), first_(kFirstSecret + number * kSecretsOfOne), secrets_(kSecretsOfOne) {
    for (uint32_t i = 0; i < kSecretsOfOne; ++i) secrets_[i] = first_ + i;
  }

  void Open() {
    CUDA_CHECK(cudaStreamCreate(&stream_));
    CUDA_CHECK(cudaEventCreate(&event_));
    CUDA_CHECK(cudaMalloc(&memory_, kMemoryBytes));
    CUDA_CHECK(cudaMalloc(&counter_, sizeof(*counter_)));
    CUDA_CHECK(cudaMalloc(&results_, kMemoryBytes));
    CUDA_CHECK(cudaMallocHost(&pinned_, kMemoryBytes));
    CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool_, 0));
    CUDA_CHECK(cudaMallocFromPoolAsync(&pooled_, kPoolBytes, pool_, stream_));
    CUDA_CHECK(cudaGetSymbolAddress(&variable_, g_secrets));
    CUDA_CHECK(cudaGetSymbolAddress(&constants_, g_constants));
    CUDA_CHECK(cudaLibraryLoadData(&library_, kLibrary, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUDA_CHECK(cudaLibraryGetKernel(&kernel_, library_, "triple"));
    CUDA_CHECK(cudaGetFuncBySymbol(&function_, reinterpret_cast<const void*>(&Check)));
    WriteSecrets();
    MakeGraph();
    Publish();
  }

  void Round() {
    const uint64_t wrong = wrong_;
    CheckOnDevice();
    CheckCopies();
    CheckGraphAndKernel();
    if (wrong_ != wrong) {
      state_->wrong.fetch_add(1);
      WriteSecrets();
    }
    state_->rounds.fetch_add(1);
  }

 private:
  static constexpr size_t kMemoryBytes = State::kMemoryWords * 4,
                          kPoolBytes = State::kPoolWords * 4;

  void WriteSecrets() {
    CUDA_CHECK(cudaMemcpyAsync(memory_, secrets_.data(), kMemoryBytes, cudaMemcpyDefault, stream_));
    CUDA_CHECK(cudaMemcpyAsync(pooled_, secrets_.data(), kPoolBytes, cudaMemcpyDefault, stream_));
    CUDA_CHECK(cudaMemcpyToSymbolAsync(g_secrets, secrets_.data(), sizeof(g_secrets), 0,
                                       cudaMemcpyDefault, stream_));
    CUDA_CHECK(cudaMemcpyToSymbolAsync(g_constants, secrets_.data(), sizeof(g_constants), 0,
                                       cudaMemcpyDefault, stream_));
    CUDA_CHECK(cudaStreamSynchronize(stream_));
  }

  // Copies the secrets to where results go.
  void MakeGraph() {
    CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    CUDA_CHECK(cudaMemsetAsync(results_, 0, kMemoryBytes, stream_));
    CUDA_CHECK(cudaMemcpyAsync(results_, memory_, kMemoryBytes, cudaMemcpyDeviceToDevice, stream_));
    CUDA_CHECK(cudaStreamEndCapture(stream_, &graph_));
    CUDA_CHECK(cudaGraphInstantiate(&exec_, graph_, 0));
  }

  void Publish() {
    const auto number = [](auto handle) { return reinterpret_cast<uint64_t>(handle); };
    state_->memory = number(memory_);
    state_->variable = number(variable_);
    state_->constants = number(constants_);
    state_->pool_memory = number(pooled_);
    state_->pinned = number(pinned_);
    state_->stream = number(stream_);
    state_->event = number(event_);
    state_->function = number(function_);
    state_->library = number(library_);
    state_->kernel = number(kernel_);
    state_->graph = number(graph_);
    state_->exec = number(exec_);
    state_->pool = number(pool_);
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto find_context =
        reinterpret_cast<decltype(&cuCtxGetCurrent)>(dlsym(driver, "cuCtxGetCurrent"));
    const auto find_module =
        reinterpret_cast<decltype(&cuLibraryGetModule)>(dlsym(driver, "cuLibraryGetModule"));
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    if (find_context(&context) != CUDA_SUCCESS ||
        find_module(&module, reinterpret_cast<CUlibrary>(library_)) != CUDA_SUCCESS) {
      std::printf("tier_neighbour: no context or module\n");
      std::exit(1);
    }
    state_->context = number(context);
    state_->module = number(module);
  }

  void Expect(bool right, const char* what) {
    if (right) return;
    ++wrong_;
    std::printf("tier_neighbour: wrong: %s\n", what);
  }

  void CheckOnDevice() {
    unsigned wrong = 0;
    CUDA_CHECK(cudaMemsetAsync(counter_, 0, sizeof(*counter_), stream_));
    Check<<<kBlocks, kThreads, 0, stream_>>>(memory_, pooled_, first_, counter_);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaEventRecord(event_, stream_));
    CUDA_CHECK(cudaEventSynchronize(event_));
    CUDA_CHECK(cudaMemcpy(&wrong, counter_, sizeof(wrong), cudaMemcpyDeviceToHost));
    Expect(wrong == 0, "what a kernel found");
  }

  void CheckCopies() {
    const auto expect = [this](const void* from, size_t bytes, const char* what) {
      std::memset(pinned_, 0, bytes);
      CUDA_CHECK(cudaMemcpyAsync(pinned_, from, bytes, cudaMemcpyDeviceToHost, stream_));
      CUDA_CHECK(cudaStreamSynchronize(stream_));
      Expect(std::memcmp(pinned_, secrets_.data(), bytes) == 0, what);
    };
    expect(memory_, kMemoryBytes, "memory");
    expect(pooled_, kPoolBytes, "memory of the pool");
    expect(variable_, sizeof(g_secrets), "the variable");
    expect(constants_, sizeof(g_constants), "the constants");
  }

  void CheckGraphAndKernel() {
    void* parameters[] = {&results_};
    CUDA_CHECK(cudaGraphLaunch(exec_, stream_));
    CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), dim3(1), dim3(1),
                                parameters, 0, stream_));
    CUDA_CHECK(cudaMemcpyAsync(pinned_, results_, kMemoryBytes, cudaMemcpyDeviceToHost, stream_));
    CUDA_CHECK(cudaStreamSynchronize(stream_));
    Expect(pinned_[0] == secrets_[0] * kFactor, "what a library's kernel made");
    Expect(std::memcmp(pinned_ + 1, secrets_.data() + 1, kMemoryBytes - 4) == 0,
           "what a graph copied");
  }

  State* const state_;
  const uint32_t first_;
  std::vector<uint32_t> secrets_;
  uint64_t wrong_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
  cudaMemPool_t pool_ = nullptr;
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
  cudaFunction_t function_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  uint32_t *memory_ = nullptr, *results_ = nullptr, *pooled_ = nullptr, *pinned_ = nullptr;
  unsigned* counter_ = nullptr;
  void *variable_ = nullptr, *constants_ = nullptr;
};

State* Map(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || ftruncate(file, sizeof(State)) != 0) return nullptr;
  void* const at = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<State*>(at);
}

const char* Value(int argc, char** argv, const char* name) {
  const size_t length = std::strlen(name);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], name, length) == 0) return argv[i] + length;
  }
  std::fprintf(stderr, "Usage: tier_neighbour --state=FILE --number=N --rest_ms=N\n");
  std::exit(2);
}

// Rests. False when the input has ended.
bool GoesOn(int rest_ms) {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, rest_ms) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  State* const state = Map(Value(argc, argv, "--state="));
  if (state == nullptr) return 2;
  Neighbour neighbour(state, static_cast<uint32_t>(std::atoi(Value(argc, argv, "--number="))));
  const int rest_ms = std::atoi(Value(argc, argv, "--rest_ms="));
  neighbour.Open();
  do neighbour.Round();
  while (GoesOn(rest_ms));
  const uint64_t wrong = state->wrong;
  std::printf("tier_neighbour: rounds=%llu wrong=%llu\n",
              static_cast<unsigned long long>(state->rounds),
              static_cast<unsigned long long>(wrong));
  return wrong == 0 ? 0 : 1;
}
