// Managed memory: the same pointers for host code and kernels (mirrored_memory.h).
#include "client_stub/core/capture.h"
#include "client_stub/core/runtime.h"
#include "client_stub/core/streams.h"

using namespace warpline::stub;

extern "C" {

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  WARPLINE_TRY(EnterUnsafe());
  const bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
  if (dptr == nullptr || bytesize == 0 || !known) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address;
  WARPLINE_TRY(runtime().mirrored->Allocate(MirroredMemory::Kind::kManaged, CurrentDevice().number,
                                            t_thread.current, bytesize, flags, &address));
  *dptr = address;
  return CUDA_SUCCESS;
}

}  // extern "C"
