// Pinned host memory: allocated and registered.
#include "setting.h"

namespace conformance {
namespace {

void Allocated() {
  if (!Begin()) return;
  void *memory = nullptr, *other = nullptr;
  unsigned flags = 99;
  CALL("4 KiB", CUDA_SUCCESS, cuMemAllocHost, &memory, 4096);
  std::memset(memory, 1, 4096);
  CALL("of cuMemAllocHost", CUDA_SUCCESS, cuMemHostGetFlags, &flags, memory);
  CALL("portable", CUDA_SUCCESS, cuMemHostAlloc, &other, 70000,
       CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED);
  CALL("portable", CUDA_SUCCESS, cuMemHostGetFlags, &flags, other);
  HOLDS(cuMemHostGetFlags, "those it was allocated with",
        (flags & (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED)) ==
            (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED),
        "%u", flags);
  int local = 0;
  CALL("memory unknown to CUDA", CUDA_ERROR_INVALID_VALUE, cuMemHostGetFlags, &flags, &local);
  CALL("nothing", CUDA_SUCCESS, cuMemHostAlloc, &other, 0, 0);
  HOLDS(cuMemHostAlloc, "nothing is nowhere", other == nullptr, "%p", other);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc, &other, 4096, 0x80000000u);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuMemAllocHost, nullptr, 4096);
  CALL("nothing", CUDA_SUCCESS, cuMemAllocHost, &other, 0);
  CALL("memory unknown to CUDA", CUDA_ERROR_INVALID_VALUE, cuMemFreeHost, &local);
  CALL("inside an allocation", CUDA_ERROR_INVALID_VALUE, cuMemFreeHost,
       static_cast<char*>(memory) + 16);
  CALL("an allocation", CUDA_SUCCESS, cuMemFreeHost, memory);
  CALL("twice", CUDA_ERROR_INVALID_VALUE, cuMemFreeHost, memory);
}

// Frees memory while a copy uses it: the free waits.
void InUse() {
  if (!Begin()) return;
  constexpr size_t kSize = 4 << 20;
  void* memory = nullptr;
  CUdeviceptr device = 0;
  CUstream stream = nullptr;
  SETUP(cuMemAllocHost, &memory, kSize);
  SETUP(cuMemAlloc, &device, kSize);
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  std::memset(memory, 0x3c, kSize);
  SETUP(cuMemcpyHtoDAsync, device, memory, kSize, stream);
  CALL("in use", CUDA_SUCCESS, cuMemFreeHost, memory);
  SETUP(cuStreamSynchronize, stream);
  std::vector<unsigned char> bytes(kSize);
  SETUP(cuMemcpyDtoH, bytes.data(), device, kSize);
  size_t wrong = 0;
  for (const unsigned char byte : bytes) wrong += byte != 0x3c;
  HOLDS(cuMemFreeHost, "a copy in flight is complete", wrong == 0, "%zu wrong bytes", wrong);
}

void Registered() {
  if (!Begin()) return;
  constexpr size_t kSize = 65536;
  void* memory = std::aligned_alloc(4096, 2 * kSize);
  unsigned flags = 99;
  std::memset(memory, 0x77, 2 * kSize);
  CALL("64 KiB", CUDA_SUCCESS, cuMemHostRegister, memory, kSize, CU_MEMHOSTREGISTER_PORTABLE);
  CALL("again", CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister, memory, kSize, 0);
  CALL("overlapping", CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister,
       static_cast<char*>(memory) + kSize / 2, kSize, 0);
  CALL("registered", CUDA_SUCCESS, cuMemHostGetFlags, &flags, memory);
  CUdeviceptr device = 0;
  std::vector<unsigned char> bytes(kSize);
  SETUP(cuMemAlloc, &device, kSize);
  CALL("registered", CUDA_SUCCESS, cuMemcpyHtoDAsync, device, memory, kSize, nullptr);
  SETUP(cuMemcpyDtoH, bytes.data(), device, kSize);
  HOLDS(cuMemHostRegister, "copies from it arrive", bytes[0] == 0x77 && bytes[kSize - 1] == 0x77,
        "%02x and %02x", bytes[0], bytes[kSize - 1]);
  CALL("inside", CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister, static_cast<char*>(memory) + 4096);
  CALL("freed instead of unregistered", CUDA_ERROR_INVALID_VALUE, cuMemFreeHost, memory);
  CALL("registered", CUDA_SUCCESS, cuMemHostUnregister, memory);
  CALL("twice", CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister, memory);
  CALL("none", CUDA_ERROR_INVALID_VALUE, cuMemHostRegister, nullptr, kSize, 0);
  CALL("nothing", CUDA_ERROR_INVALID_VALUE, cuMemHostRegister, memory, 0, 0);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuMemHostRegister, memory, kSize, 0x80000000u);
  void* allocated = nullptr;
  SETUP(cuMemAllocHost, &allocated, kSize);
  CALL("allocated memory", CUDA_ERROR_INVALID_VALUE, cuMemHostRegister, allocated, kSize, 0);
  CALL("allocated memory", CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister, allocated);
  std::free(memory);
}

// host_mapped checks what kernels do with it.
void Mapped() {
  if (!Begin()) return;
  void *mapped = nullptr, *memory = nullptr;
  CUdeviceptr device = 0;
  if (CALL("mapped", CUDA_SUCCESS, cuMemHostAlloc, &mapped, 4096, CU_MEMHOSTALLOC_DEVICEMAP) &&
      CALL("mapped", CUDA_SUCCESS, cuMemHostGetDevicePointer, &device, mapped, 0)) {
    HOLDS(cuMemHostGetDevicePointer, "same address on both sides",
          device == reinterpret_cast<CUdeviceptr>(mapped), "another address");
  }
  SETUP(cuMemAllocHost, &memory, 4096);
  CALL("pinned", CUDA_SUCCESS, cuMemHostGetDevicePointer, &device, memory, 0);
  void* pages = std::aligned_alloc(4096, 4096);
  if (CALL("mapped", CUDA_SUCCESS, cuMemHostRegister, pages, 4096, CU_MEMHOSTREGISTER_DEVICEMAP)) {
    CALL("mapped", CUDA_SUCCESS, cuMemHostUnregister, pages);
  }
  std::free(pages);
  int local = 0;
  CALL("flags other than 0", CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer, &device, memory,
       1);
  CALL("memory unknown to CUDA", CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer, &device,
       &local, 0);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "host_memory",
             {{"allocated", Allocated},
              {"in_use", InUse},
              {"registered", Registered},
              {"mapped", Mapped}});
}
