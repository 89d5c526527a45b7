#include "server/device/cuda/cuda_copies.h"

#include <vector>

#include "server/device/cuda/copy_box.h"
#include "server/device/cuda/native.h"
#include "server/device/cuda/native_mem_ops.h"

namespace warpline::device {
namespace {

CUDA_MEMCPY3D Describe(const BoxExtent& extent) {
  CUDA_MEMCPY3D copy = {};
  copy.WidthInBytes = extent.width;
  copy.Height = extent.height;
  copy.Depth = extent.depth;
  return copy;
}

void SetSource(const BoxPlace& place, const BoxExtent& extent, CUDA_MEMCPY3D* copy) {
  copy->srcMemoryType = TypeOfDeviceEnd(place.address);
  copy->srcDevice = place.address;
  copy->srcPitch = place.pitch;
  copy->srcHeight = RowsOfSlice(place, extent);
}

void SetTarget(const BoxPlace& place, const BoxExtent& extent, CUDA_MEMCPY3D* copy) {
  copy->dstMemoryType = TypeOfDeviceEnd(place.address);
  copy->dstDevice = place.address;
  copy->dstPitch = place.pitch;
  copy->dstHeight = RowsOfSlice(place, extent);
}

bool IsBox(const BoxPlace& place, const BoxExtent& extent) {
  uint64_t bytes;
  return BoxSpan(place, extent, &bytes);
}

}  // namespace

CudaResult CudaCopies::CopyToDevice(uint64_t dst, const void* src, size_t bytes, StreamId stream) {
  Enter();
  return ToResult(api_->p_cuMemcpyHtoDAsync(dst, src, bytes, Native(stream)));
}

CudaResult CudaCopies::CopyFromDevice(void* dst, uint64_t src, size_t bytes, StreamId stream) {
  Enter();
  return ToResult(api_->p_cuMemcpyDtoHAsync(dst, src, bytes, Native(stream)));
}

CudaResult CudaCopies::CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes, StreamId stream) {
  Enter();
  // Host memory that the device reaches is an end like any other.
  if (!group_->InArena(dst, 1) || !group_->InArena(src, 1)) {
    return ToResult(api_->p_cuMemcpyAsync(dst, src, bytes, Native(stream)));
  }
  // This copy also works when neither device reaches the other's memory.
  if (group_->IsForeign(dst, place_) || group_->IsForeign(src, place_)) {
    return ToResult(
        api_->p_cuMemcpyPeerAsync(dst, ContextOf(dst), src, ContextOf(src), bytes, Native(stream)));
  }
  return ToResult(api_->p_cuMemcpyDtoDAsync(dst, src, bytes, Native(stream)));
}

CudaResult CudaCopies::Memset(uint64_t dst, uint32_t value, int width, size_t count,
                              StreamId stream) {
  Enter();
  switch (width) {
    case 1:
      return ToResult(
          api_->p_cuMemsetD8Async(dst, static_cast<uint8_t>(value), count, Native(stream)));
    case 2:
      return ToResult(
          api_->p_cuMemsetD16Async(dst, static_cast<uint16_t>(value), count, Native(stream)));
    case 4:
      return ToResult(api_->p_cuMemsetD32Async(dst, value, count, Native(stream)));
    default:
      return CudaResult::kInvalidValue;
  }
}

CudaResult CudaCopies::MemsetRows(uint64_t dst, uint64_t pitch, uint32_t value, int width,
                                  size_t columns, size_t rows, StreamId stream) {
  Enter();
  switch (width) {
    case 1:
      return ToResult(api_->p_cuMemsetD2D8Async(dst, pitch, static_cast<uint8_t>(value), columns,
                                                rows, Native(stream)));
    case 2:
      return ToResult(api_->p_cuMemsetD2D16Async(dst, pitch, static_cast<uint16_t>(value), columns,
                                                 rows, Native(stream)));
    case 4:
      return ToResult(api_->p_cuMemsetD2D32Async(dst, pitch, value, columns, rows, Native(stream)));
    default:
      return CudaResult::kInvalidValue;
  }
}

CudaResult CudaCopies::CopyBoxToDevice(const BoxPlace& dst, const void* src,
                                       const BoxExtent& extent, StreamId stream) {
  Enter();
  if (!IsBox(dst, extent)) return CudaResult::kInvalidValue;
  CUDA_MEMCPY3D copy = Describe(extent);
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = src;
  copy.srcPitch = extent.width;
  copy.srcHeight = extent.height;
  SetTarget(dst, extent, &copy);
  return ToResult(api_->p_cuMemcpy3DAsync(&copy, Native(stream)));
}

CudaResult CudaCopies::CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
                                         StreamId stream) {
  Enter();
  if (!IsBox(src, extent)) return CudaResult::kInvalidValue;
  CUDA_MEMCPY3D copy = Describe(extent);
  SetSource(src, extent, &copy);
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = dst;
  copy.dstPitch = extent.width;
  copy.dstHeight = extent.height;
  return ToResult(api_->p_cuMemcpy3DAsync(&copy, Native(stream)));
}

CudaResult CudaCopies::CopyBoxOnDevice(const BoxPlace& dst, const BoxPlace& src,
                                       const BoxExtent& extent, StreamId stream) {
  Enter();
  if (!IsBox(dst, extent) || !IsBox(src, extent)) return CudaResult::kInvalidValue;
  CUDA_MEMCPY3D copy = Describe(extent);
  SetSource(src, extent, &copy);
  SetTarget(dst, extent, &copy);
  return ToResult(CopyBox(*api_, copy, context_, ContextOf(dst.address), ContextOf(src.address),
                          Native(stream)));
}

CudaResult CudaCopies::MemOps(absl::Span<const MemOp> operations, StreamId stream) {
  Enter();
  std::vector<CUstreamBatchMemOpParams> native;
  const CUresult result = Translate(*group_, operations, &native);
  if (result != CUDA_SUCCESS) return ToResult(result);
  return ToResult(api_->p_cuStreamBatchMemOp(Native(stream), static_cast<unsigned>(native.size()),
                                             native.data(), 0));
}

}  // namespace warpline::device
