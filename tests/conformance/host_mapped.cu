// Host memory that kernels read and write: allocated mapped, pinned and registered.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "setting.h"

namespace conformance {
namespace {

constexpr unsigned kWords = 1 << 16;
constexpr size_t kBytes = kWords * sizeof(unsigned);

struct Kernels {
  CUmodule module = nullptr;
  CUfunction affine = nullptr, store = nullptr;
};

bool Load(Kernels* kernels) {
  return Begin() && LoadModule(&kernels->module) &&
         Kernel(&kernels->affine, kernels->module, "affine") &&
         Kernel(&kernels->store, kernels->module, "store");
}

// out[i] = a * in[i] + b for all words, on `stream`.
CUresult Affine(const Kernels& kernels, CUdeviceptr out, CUdeviceptr in, unsigned a, unsigned b,
                CUstream stream = nullptr) {
  unsigned n = kWords;
  void* parameters[] = {&out, &in, &a, &b, &n};
  return CU(cuLaunchKernel)(kernels.affine, kWords / 256, 1, 1, 256, 1, 1, 0, stream, parameters,
                            nullptr);
}

unsigned WrongWords(const unsigned* words, unsigned first, unsigned step) {
  unsigned wrong = 0;
  for (unsigned i = 0; i < kWords; ++i) wrong += words[i] != first + i * step;
  return wrong;
}

void Count(unsigned* words) {
  for (unsigned i = 0; i < kWords; ++i) words[i] = i;
}

// Goes both ways several times, with nothing but launches and synchronizations in between.
void Mapped() {
  Kernels kernels;
  if (!Load(&kernels)) return;
  void *in = nullptr, *out = nullptr;
  CUdeviceptr device_in = 0, device_out = 0;
  SETUP(cuMemHostAlloc, &in, kBytes, CU_MEMHOSTALLOC_DEVICEMAP);
  SETUP(cuMemHostAlloc, &out, kBytes, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
  CALL("mapped", CUDA_SUCCESS, cuMemHostGetDevicePointer, &device_in, in, 0);
  CALL("mapped and portable", CUDA_SUCCESS, cuMemHostGetDevicePointer, &device_out, out, 0);
  HOLDS(cuMemHostGetDevicePointer, "same address on both sides",
        device_in == reinterpret_cast<CUdeviceptr>(in), "%llx of %p", device_in, in);
  auto* words_in = static_cast<unsigned*>(in);
  auto* words_out = static_cast<unsigned*>(out);
  Count(words_in);
  SETUP(cuCtxSynchronize);
  Mark("cuLaunchKernel", "with mapped memory");
  Judge(CUDA_SUCCESS, Affine(kernels, device_out, device_in, 3, 5));
  SETUP(cuCtxSynchronize);
  unsigned wrong = WrongWords(words_out, 5, 3);
  HOLDS(cuMemHostAlloc, "kernels read and write it", wrong == 0, "%u wrong words", wrong);
  for (unsigned round = 0; round < 3; ++round) {
    words_in[round * 1000] += 7;
    Affine(kernels, device_out, device_in, 1, 0);
    CU(cuCtxSynchronize)();
    wrong = words_out[round * 1000] != round * 1000 + 7 || words_out[kWords - 1] != kWords - 1;
    HOLDS(cuMemHostAlloc, "what the host changes is seen by the next launch", wrong == 0,
          "in round %u", round);
  }
  // Passes the host's own pointer, as UVA allows.
  Affine(kernels, reinterpret_cast<CUdeviceptr>(out), reinterpret_cast<CUdeviceptr>(in), 0, 9);
  CU(cuCtxSynchronize)();
  EQUAL(cuMemHostAlloc, "the host's pointer in a kernel", words_out[4711], 9u);
  CALL("mapped", CUDA_SUCCESS, cuMemFreeHost, in);
  CALL("mapped and portable", CUDA_SUCCESS, cuMemFreeHost, out);
  CALL("freed", CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer, &device_in, in, 0);
}

// Does what libraries do: uses a few bytes, for a flag or a scalar.
void Small() {
  Kernels kernels;
  if (!Load(&kernels)) return;
  void* flag = nullptr;
  CUdeviceptr device = 0;
  CALL("4 bytes", CUDA_SUCCESS, cuMemHostAlloc, &flag, 4, CU_MEMHOSTALLOC_DEVICEMAP);
  CALL("4 bytes", CUDA_SUCCESS, cuMemHostGetDevicePointer, &device, flag, 0);
  volatile unsigned* word = static_cast<unsigned*>(flag);
  unsigned wrong = 0;
  for (unsigned i = 0; i < 100; ++i) {
    *word = 0;
    void* parameters[] = {&device, &i};
    CU(cuLaunchKernel)(kernels.store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
    CU(cuStreamSynchronize)(nullptr);
    wrong += *word != i;
  }
  HOLDS(cuMemHostAlloc, "a flag is set by each of 100 kernels", wrong == 0, "%u were not", wrong);
  // Values of parameters may lie in mapped memory, too.
  *word = 1234;
  void* parameters[] = {&device, flag};
  CALL("a parameter in mapped memory", CUDA_SUCCESS, cuLaunchKernel, kernels.store, 1, 1, 1, 1, 1,
       1, 0, nullptr, parameters, nullptr);
  CU(cuStreamSynchronize)(nullptr);
  EQUAL(cuLaunchKernel, "a parameter in mapped memory is read", *word, 1234u);
}

void Pinned() {
  Kernels kernels;
  if (!Load(&kernels)) return;
  void* memory = nullptr;
  CUdeviceptr device = 0;
  SETUP(cuMemAllocHost, &memory, kBytes);
  auto* words = static_cast<unsigned*>(memory);
  Count(words);
  CALL("pinned", CUDA_SUCCESS, cuMemHostGetDevicePointer, &device, memory, 0);
  Affine(kernels, device, device, 2, 1);
  CU(cuCtxSynchronize)();
  unsigned wrong = WrongWords(words, 1, 2);
  HOLDS(cuMemAllocHost, "kernels read and write it", wrong == 0, "%u wrong words", wrong);
  CALL("inside", CUDA_SUCCESS, cuMemHostGetDevicePointer, &device, words + 100, 0);
  unsigned value = 77;
  void* parameters[] = {&device, &value};
  CU(cuLaunchKernel)(kernels.store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  CU(cuCtxSynchronize)();
  EQUAL(cuMemHostGetDevicePointer, "inside is inside", words[100], 77u);
  CALL("pinned", CUDA_SUCCESS, cuMemFreeHost, memory);
}

void Registered() {
  Kernels kernels;
  if (!Load(&kernels)) return;
  void* memory = std::aligned_alloc(4096, kBytes);
  auto* words = static_cast<unsigned*>(memory);
  Count(words);
  CUdeviceptr device = 0;
  CALL("64 Ki words", CUDA_SUCCESS, cuMemHostRegister, memory, kBytes,
       CU_MEMHOSTREGISTER_DEVICEMAP);
  CALL("registered", CUDA_SUCCESS, cuMemHostGetDevicePointer, &device, memory, 0);
  Affine(kernels, device, device, 2, 1);
  CU(cuCtxSynchronize)();
  unsigned wrong = WrongWords(words, 1, 2);
  HOLDS(cuMemHostRegister, "kernels read and write it", wrong == 0, "%u wrong words", wrong);
  // Copies to and from it, while kernels use it, too.
  CUdeviceptr linear = 0;
  SETUP(cuMemAlloc, &linear, kBytes);
  CALL("from registered memory", CUDA_SUCCESS, cuMemcpyHtoD, linear, memory, kBytes);
  CALL("on the device", CUDA_SUCCESS, cuMemsetD32, linear, 5, kWords / 2);
  CALL("to registered memory", CUDA_SUCCESS, cuMemcpyDtoHAsync, memory, linear, kBytes, nullptr);
  Affine(kernels, device, device, 2, 1);
  CALL("registered", CUDA_SUCCESS, cuMemHostUnregister, memory);
  HOLDS(cuMemHostUnregister, "what kernels wrote stays",
        words[0] == 11 && words[kWords - 1] == 4 * kWords - 1, "%u and %u", words[0],
        words[kWords - 1]);
  words[7] = 1;
  std::free(memory);
}

template <typename T>
T Attribute(CUpointer_attribute id, const char* name, const void* address) {
  T value = {};
  CALL(name, CUDA_SUCCESS, cuPointerGetAttribute, &value, id,
       reinterpret_cast<CUdeviceptr>(address));
  return value;
}

void Attributes() {
  if (!Begin()) return;
  void* memory = nullptr;
  SETUP(cuMemHostAlloc, &memory, 8192, CU_MEMHOSTALLOC_DEVICEMAP);
  const char* inside = static_cast<const char*>(memory) + 100;
  const auto address = reinterpret_cast<uint64_t>(inside);
  EQUAL(cuPointerGetAttribute, "mapped memory is the host's",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "MEMORY_TYPE, mapped", inside),
        CU_MEMORYTYPE_HOST);
  EQUAL(cuPointerGetAttribute, "mapped memory on the device",
        Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, "DEVICE_POINTER, mapped", inside),
        address);
  EQUAL(cuPointerGetAttribute, "mapped memory on the host",
        Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_HOST_POINTER, "HOST_POINTER, mapped", inside),
        address);
  EQUAL(cuPointerGetAttribute, "mapped memory is not managed",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, "IS_MANAGED, mapped", inside) & 0xff,
        0);
  EQUAL(cuPointerGetAttribute, "mapped memory is mapped",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MAPPED, "MAPPED, mapped", inside) & 0xff, 1);
  unsigned flags = 0;
  CALL("mapped", CUDA_SUCCESS, cuMemHostGetFlags, &flags, memory);
  HOLDS(cuMemHostGetFlags, "of mapped memory", (flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0, "%u",
        flags);
  int value = 0;
  CALL("mapped memory", CUDA_SUCCESS, cuDeviceGetAttribute, &value,
       CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0);
  EQUAL(cuDeviceGetAttribute, "can map host memory", value, 1);
}

// Copies and fills with mapped memory on either side.
void Copies() {
  Kernels kernels;
  if (!Load(&kernels)) return;
  void* memory = nullptr;
  CUdeviceptr linear = 0;
  SETUP(cuMemHostAlloc, &memory, kBytes, CU_MEMHOSTALLOC_DEVICEMAP);
  SETUP(cuMemAlloc, &linear, kBytes);
  auto* words = static_cast<unsigned*>(memory);
  const auto mapped = reinterpret_cast<CUdeviceptr>(memory);
  std::vector<unsigned> plain(kWords);
  Count(words);
  CALL("from mapped memory", CUDA_SUCCESS, cuMemcpyHtoD, linear, memory, kBytes);
  Affine(kernels, linear, linear, 1, 1);
  CALL("to mapped memory", CUDA_SUCCESS, cuMemcpyDtoH, memory, linear, kBytes);
  unsigned wrong = WrongWords(words, 1, 1);
  HOLDS(cuMemcpyDtoH, "to mapped memory arrives", wrong == 0, "%u wrong words", wrong);
  words[3] = 99;
  CALL("from mapped memory by address", CUDA_SUCCESS, cuMemcpy, linear, mapped, kBytes);
  CALL("to plain memory", CUDA_SUCCESS, cuMemcpyDtoH, plain.data(), linear, kBytes);
  EQUAL(cuMemcpy, "from mapped memory arrives", plain[3], 99u);
  words[5] = 98;
  CALL("mapped to plain", CUDA_SUCCESS, cuMemcpy, reinterpret_cast<CUdeviceptr>(plain.data()),
       mapped, kBytes);
  EQUAL(cuMemcpy, "mapped to plain arrives", plain[5], 98u);
  CALL("a part of mapped memory", CUDA_SUCCESS, cuMemsetD32, mapped + 4000, 0x5a, 1000);
  CU(cuCtxSynchronize)();
  HOLDS(cuMemsetD32, "a part of mapped memory",
        words[1000] == 0x5a && words[1999] == 0x5a && words[999] == 1000 && words[2000] == 2001,
        "%u %u %u %u", words[999], words[1000], words[1999], words[2000]);
  CUDA_MEMCPY2D box = {};
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.srcHost = memory;
  box.srcPitch = 256;
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = linear;
  box.dstPitch = 64;
  box.WidthInBytes = 64;
  box.Height = 16;
  words[64] = 4321;
  CALL("rows of mapped memory", CUDA_SUCCESS, cuMemcpy2D, &box);
  CALL("to plain memory", CUDA_SUCCESS, cuMemcpyDtoH, plain.data(), linear, 1024);
  EQUAL(cuMemcpy2D, "rows of mapped memory arrive", plain[16], 4321u);
}

void Write(void* data) { *static_cast<unsigned*>(data) += 100; }

// Runs a host function between two kernels.
void HostFunction() {
  Kernels kernels;
  if (!Load(&kernels)) return;
  void* memory = nullptr;
  CUstream stream = nullptr;
  SETUP(cuMemHostAlloc, &memory, kBytes, CU_MEMHOSTALLOC_DEVICEMAP);
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  const auto device = reinterpret_cast<CUdeviceptr>(memory);
  auto* words = static_cast<unsigned*>(memory);
  Count(words);
  Affine(kernels, device, device, 1, 1, stream);
  CALL("on mapped memory", CUDA_SUCCESS, cuLaunchHostFunc, stream, Write, memory);
  Affine(kernels, device, device, 2, 0, stream);
  CU(cuStreamSynchronize)(stream);
  EQUAL(cuLaunchHostFunc, "reads the kernel's before and is read by the one after", words[0], 202u);
  EQUAL(cuLaunchHostFunc, "the rest is the kernels'", words[kWords - 1], 2 * kWords);
}

// Whether host and device have one memory: where both are on one host, unless it is turned off.
bool OneMemory() {
  const char* share = std::getenv("WARPLINE_SHARE_MEMORY");
  return share == nullptr || std::strcmp(share, "0") != 0;
}

// A kernel waits for the host and the host for the kernel, without a call in between, in two pages
// that the device has at `device`. Returns the kernel's answer.
unsigned WaitForEachOther(void* memory, CUdeviceptr device) {
  Kernels kernels;
  CUfunction await_word = nullptr;
  if (!Load(&kernels) || !Kernel(&await_word, kernels.module, "await_word")) return 0;
  auto* flag = static_cast<volatile unsigned*>(memory);
  auto* answer = flag + 1024;
  *flag = *answer = 0;
  CUdeviceptr device_answer = device + 4096;
  void* parameters[] = {&device, &device_answer};
  Mark("cuLaunchKernel", "setup");
  if (!Setup(CU(cuLaunchKernel)(await_word, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr))) {
    return 0;
  }
  *flag = 41;
  while (*answer == 0) {
  }
  CU(cuCtxSynchronize)();
  return *answer;
}

void Polled() {
  if (!OneMemory() || !Begin()) return;
  void* memory = nullptr;
  SETUP(cuMemHostAlloc, &memory, 8192, 0);
  EQUAL(cuMemHostAlloc, "a kernel and the host wait for each other",
        WaitForEachOther(memory, reinterpret_cast<CUdeviceptr>(memory)), 42u);
}

void PolledRegistered() {
  if (!OneMemory() || !Begin()) return;
  void* memory = std::aligned_alloc(4096, 8192);
  CUdeviceptr device = 0;
  SETUP(cuMemHostRegister, memory, 8192, CU_MEMHOSTREGISTER_DEVICEMAP);
  SETUP(cuMemHostGetDevicePointer, &device, memory, 0);
  EQUAL(cuMemHostRegister, "a kernel and the host wait for each other",
        WaitForEachOther(memory, device), 42u);
  CALL("in use before", CUDA_SUCCESS, cuMemHostUnregister, memory);
  std::free(memory);
}

// Has a kernel add 1 to `value`, which is registered.
void AddOne(const Kernels& kernels, unsigned* value) {
  CUdeviceptr device = 0;
  CALL("a variable", CUDA_SUCCESS, cuMemHostRegister, value, sizeof(*value),
       CU_MEMHOSTREGISTER_DEVICEMAP);
  CALL("a variable", CUDA_SUCCESS, cuMemHostGetDevicePointer, &device, value, 0);
  unsigned a = 1, b = 1, n = 1;
  void* parameters[] = {&device, &device, &a, &b, &n};
  CU(cuLaunchKernel)(kernels.affine, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  CU(cuCtxSynchronize)();
}

// Small pieces of the heap share their pages with the C library's own data and with others' memory,
// which every thread uses meanwhile.
void SmallPieces() {
  Kernels kernels;
  if (!Load(&kernels)) return;
  constexpr size_t kEach = 50;
  std::vector<void*> pieces;
  for (size_t i = 0; i < 40 * kEach; ++i) pieces.push_back(std::malloc(64 + i % 7 * 16));
  std::vector<unsigned*> registered;
  std::vector<CUdeviceptr> devices;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i % kEach != 0) {
      if (i % 2 != 0) std::free(pieces[i]);
      continue;
    }
    auto* const words = static_cast<unsigned*>(pieces[i]);
    std::memset(words, 0, 64);
    CALL("a piece", CUDA_SUCCESS, cuMemHostRegister, words, 64, CU_MEMHOSTREGISTER_DEVICEMAP);
    CUdeviceptr device = 0;
    CALL("a piece", CUDA_SUCCESS, cuMemHostGetDevicePointer, &device, words, 0);
    registered.push_back(words);
    devices.push_back(device);
  }
  unsigned wrong = 0;
  for (unsigned round = 1; round <= 5; ++round) {
    unsigned a = 1, b = 1, n = 16;
    for (CUdeviceptr device : devices) {
      void* parameters[] = {&device, &device, &a, &b, &n};
      CU(cuLaunchKernel)(kernels.affine, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
    }
    CU(cuCtxSynchronize)();
    for (unsigned* words : registered) {
      wrong += words[3] != 2 * round - 1;
      ++words[3];
    }
    for (size_t bytes = 40; bytes < 2000; bytes += 24) std::free(std::malloc(bytes));
  }
  EQUAL(cuMemHostRegister, "small pieces, host and kernel in turn", wrong, 0u);
  for (unsigned* words : registered) {
    CALL("a piece", CUDA_SUCCESS, cuMemHostUnregister, words);
    wrong += words[3] != 10 || words[0] != 5;
  }
  EQUAL(cuMemHostUnregister, "small pieces", wrong, 0u);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i % kEach == 0 || i % 2 == 0) std::free(pieces[i]);
  }
}

unsigned Deep(unsigned depth) {
  volatile unsigned char frame[4096];
  frame[depth % 4096] = static_cast<unsigned char>(depth);
  return depth == 0 ? 0 : frame[depth % 4096] + Deep(depth - 1);
}

// Runs `body` on a thread whose stack has 64 KiB.
template <typename Body>
void RunOnSmallStack(const Body& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  const auto run = [](void* argument) -> void* {
    (*static_cast<const Body*>(argument))();
    return nullptr;
  };
  pthread_t thread;
  if (pthread_create(&thread, &attributes, run, const_cast<Body*>(&body)) == 0) {
    pthread_join(thread, nullptr);
  }
  pthread_attr_destroy(&attributes);
}

CUcontext Current() {
  CUcontext context = nullptr;
  CU(cuCtxGetCurrent)(&context);
  return context;
}

// Creates threads while it lives. The C library blocks all signals for a moment for each.
class ThreadsComeAndGo {
 public:
  ThreadsComeAndGo() {
    while (!begun_.load()) std::this_thread::yield();
  }
  ~ThreadsComeAndGo() {
    stop_.store(true);
    creator_.join();
  }

 private:
  std::atomic<bool> begun_{false}, stop_{false};
  std::thread creator_{[this] {
    while (!stop_.load()) {
      std::thread([] {}).join();
      begun_.store(true);
    }
  }};
};

// Variables on the stack, two of them in one page, which is in use all the time.
void OnTheStack() {
  if (!OneMemory()) return;
  Kernels kernels;
  if (!Load(&kernels)) return;
  const ThreadsComeAndGo others;
  unsigned first = 41, second = 7;
  AddOne(kernels, &first);
  AddOne(kernels, &second);
  EQUAL(cuMemHostRegister, "on the stack", first, 42u);
  EQUAL(cuMemHostRegister, "beside it", second, 8u);
  HOLDS(cuMemHostRegister, "the stack grows on", Deep(300) != 0, "no sum");
  // A thread with a small stack registers memory meanwhile.
  auto* const on_the_heap = static_cast<unsigned*>(std::aligned_alloc(4096, 4096));
  *on_the_heap = 20;
  RunOnSmallStack([&, context = Current()] {
    CU(cuCtxSetCurrent)(context);
    AddOne(kernels, on_the_heap);
  });
  EQUAL(cuMemHostRegister, "by a thread with a small stack", *on_the_heap, 21u);
  CALL("by a thread with a small stack", CUDA_SUCCESS, cuMemHostUnregister, on_the_heap);
  std::free(on_the_heap);
  CALL("on the stack", CUDA_SUCCESS, cuMemHostUnregister, &first);
  CALL("beside it", CUDA_SUCCESS, cuMemHostUnregister, &second);
  EQUAL(cuMemHostUnregister, "on the stack", first, 42u);
  unsigned on_a_thread = 99;
  std::thread thread([&] {
    CUcontext context = nullptr;
    CU(cuDevicePrimaryCtxRetain)(&context, 0);
    CU(cuCtxSetCurrent)(context);
    // Not in the page of the thread's own block, which is at the very top.
    volatile unsigned char away[16384];
    away[0] = 1;
    unsigned local = 5 + away[0];
    AddOne(kernels, &local);
    on_a_thread = local;
    CU(cuMemHostUnregister)(&local);
    CU(cuDevicePrimaryCtxRelease)(0);
  });
  thread.join();
  EQUAL(cuMemHostRegister, "on a thread's stack", on_a_thread, 7u);
}

// Beside a thread that has blocked all signals for good, pages are not moved. Whole pages of a
// stack in use cannot be followed by faults either, so they are refused, where heap memory is not.
// Parts of pages are copied before and after work.
void BesideBlockedSignals() {
  Kernels kernels;
  if (!Load(&kernels)) return;
  std::atomic<bool> blocked{false}, stop{false};
  int ends[2];
  if (pipe(ends) != 0) return;
  std::thread sleeper([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    blocked.store(true);
    char none;
    while (read(ends[0], &none, 1) < 0) {
    }
  });
  while (!blocked.load()) std::this_thread::yield();
  unsigned local = 5;
  CUdeviceptr device = 0;
  CALL("a variable", CUDA_SUCCESS, cuMemHostRegister, &local, sizeof(local),
       CU_MEMHOSTREGISTER_DEVICEMAP);
  CALL("a variable", CUDA_SUCCESS, cuMemHostUnregister, &local);
  AddOne(kernels, &local);
  EQUAL(cuMemHostRegister, "on the stack, beside blocked signals", local, 6u);
  CALL("a variable", CUDA_SUCCESS, cuMemHostUnregister, &local);
  unsigned pages[4096];
  CALL("pages", CUDA_SUCCESS, cuMemHostRegister, pages, sizeof(pages),
       CU_MEMHOSTREGISTER_DEVICEMAP);
  REFUSED("pages of the stack, beside blocked signals", CUDA_SUCCESS, cuMemHostGetDevicePointer,
          &device, pages, 0);
  CALL("pages", CUDA_SUCCESS, cuMemHostUnregister, pages);
  std::thread([&] {
    CUcontext context = nullptr;
    CU(cuDevicePrimaryCtxRetain)(&context, 0);
    CU(cuCtxSetCurrent)(context);
    unsigned on_a_thread = 6;
    CALL("a variable", CUDA_SUCCESS, cuMemHostRegister, &on_a_thread, sizeof(on_a_thread),
         CU_MEMHOSTREGISTER_DEVICEMAP);
    CALL("a variable", CUDA_SUCCESS, cuMemHostUnregister, &on_a_thread);
    AddOne(kernels, &on_a_thread);
    EQUAL(cuMemHostRegister, "on a thread's stack, beside blocked signals", on_a_thread, 7u);
    CALL("a variable", CUDA_SUCCESS, cuMemHostUnregister, &on_a_thread);
    CU(cuDevicePrimaryCtxRelease)(0);
  }).join();
  auto* heap = static_cast<unsigned*>(std::aligned_alloc(4096, 4096));
  *heap = 41;
  AddOne(kernels, heap);
  EQUAL(cuMemHostRegister, "on the heap, beside blocked signals", *heap, 42u);
  CALL("on the heap", CUDA_SUCCESS, cuMemHostUnregister, heap);
  std::free(heap);
  if (write(ends[1], "x", 1) == 1) sleeper.join();
  close(ends[0]);
  close(ends[1]);
}

// What lies in the same pages is written by other threads while they are registered and
// unregistered again and again, and nothing is lost.
void Neighbours() {
  if (!Begin()) return;
  constexpr size_t kWhole = 8 << 20;
  auto* memory = static_cast<unsigned char*>(std::aligned_alloc(4096, kWhole));
  std::memset(memory, 0, kWhole);
  std::atomic<bool> stop{false};
  unsigned counts[3] = {};
  std::vector<std::thread> writers;
  for (unsigned i = 0; i < 3; ++i) {
    writers.emplace_back([&, i] {
      // Before, behind and in the middle of what is registered.
      volatile unsigned* const places[] = {reinterpret_cast<unsigned*>(memory),
                                           reinterpret_cast<unsigned*>(memory + kWhole - 4),
                                           reinterpret_cast<unsigned*>(memory + kWhole / 2)};
      while (!stop.load()) {
        *places[i] = *places[i] + 1;
        ++counts[i];
      }
    });
  }
  for (int round = 0; round < 10; ++round) {
    CUdeviceptr device = 0;
    CU(cuMemHostRegister)(memory + 100, kWhole - 200, CU_MEMHOSTREGISTER_DEVICEMAP);
    CU(cuMemHostGetDevicePointer)(&device, memory + 100, 0);
    CU(cuMemHostUnregister)(memory + 100);
  }
  stop.store(true);
  for (std::thread& writer : writers) writer.join();
  const unsigned lost = counts[0] - *reinterpret_cast<unsigned*>(memory) + counts[1] -
                        *reinterpret_cast<unsigned*>(memory + kWhole - 4) + counts[2] -
                        *reinterpret_cast<unsigned*>(memory + kWhole / 2);
  EQUAL(cuMemHostRegister, "no write of another thread is lost", lost, 0u);
  std::free(memory);
}

// A fork from a function whose frame lies in a page that the device shares, which goes on sharing
// it.
void ForkedOnTheStack() {
  if (!OneMemory()) return;
  Kernels kernels;
  if (!Load(&kernels)) return;
  unsigned value = 1;
  CUdeviceptr device = 0;
  SETUP(cuMemHostRegister, &value, sizeof(value), CU_MEMHOSTREGISTER_DEVICEMAP);
  SETUP(cuMemHostGetDevicePointer, &device, &value, 0);
  unsigned wrong = 0;
  for (unsigned round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) _exit(Deep(3) != 0 && value == round + 1 ? 0 : 1);
    wrong += Deep(5) == 0;
    int status = -1;
    waitpid(child, &status, 0);
    wrong += status != 0;
    unsigned a = 1, b = 1, n = 1;
    void* parameters[] = {&device, &device, &a, &b, &n};
    CU(cuLaunchKernel)(kernels.affine, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
    CU(cuCtxSynchronize)();
    wrong += value != round + 2;
  }
  EQUAL(cuMemHostRegister, "20 forks from a frame in such a page", wrong, 0u);
  CALL("on the stack", CUDA_SUCCESS, cuMemHostUnregister, &value);
}

// The child of a fork has the bytes of that moment, whatever parent and child write afterwards.
void Forked() {
  if (!Begin()) return;
  auto* memory = static_cast<unsigned*>(std::aligned_alloc(4096, 16384));
  memory[0] = 11;
  memory[2048] = 12;
  CUdeviceptr device = 0;
  SETUP(cuMemHostRegister, memory, 8192, CU_MEMHOSTREGISTER_DEVICEMAP);
  SETUP(cuMemHostGetDevicePointer, &device, memory, 0);
  int go[2];
  if (pipe(go) != 0) return;
  const pid_t child = fork();
  if (child == 0) {
    char word;
    const bool told = read(go[0], &word, 1) == 1;
    const bool right = told && memory[0] == 11 && memory[2048] == 12;
    memory[1] = 77;
    _exit(right ? 0 : 1);
  }
  memory[0] = 99;
  memory[1] = 98;
  const bool told = write(go[1], "x", 1) == 1;
  int status = -1;
  waitpid(child, &status, 0);
  HOLDS(cuMemHostRegister, "the child of a fork has a copy", told && status == 0, "status %d",
        status);
  EQUAL(cuMemHostRegister, "what the child writes is its own", memory[1], 98u);
  close(go[0]);
  close(go[1]);
  CALL("after a fork", CUDA_SUCCESS, cuMemHostUnregister, memory);
  std::free(memory);
}

// The pages are the program's to unmap, registered or not.
void UnmappedFirst() {
  if (!Begin()) return;
  void* memory = mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUdeviceptr device = 0;
  SETUP(cuMemHostRegister, memory, 16384, CU_MEMHOSTREGISTER_DEVICEMAP);
  SETUP(cuMemHostGetDevicePointer, &device, memory, 0);
  munmap(memory, 16384);
  auto* again = static_cast<unsigned*>(
      mmap(memory, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  again[5] = 55;
  CALL("unmapped meanwhile", CUDA_SUCCESS, cuMemHostUnregister, memory);
  EQUAL(cuMemHostUnregister, "what is there now stays", again[5], 55u);
  munmap(again, 16384);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "host_mapped",
             {{"mapped", Mapped},
              {"small", Small},
              {"small_pieces", SmallPieces},
              {"pinned", Pinned},
              {"registered", Registered},
              {"attributes", Attributes},
              {"copies", Copies},
              {"host_function", HostFunction},
              {"polled", Polled},
              {"polled_registered", PolledRegistered},
              {"on_the_stack", OnTheStack},
              {"beside_blocked_signals", BesideBlockedSignals},
              {"neighbours", Neighbours},
              {"forked", Forked},
              {"forked_on_the_stack", ForkedOnTheStack},
              {"unmapped_first", UnmappedFirst}});
}
