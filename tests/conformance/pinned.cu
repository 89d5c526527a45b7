// Page-locked memory whose pointers kernels are given as they are, and what a reset leaves of it
// and of managed variables. Programs of the runtime API do this without a thought, since host and
// device have one address space.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <thread>

#include "setting.h"

namespace conformance {
namespace {

constexpr int kWords = 1 << 14;
constexpr size_t kBytes = kWords * sizeof(int);

bool JudgeRuntime(cudaError_t expected, cudaError_t got) {
  return Judge(static_cast<CUresult>(expected), static_cast<CUresult>(got));
}

#define RUNTIME(check, expected, fn, ...) \
  (Mark(#fn, check), JudgeRuntime(expected, fn(__VA_ARGS__)))

__managed__ int managed_value = 9;
__device__ int device_value = 7;
__constant__ int* constant_pointer;

__global__ void Set(int* words, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) words[i] = value;
}
__global__ void Add(int* words, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) words[i] += value;
}
__global__ void Copy(int* to, const int* from, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i];
}
struct Both {
  int unused;
  int* host;
  int* device;
};
__global__ void AddMember(Both both, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) both.host[i] += value;
}
__global__ void AddBehind(int* const* table, int entry, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) table[entry][i] += value;
}
__global__ void AddBehindConstant(int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) constant_pointer[i] += value;
}
struct Node {
  int value;
  Node* next;
};
__global__ void SumList(const Node* first, int* sum) {
  *sum = 0;
  for (const Node* node = first; node != nullptr; node = node->next) *sum += node->value;
}
__global__ void FillBackwards(int* end, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) end[-1 - i] = value;
}
__global__ void AddTwice(int* words, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) words[i] += 1;
  cooperative_groups::this_grid().sync();
  if (i < n) words[i] += words[n - 1 - i] * 0 + 1;
}
__global__ void Bump() {
  device_value += 1;
  managed_value += 1;
}

constexpr int kThreads = 256;
constexpr int kBlocks = kWords / kThreads;

int Wrong(const int* words, int value) {
  int wrong = 0;
  for (int i = 0; i < kWords; ++i) wrong += words[i] != value;
  return wrong;
}

int* Pinned(size_t bytes = kBytes) {
  int* words = nullptr;
  RUNTIME("page-locked", cudaSuccess, cudaMallocHost, &words, bytes);
  if (words != nullptr) std::memset(words, 0, bytes);
  return words;
}

// Goes both ways, with nothing but launches and synchronizations in between.
void CheckKernels(const char* kind, int* words) {
  Set<<<kBlocks, kThreads>>>(words, kWords, 5);
  Mark("cudaDeviceSynchronize", kind);
  if (!JudgeRuntime(cudaSuccess, cudaDeviceSynchronize())) return;
  Holds("cudaMallocHost", kind, Wrong(words, 5) == 0, "%d wrong words of a kernel",
        Wrong(words, 5));
  for (int i = 0; i < kWords; ++i) words[i] = 20;
  Add<<<kBlocks, kThreads>>>(words, kWords, 1);
  cudaDeviceSynchronize();
  Holds("cudaMallocHost", kind, Wrong(words, 21) == 0, "%d wrong words after the host wrote",
        Wrong(words, 21));
  cudaPointerAttributes attributes = {};
  Mark("cudaPointerGetAttributes", kind);
  JudgeRuntime(cudaSuccess, cudaPointerGetAttributes(&attributes, words));
  Holds("cudaPointerGetAttributes", kind,
        attributes.type == cudaMemoryTypeHost && attributes.devicePointer == words &&
            attributes.hostPointer == words,
        "type %d, %p on the device and %p on the host of %p", attributes.type,
        attributes.devicePointer, attributes.hostPointer, static_cast<void*>(words));
}

void Kinds() {
  struct Kind {
    const char* name;
    unsigned flags;
  };
  CheckKernels("as cudaMallocHost gives it", Pinned());
  const Kind kinds[] = {{"default", cudaHostAllocDefault},
                        {"portable", cudaHostAllocPortable},
                        {"write-combined", cudaHostAllocWriteCombined},
                        {"mapped", cudaHostAllocMapped}};
  for (const Kind& kind : kinds) {
    int* words = nullptr;
    Mark("cudaHostAlloc", kind.name);
    if (!JudgeRuntime(cudaSuccess, cudaHostAlloc(&words, kBytes, kind.flags))) continue;
    cudaPointerAttributes attributes = {};
    cudaPointerGetAttributes(&attributes, words);
    Holds("cudaPointerGetAttributes", kind.name, attributes.devicePointer == words,
          "%p before a kernel has it", attributes.devicePointer);
    CheckKernels(kind.name, words);
    RUNTIME(kind.name, cudaSuccess, cudaFreeHost, words);
  }
  int* words = Pinned();
  void* device = nullptr;
  RUNTIME("page-locked", cudaSuccess, cudaHostGetDevicePointer, &device, words, 0);
  HOLDS(cudaHostGetDevicePointer, "the same", device == words, "%p of %p", device,
        static_cast<void*>(words));
  CheckKernels("after cudaHostGetDevicePointer", words);
  int* small = Pinned(4);
  for (int round = 0; round < 20; ++round) {
    Add<<<1, 1>>>(small, 1, 1);
    cudaDeviceSynchronize();
    *small += 1;
  }
  EQUAL(cudaMallocHost, "four bytes, in turn", *small, 40);
}

void Pointers() {
  int* words = Pinned();
  const Both both = {1, words, nullptr};
  AddMember<<<kBlocks, kThreads>>>(both, kWords, 1);
  cudaDeviceSynchronize();
  EQUAL(cudaMallocHost, "in a structure", Wrong(words, 1), 0);
  // At the end of the memory, which is whole pages.
  int* whole = Pinned(2 << 20);
  FillBackwards<<<kBlocks, kThreads>>>(whole + (2 << 20) / 4, kWords, 3);
  cudaDeviceSynchronize();
  EQUAL(cudaMallocHost, "from its end", Wrong(whole + (2 << 20) / 4 - kWords, 3), 0);

  int *behind = Pinned(), *other = Pinned();
  int* table[3] = {nullptr, behind, other};
  int** device_table = nullptr;
  RUNTIME("a table", cudaSuccess, cudaMalloc, &device_table, sizeof(table));
  RUNTIME("a table", cudaSuccess, cudaMemcpy, device_table, table, sizeof(table),
          cudaMemcpyHostToDevice);
  AddBehind<<<kBlocks, kThreads>>>(device_table, 1, kWords, 4);
  AddBehind<<<kBlocks, kThreads>>>(device_table, 2, kWords, 5);
  cudaDeviceSynchronize();
  EQUAL(cudaMallocHost, "behind a pointer in device memory", Wrong(behind, 4), 0);
  EQUAL(cudaMallocHost, "behind another one", Wrong(other, 5), 0);
  int* last = Pinned();
  RUNTIME("a pointer", cudaSuccess, cudaMemcpyToSymbol, constant_pointer, &last, sizeof(last));
  AddBehindConstant<<<kBlocks, kThreads>>>(kWords, 6);
  cudaDeviceSynchronize();
  EQUAL(cudaMallocHost, "behind a constant", Wrong(last, 6), 0);

  // A list whose nodes are allocated one by one, as large and as small ones.
  Node* first = nullptr;
  int expected = 0;
  for (int i = 1; i <= 60; ++i) {
    Node* node = reinterpret_cast<Node*>(Pinned(i % 10 == 0 ? 100 << 10 : sizeof(Node)));
    if (node == nullptr) return;
    *node = {i, first};
    first = node;
    expected += i;
  }
  int* sum = Pinned(4);
  SumList<<<1, 1>>>(first, sum);
  cudaDeviceSynchronize();
  EQUAL(cudaMallocHost, "a list", *sum, expected);
  first->next->value += 1000;
  SumList<<<1, 1>>>(first, sum);
  cudaDeviceSynchronize();
  EQUAL(cudaMallocHost, "a list that has changed", *sum, expected + 1000);
}

void Copies() {
  int *words = Pinned(), *staging = Pinned(), *device = nullptr;
  RUNTIME("words", cudaSuccess, cudaMalloc, &device, kBytes);
  std::vector<int> plain(kWords);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kWords; ++i) words[i] = staging[i] = round;
    Add<<<kBlocks, kThreads>>>(words, kWords, 1);
    RUNTIME("kernel's words to the device", cudaSuccess, cudaMemcpyAsync, device, words, kBytes,
            cudaMemcpyHostToDevice, 0);
    Add<<<kBlocks, kThreads>>>(device, kWords, 1);
    RUNTIME("to memory that no kernel has", cudaSuccess, cudaMemcpyAsync, staging, device, kBytes,
            cudaMemcpyDeviceToHost, 0);
    RUNTIME("the copies", cudaSuccess, cudaStreamSynchronize, nullptr);
    EQUAL(cudaMemcpyAsync, "a kernel's words, by way of the device", Wrong(staging, round + 2), 0);
    RUNTIME("back", cudaSuccess, cudaMemcpyAsync, words, device, kBytes, cudaMemcpyDefault, 0);
    Add<<<kBlocks, kThreads>>>(words, kWords, 10);
    cudaDeviceSynchronize();
    EQUAL(cudaMemcpyAsync, "a copy before a kernel", Wrong(words, round + 12), 0);
  }
  RUNTIME("host to host", cudaSuccess, cudaMemcpy, plain.data(), words, kBytes, cudaMemcpyDefault);
  EQUAL(cudaMemcpy, "from a kernel's memory to plain memory", Wrong(plain.data(), 14), 0);
  RUNTIME("page-locked memory", cudaSuccess, cudaMemset, words, 0x11, kBytes);
  cudaDeviceSynchronize();
  EQUAL(cudaMemset, "page-locked memory", Wrong(words, 0x11111111), 0);
  RUNTIME("memory that no kernel has", cudaSuccess, cudaMemset, staging, 0x22, kBytes / 2);
  cudaDeviceSynchronize();
  HOLDS(cudaMemset, "memory that no kernel has",
        staging[0] == 0x22222222 && staging[kWords / 2 - 1] == 0x22222222 &&
            staging[kWords / 2] != 0x22222222,
        "%x %x %x", staging[0], staging[kWords / 2 - 1], staging[kWords / 2]);
  // Rows of either.
  int* rows = Pinned();
  RUNTIME("rows to the device", cudaSuccess, cudaMemcpy2D, device, 256, words, 512, 128, 16,
          cudaMemcpyHostToDevice);
  RUNTIME("rows to the host", cudaSuccess, cudaMemcpy2D, rows, 512, device, 256, 128, 16,
          cudaMemcpyDeviceToHost);
  HOLDS(cudaMemcpy2D, "rows there and back", rows[0] == 0x11111111 && rows[15 * 128] == 0x11111111,
        "%x %x", rows[0], rows[15 * 128]);
}

void Write(void* data) { *static_cast<int*>(data) += 100; }

void Streams() {
  int* words = Pinned();
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreate(&event);
  Add<<<kBlocks, kThreads, 0, a>>>(words, kWords, 1);
  cudaEventRecord(event, a);
  cudaStreamWaitEvent(b, event, 0);
  Add<<<kBlocks, kThreads, 0, b>>>(words, kWords, 1);
  cudaLaunchHostFunc(b, Write, words);
  Add<<<kBlocks, kThreads, 0, b>>>(words, kWords, 1);
  RUNTIME("kernels and a host function", cudaSuccess, cudaStreamSynchronize, b);
  HOLDS(cudaMallocHost, "kernels and a host function of streams", words[0] == 103 && words[1] == 3,
        "%d %d", words[0], words[1]);
  void* parameters[] = {&words, nullptr};
  int n = kThreads * 2;
  parameters[1] = &n;
  Mark("cudaLaunchCooperativeKernel", "page-locked memory");
  JudgeRuntime(cudaSuccess, cudaLaunchCooperativeKernel(reinterpret_cast<void*>(AddTwice), dim3(2),
                                                        dim3(kThreads), parameters, 0, a));
  cudaStreamSynchronize(a);
  HOLDS(cudaMallocHost, "a cooperative kernel", words[1] == 5 && words[n] == 3, "%d %d", words[1],
        words[n]);
  // Freed at once: the call waits for the kernel.
  Add<<<kBlocks, kThreads, 0, a>>>(words, kWords, 1);
  RUNTIME("in use", cudaSuccess, cudaFreeHost, words);
  RUNTIME("after it", cudaSuccess, cudaStreamSynchronize, a);
}

void Threads() {
  int wrong[4] = {};
  // Each thread has a part, and all parts are in one page.
  int* common = Pinned(4096);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      cudaStream_t stream = nullptr;
      int* device = nullptr;
      int* kept = Pinned();
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      cudaMalloc(&device, kBytes);
      for (int round = 0; round < 10; ++round) {
        int *mine = nullptr, *staging = nullptr;
        cudaMallocHost(&mine, kBytes);
        cudaMallocHost(&staging, kBytes);
        for (int i = 0; i < kWords; ++i) mine[i] = staging[i] = t;
        Add<<<kBlocks, kThreads, 0, stream>>>(mine, kWords, round);
        Set<<<1, 32, 0, stream>>>(kept, 32, round);
        Set<<<1, 32, 0, stream>>>(common + t * 32, 32, 100 + round);
        cudaMemcpyAsync(device, staging, kBytes, cudaMemcpyHostToDevice, stream);
        Add<<<kBlocks, kThreads, 0, stream>>>(device, kWords, 1);
        cudaMemcpyAsync(staging, device, kBytes, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        wrong[t] += Wrong(mine, t + round) + Wrong(staging, t + 1) + (kept[0] != round) +
                    (common[t * 32] != 100 + round);
        common[t * 32] = -1;
        cudaFreeHost(mine);
        cudaFreeHost(staging);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EQUAL(cudaMallocHost, "used and freed by four threads", wrong[0] + wrong[1] + wrong[2] + wrong[3],
        0);
}

void Graphs() {
  int *words = Pinned(), *device = nullptr, *out = Pinned();
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaMalloc(&device, kBytes);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  Add<<<kBlocks, kThreads, 0, stream>>>(words, kWords, 1);
  cudaMemcpyAsync(device, words, kBytes, cudaMemcpyHostToDevice, stream);
  Add<<<kBlocks, kThreads, 0, stream>>>(device, kWords, 1);
  cudaMemcpyAsync(out, device, kBytes, cudaMemcpyDeviceToHost, stream);
  Mark("cudaStreamEndCapture", "page-locked memory in all nodes");
  JudgeRuntime(cudaSuccess, cudaStreamEndCapture(stream, &graph));
  cudaGraphInstantiate(&exec, graph, 0);
  int wrong = 0;
  for (int round = 1; round <= 5; ++round) {
    cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    wrong += Wrong(words, 2 * round - 1) + Wrong(out, 2 * round);
    for (int i = 0; i < kWords; ++i) words[i] += 1;
  }
  EQUAL(cudaGraphLaunch, "kernels and copies of page-locked memory", wrong, 0);

  // Kernels and a fill alone, which may run as the device's own graph.
  int* filled = Pinned();
  cudaGraph_t second = nullptr;
  cudaGraphExec_t filling = nullptr;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  cudaMemsetAsync(filled, 0, kBytes, stream);
  Add<<<kBlocks, kThreads, 0, stream>>>(filled, kWords, 3);
  Add<<<kBlocks, kThreads, 0, stream>>>(words, kWords, 1);
  cudaStreamEndCapture(stream, &second);
  cudaGraphInstantiate(&filling, second, 0);
  wrong = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < kWords; ++i) words[i] = filled[i] = 50 + round;
    cudaGraphLaunch(filling, stream);
    cudaStreamSynchronize(stream);
    wrong += Wrong(filled, 3) + Wrong(words, 51 + round);
  }
  EQUAL(cudaGraphLaunch, "kernels and fills of page-locked memory", wrong, 0);
  // The same graph, after its memory was freed and allocated again.
  cudaFreeHost(filled);
  int* again = nullptr;
  cudaMallocHost(&again, kBytes);
  if (again == filled) {
    for (int i = 0; i < kWords; ++i) again[i] = 1;
    cudaGraphLaunch(filling, stream);
    cudaStreamSynchronize(stream);
    EQUAL(cudaGraphLaunch, "memory that was allocated again", Wrong(again, 3), 0);
  }
}

// Memory of the program's own, given to kernels as it is.
void Registered() {
  int* words = static_cast<int*>(std::aligned_alloc(4096, kBytes));
  for (int i = 0; i < kWords; ++i) words[i] = 1;
  RUNTIME("default", cudaSuccess, cudaHostRegister, words, kBytes, cudaHostRegisterDefault);
  Add<<<kBlocks, kThreads>>>(words, kWords, 1);
  RUNTIME("with registered memory", cudaSuccess, cudaDeviceSynchronize);
  EQUAL(cudaHostRegister, "in a kernel as it is", Wrong(words, 2), 0);
  for (int i = 0; i < kWords; ++i) words[i] = 7;
  const Both both = {1, words, nullptr};
  AddMember<<<kBlocks - 1, kThreads>>>(both, kWords, 1);
  cudaDeviceSynchronize();
  HOLDS(cudaHostRegister, "in a structure", words[0] == 8 && words[kWords - 1] == 7, "%d %d",
        words[0], words[kWords - 1]);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  Set<<<kBlocks, kThreads, 0, stream>>>(words, kWords, 20);
  Add<<<kBlocks, kThreads, 0, stream>>>(words, kWords, 1);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  int wrong = 0;
  for (int round = 0; round < 3; ++round) {
    words[5] = 0;
    cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    wrong += Wrong(words, 21);
  }
  EQUAL(cudaGraphLaunch, "registered memory", wrong, 0);
  RUNTIME("after kernels", cudaSuccess, cudaHostUnregister, words);
  EQUAL(cudaHostUnregister, "what kernels wrote stays", Wrong(words, 21), 0);
  std::free(words);
}

// Large memory goes there and back whole.
void Large() {
  constexpr int kLarge = 12 << 20;
  int* words = Pinned(kLarge);
  const int n = kLarge / 4;
  for (int i = 0; i < n; ++i) words[i] = i;
  for (int round = 1; round <= 2; ++round) {
    Add<<<n / kThreads, kThreads>>>(words, n, 1);
    cudaDeviceSynchronize();
    int wrong = 0;
    for (int i = 0; i < n; ++i) wrong += words[i] != i + round;
    EQUAL(cudaMallocHost, "12 MiB", wrong, 0);
  }
  RUNTIME("12 MiB", cudaSuccess, cudaFreeHost, words);
}

void Resets() {
  for (int round = 0; round < 3; ++round) {
    // A reset leaves its value.
    EQUAL(cudaDeviceReset, "a managed variable keeps its value", managed_value,
          round == 0 ? 9 : 31);
    managed_value = 9;
    Bump<<<1, 1>>>();
    RUNTIME("a managed variable in a kernel", cudaSuccess, cudaDeviceSynchronize);
    int value = -1;
    RUNTIME("a managed variable", cudaSuccess, cudaMemcpyFromSymbol, &value, managed_value, 4);
    EQUAL(cudaDeviceReset, "a managed variable after it", value, 10);
    EQUAL(cudaDeviceReset, "the host reads it", managed_value, 10);
    RUNTIME("a variable", cudaSuccess, cudaMemcpyFromSymbol, &value, device_value, 4);
    EQUAL(cudaDeviceReset, "a variable begins anew", value, 8);
    managed_value = 30;
    Bump<<<1, 1>>>();
    cudaDeviceSynchronize();
    EQUAL(cudaDeviceReset, "what the host wrote", managed_value, 31);
    int* words = Pinned();
    Set<<<kBlocks, kThreads>>>(words, kWords, round);
    cudaDeviceSynchronize();
    EQUAL(cudaDeviceReset, "page-locked memory after it", Wrong(words, round), 0);
    std::thread([&] {
      int *device = nullptr, out = 0;
      cudaMalloc(&device, 64);
      Set<<<1, 1, 0, cudaStreamPerThread>>>(device, 1, 40 + round);
      cudaMemcpyAsync(&out, device, 4, cudaMemcpyDeviceToHost, cudaStreamPerThread);
      cudaStreamSynchronize(cudaStreamPerThread);
      EQUAL(cudaDeviceReset, "a thread's own stream after it", out, 40 + round);
    }).join();
    RUNTIME("with all of these", cudaSuccess, cudaDeviceReset);
  }
  // A thread that was there before the reset, and its stream.
  int *device = nullptr, out = 0;
  cudaMalloc(&device, 64);
  Set<<<1, 1, 0, cudaStreamPerThread>>>(device, 1, 3);
  cudaStreamSynchronize(cudaStreamPerThread);
  RUNTIME("with a thread's own stream", cudaSuccess, cudaDeviceReset);
  RUNTIME("after it", cudaSuccess, cudaMalloc, &device, 64);
  Set<<<1, 1, 0, cudaStreamPerThread>>>(device, 1, 4);
  cudaMemcpyAsync(&out, device, 4, cudaMemcpyDeviceToHost, cudaStreamPerThread);
  RUNTIME("after a reset", cudaSuccess, cudaStreamSynchronize, cudaStreamPerThread);
  EQUAL(cudaDeviceReset, "the thread's own stream goes on", out, 4);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "pinned",
             {{"kinds", Kinds},
              {"pointers", Pointers},
              {"copies", Copies},
              {"streams", Streams},
              {"threads", Threads},
              {"graphs", Graphs},
              {"registered", Registered},
              {"large", Large},
              {"resets", Resets}});
}
