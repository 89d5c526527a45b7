// Page-locked host memory: this process's own, for copies that need not be waited for.
#include <algorithm>

#include "client_stub/core/runtime.h"
#include "client_stub/core/streams.h"

using namespace warpline::stub;

namespace {

// A copy that was not waited for may still be on its way into the range.
void AwaitCopies(const HostMemory::Range& range) {
  if (range.last_copy != 0 && !runtime().session->Retired(kNoStream, range.last_copy)) {
    SynchronizeContext();
  }
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  WARPLINE_TRY(Enter());
  constexpr unsigned int kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (pp == nullptr || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  // Without host memory that the device reaches, DEVICEMAP fails when its address is asked for.
  return runtime().host_memory->Allocate(bytesize, Flags, pp);
}

CUresult CUDAAPI cuMemAllocHost_v2(void** pp, size_t bytesize) {
  return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult CUDAAPI cuMemFreeHost(void* p) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(Enter());
  if (p == nullptr) return CUDA_SUCCESS;
  HostMemory::Range range;
  if (!runtime().host_memory->Find(p, &range) || range.base != p || range.registered) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  AwaitCopies(range);
  return runtime().host_memory->Remove(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  WARPLINE_TRY(Enter());
  HostMemory::Range range;
  if (pFlags == nullptr || !runtime().host_memory->Find(p, &range)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pFlags = range.flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  WARPLINE_TRY(Enter());
  HostMemory::Range range;
  if (pdptr == nullptr || Flags != 0 || !runtime().host_memory->Find(p, &range)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult CUDAAPI cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  WARPLINE_TRY(Enter());
  constexpr unsigned int kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                  CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if ((Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return runtime().host_memory->Register(p, bytesize, Flags);
}

CUresult CUDAAPI cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult CUDAAPI cuMemHostUnregister(void* p) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(Enter());
  HostMemory::Range range;
  if (!runtime().host_memory->Find(p, &range)) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if (range.base != p || !range.registered) return CUDA_ERROR_INVALID_VALUE;
  AwaitCopies(range);
  return runtime().host_memory->Remove(p) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

}  // extern "C"
