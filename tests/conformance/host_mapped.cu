// Host memory that kernels read and write: allocated mapped, pinned and registered.
#include <sys/mman.h>

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

// A kernel waits for the host and the host for the kernel, without a call in between. This works
// only where both are on one host and share the memory.
void Polled() {
  const char* share = std::getenv("WARPLINE_SHARE_MEMORY");
  if (share != nullptr && std::strcmp(share, "0") == 0) return;
  Kernels kernels;
  CUfunction await_word = nullptr;
  if (!Load(&kernels) || !Kernel(&await_word, kernels.module, "await_word")) return;
  void* memory = nullptr;
  SETUP(cuMemHostAlloc, &memory, 8192, 0);
  auto* flag = static_cast<volatile unsigned*>(memory);
  auto* answer = flag + 1024;
  auto flag_address = reinterpret_cast<CUdeviceptr>(memory), answer_address = flag_address + 4096;
  void* parameters[] = {&flag_address, &answer_address};
  SETUP(cuLaunchKernel, await_word, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  *flag = 41;
  while (*answer == 0) {
  }
  EQUAL(cuMemHostAlloc, "a kernel and the host wait for each other", *answer, 42u);
  SETUP(cuCtxSynchronize);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "host_mapped",
             {{"mapped", Mapped},
              {"small", Small},
              {"pinned", Pinned},
              {"registered", Registered},
              {"attributes", Attributes},
              {"copies", Copies},
              {"host_function", HostFunction},
              {"polled", Polled}});
}
