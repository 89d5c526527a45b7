// Page-locked host memory (pinned_memory.h).
#include "client_stub/core/memory/host_memory.h"

#include <algorithm>

#include "client_stub/core/memory/process_maps.h"
#include "client_stub/core/pinned/pinned_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

// Notes the current context's owner as that of new host memory at `base`, if `result` is success.
CUresult NoteOwner(void* base, CUresult result) {
  if (result == CUDA_SUCCESS) {
    runtime().host_memory->SetOwner(base, CurrentDevice().number, CurrentOwner());
  }
  return result;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  WARPLINE_TRY(EnterUnsafe());
  constexpr unsigned int kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (pp == nullptr || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = runtime().pinned->Allocate(bytesize, Flags, pp);
  return NoteOwner(*pp, result);
}

CUresult CUDAAPI cuMemAllocHost_v2(void** pp, size_t bytesize) {
  return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult CUDAAPI cuMemFreeHost(void* p) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterObjectUnsafe());
  if (p == nullptr) return CUDA_SUCCESS;
  HostMemory::Range range;
  if (!runtime().host_memory->Find(p, &range) || range.base != p || range.registered) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return runtime().pinned->End(p);
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
  uint64_t device = range.device;
  if (device == 0) WARPLINE_TRY(runtime().pinned->Give(range.base, &device));
  *pdptr = device + (reinterpret_cast<uint64_t>(p) - reinterpret_cast<uint64_t>(range.base));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  WARPLINE_TRY(EnterUnsafe());
  constexpr unsigned int kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                  CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if ((Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (bytesize != 0 && !IsMapped(reinterpret_cast<uint64_t>(p), bytesize)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return NoteOwner(p, runtime().host_memory->Register(p, bytesize, Flags));
}

CUresult CUDAAPI cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult CUDAAPI cuMemHostUnregister(void* p) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterObjectUnsafe());
  HostMemory::Range range;
  if (!runtime().host_memory->Find(p, &range)) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if (range.base != p || !range.registered) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(AwaitWorkBeforeFree(CurrentDevice()));
  const CUresult ended = runtime().pinned->End(p);
  return ended == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : ended;
}

}  // extern "C"
