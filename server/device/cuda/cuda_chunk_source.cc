#include "server/device/cuda/cuda_chunk_source.h"

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"

namespace warpline::device {

absl::StatusOr<std::unique_ptr<ChunkSource>> CudaChunkSource::Open(const DriverApi* api,
                                                                   int ordinal) {
  CUdevice device;
  CUresult result = api->p_cuDeviceGet(&device, ordinal);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuDeviceGet");
  CUcontext context;
  result = api->p_cuDevicePrimaryCtxRetain(&context, device);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "primary context");
  return absl::WrapUnique(new CudaChunkSource(api, device, context));
}

CudaChunkSource::~CudaChunkSource() { api_->p_cuDevicePrimaryCtxRelease(device_); }

absl::StatusOr<UniqueFd> CudaChunkSource::CreateChunk(uint64_t bytes) {
  api_->p_cuCtxSetCurrent(context_);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_;
  CUmemGenericAllocationHandle handle;
  CUresult result = api_->p_cuMemCreate(&handle, bytes, &properties, 0);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemCreate");
  const absl::Cleanup release = [&] { api_->p_cuMemRelease(handle); };
  int fd = -1;
  result = api_->p_cuMemExportToShareableHandle(&fd, handle,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemExport");
  return UniqueFd(fd);
}

absl::Status CudaChunkSource::ScrubChunk(int fd, uint64_t bytes) {
  MutexLock lock(&scrub_mu_);
  api_->p_cuCtxSetCurrent(context_);
  CUmemGenericAllocationHandle handle;
  CUresult result = api_->p_cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemImport");
  const absl::Cleanup release = [&] { api_->p_cuMemRelease(handle); };
  CUdeviceptr va = 0;
  result = api_->p_cuMemAddressReserve(&va, bytes, 0, 0, 0);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemAddressReserve");
  const absl::Cleanup unreserve = [&] { api_->p_cuMemAddressFree(va, bytes); };
  result = api_->p_cuMemMap(va, bytes, 0, handle, 0);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemMap");
  const absl::Cleanup unmap = [&] { api_->p_cuMemUnmap(va, bytes); };
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  result = api_->p_cuMemSetAccess(va, bytes, &access, 1);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemSetAccess");
  result = api_->p_cuMemsetD8(va, 0, bytes);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemsetD8");
  return StatusFromCudaResult(ToResult(api_->p_cuStreamSynchronize(nullptr)), "scrub");
}

absl::StatusOr<std::optional<uint64_t>> CudaChunkSource::FreeBytes() {
  api_->p_cuCtxSetCurrent(context_);
  size_t free = 0;
  size_t total = 0;
  const CUresult result = api_->p_cuMemGetInfo(&free, &total);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemGetInfo");
  return std::optional<uint64_t>(free);
}

}  // namespace warpline::device
