// Maps memory by itself, works on it and rests, in turn, so that its worker can be replaced at
// rest. Its mappings and their access must outlive that. Goes on until it is let go
// (examples/held.h).
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../../examples/held.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

void Must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::printf("mapped_memory: %s gives %d\n", what, int(result));
  std::fflush(stdout);
  std::_Exit(1);
}

// A function of libcuda.so.1 by the name that cuda.h gives it.
template <typename Function>
Function* Find(const char* symbol) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = library == nullptr ? nullptr : dlsym(library, symbol);
  if (found == nullptr) {
    std::printf("mapped_memory: no %s\n", symbol);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

#define TEXT(x) #x
#define SYMBOL(x) TEXT(x)
#define MUST(fn, ...) Must(Find<decltype(fn)>(SYMBOL(fn))(__VA_ARGS__), #fn)

}  // namespace

int main() {
  CUdevice device;
  CUcontext context;
  MUST(cuInit, 0);
  MUST(cuDeviceGet, &device, 0);
  MUST(cuDevicePrimaryCtxRetain, &context, device);
  MUST(cuCtxSetCurrent, context);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr address;
  MUST(cuMemAddressReserve, &address, 128 * kMiB, 0, 0, 0);
  // Maps 22 MiB at two places, the second one read-only, and 2 MiB that move about.
  CUmemGenericAllocationHandle large, small;
  MUST(cuMemCreate, &large, 22 * kMiB, &properties, 0);
  MUST(cuMemCreate, &small, 2 * kMiB, &properties, 0);
  MUST(cuMemMap, address, 22 * kMiB, 0, large, 0);
  MUST(cuMemSetAccess, address, 22 * kMiB, &access, 1);
  const CUdeviceptr twin = address + 32 * kMiB;
  MUST(cuMemMap, twin, 22 * kMiB, 0, large, 0);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  MUST(cuMemSetAccess, twin, 22 * kMiB, &access, 1);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

  unsigned expected = 0, round = 0;
  SayThatItGoesOn("mapped_memory");
  while (IsHeld()) {
    unsigned got = ~expected;
    MUST(cuMemcpyDtoH, &got, twin + 22 * kMiB - 4, 4);
    if (round > 0 && got != expected) {
      std::printf("mapped_memory: round %u reads %u, expected %u\n", round, got, expected);
      return 1;
    }
    expected = ++round * 3;
    const CUdeviceptr at = address + 64 * kMiB + (round % 8) * 2 * kMiB;
    MUST(cuMemMap, at, 2 * kMiB, 0, small, 0);
    MUST(cuMemSetAccess, at, 2 * kMiB, &access, 1);
    MUST(cuMemsetD32, at, expected, 2 * kMiB / 4);
    for (int i = 0; i < 11; ++i) {
      MUST(cuMemcpyDtoD, address + i * 2 * kMiB, at, 2 * kMiB);
    }
    MUST(cuCtxSynchronize);
    MUST(cuMemUnmap, at, 2 * kMiB);
    MUST(cuCtxSynchronize);
    usleep(20000);
  }
  MUST(cuMemUnmap, twin, 22 * kMiB);
  MUST(cuMemUnmap, address, 22 * kMiB);
  MUST(cuMemRelease, large);
  MUST(cuMemRelease, small);
  MUST(cuMemAddressFree, address, 128 * kMiB);
  std::printf("mapped_memory: ok after %u rounds\n", round);
  return 0;
}
