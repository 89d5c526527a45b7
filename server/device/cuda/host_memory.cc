// Memory that the host has a part in.
#include "server/device/cuda/cuda_context.h"

namespace warpline::device {

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
