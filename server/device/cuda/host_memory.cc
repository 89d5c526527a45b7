// Memory that the host has a part in.
#include <sys/mman.h>

#include "server/device/cuda/cuda_context.h"

namespace warpline::device {

CudaResult CudaContext::MapHost(uint64_t va, uint64_t bytes, int fd) {
  Enter();
  void* const wanted = reinterpret_cast<void*>(va);
  void* const at =
      mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
  if (at == MAP_FAILED) return CudaResult::kInvalidValue;
  CUresult result = at == wanted ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    result = api_->p_cuMemHostRegister(at, bytes,
                                       CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE);
  }
  if (result != CUDA_SUCCESS) {
    munmap(at, bytes);
    return ToResult(result);
  }
  CUdeviceptr device = 0;
  result = api_->p_cuMemHostGetDevicePointer(&device, at, 0);
  if (result == CUDA_SUCCESS && device == va) return CudaResult::kSuccess;
  UnmapHost(va, bytes);
  return CudaResult::kNotSupported;
}

CudaResult CudaContext::UnmapHost(uint64_t va, uint64_t bytes) {
  Enter();
  void* const at = reinterpret_cast<void*>(va);
  const CUresult result = api_->p_cuMemHostUnregister(at);
  if (result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) return CudaResult::kInvalidValue;
  munmap(at, bytes);
  return ToResult(result);
}

CudaResult CudaContext::ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) {
  Enter();
  *base = *bytes = 0;
  unsigned managed = 0;
  CUresult result =
      api_->p_cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  if (result != CUDA_SUCCESS || managed == 0) return CudaResult::kSuccess;
  CUdeviceptr block = 0;
  size_t size = 0;
  result = api_->p_cuMemGetAddressRange(&block, &size, address);
  if (result != CUDA_SUCCESS) return ToResult(result);
  *base = block;
  *bytes = size;
  return CudaResult::kSuccess;
}

}  // namespace warpline::device
