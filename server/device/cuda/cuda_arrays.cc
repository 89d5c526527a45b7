#include "server/device/cuda/cuda_arrays.h"

#include "server/device/cuda/copy_box.h"
#include "server/device/cuda/native.h"

namespace warpline::device {
namespace {

void SetShape(const CUDA_ARRAY3D_DESCRIPTOR& native, ArrayShape* shape) {
  shape->width = native.Width;
  shape->height = native.Height;
  shape->depth = native.Depth;
  shape->format = native.Format;
  shape->channels = native.NumChannels;
  shape->flags = native.Flags;
}

bool IsValid(const ArrayEnd& end, const BoxExtent& extent) {
  uint64_t span;
  return end.kind != ArrayEnd::Kind::kDevice || BoxSpan(end.place, extent, &span);
}

void SetSource(const ArrayEnd& end, const BoxExtent& extent, CUDA_MEMCPY3D* copy) {
  switch (end.kind) {
    case ArrayEnd::Kind::kArray:
      copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
      copy->srcArray = NativeArray(end.array);
      copy->srcXInBytes = end.x;
      copy->srcY = end.y;
      copy->srcZ = end.z;
      break;
    case ArrayEnd::Kind::kDevice:
      copy->srcMemoryType = TypeOfDeviceEnd(end.place.address);
      copy->srcDevice = end.place.address;
      copy->srcPitch = end.place.pitch;
      copy->srcHeight = RowsOfSlice(end.place, extent);
      break;
    case ArrayEnd::Kind::kHost:
      copy->srcMemoryType = CU_MEMORYTYPE_HOST;
      copy->srcHost = end.host;
      copy->srcPitch = extent.width;
      copy->srcHeight = extent.height;
      break;
  }
}

void SetTarget(const ArrayEnd& end, const BoxExtent& extent, CUDA_MEMCPY3D* copy) {
  switch (end.kind) {
    case ArrayEnd::Kind::kArray:
      copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
      copy->dstArray = NativeArray(end.array);
      copy->dstXInBytes = end.x;
      copy->dstY = end.y;
      copy->dstZ = end.z;
      break;
    case ArrayEnd::Kind::kDevice:
      copy->dstMemoryType = TypeOfDeviceEnd(end.place.address);
      copy->dstDevice = end.place.address;
      copy->dstPitch = end.place.pitch;
      copy->dstHeight = RowsOfSlice(end.place, extent);
      break;
    case ArrayEnd::Kind::kHost:
      copy->dstMemoryType = CU_MEMORYTYPE_HOST;
      copy->dstHost = end.host;
      copy->dstPitch = extent.width;
      copy->dstHeight = extent.height;
      break;
  }
}

}  // namespace

CudaResult CudaArrays::CreateArray(ArrayShape* shape, ArrayId* array) {
  Enter();
  // Refuses arrays without memory of their own, and arrays whose memory the driver maps later.
  if ((shape->flags & (ArrayShape::kSparse | ArrayShape::kDeferredMapping)) != 0) {
    return CudaResult::kNotSupported;
  }
  CUDA_ARRAY3D_DESCRIPTOR native = {};
  native.Width = shape->width;
  native.Height = shape->height;
  native.Depth = shape->depth;
  native.Format = static_cast<CUarray_format>(shape->format);
  native.NumChannels = shape->channels;
  native.Flags = shape->flags;
  if (shape->levels > 0) {
    CUmipmappedArray made = nullptr;
    const CUresult result = api_->p_cuMipmappedArrayCreate(&made, &native, shape->levels);
    *array = static_cast<ArrayId>(reinterpret_cast<uint64_t>(made) | kMipmappedBit);
    return ToResult(result);
  }
  CUarray made = nullptr;
  CUresult result = api_->p_cuArray3DCreate(&made, &native);
  if (result != CUDA_SUCCESS) return ToResult(result);
  result = api_->p_cuArray3DGetDescriptor(&native, made);
  if (result != CUDA_SUCCESS) {
    api_->p_cuArrayDestroy(made);
    return ToResult(result);
  }
  SetShape(native, shape);
  *array = static_cast<ArrayId>(reinterpret_cast<uint64_t>(made));
  return CudaResult::kSuccess;
}

CudaResult CudaArrays::DestroyArray(ArrayId array) {
  Enter();
  return ToResult(IsMipmapped(array) ? api_->p_cuMipmappedArrayDestroy(NativeMipmapped(array))
                                     : api_->p_cuArrayDestroy(NativeArray(array)));
}

CudaResult CudaArrays::ArrayLevel(ArrayId array, uint32_t level, ArrayShape* shape, ArrayId* part) {
  Enter();
  if (!IsMipmapped(array)) return CudaResult::kInvalidValue;
  CUarray found = nullptr;
  CUresult result = api_->p_cuMipmappedArrayGetLevel(&found, NativeMipmapped(array), level);
  CUDA_ARRAY3D_DESCRIPTOR native = {};
  if (result == CUDA_SUCCESS) result = api_->p_cuArray3DGetDescriptor(&native, found);
  SetShape(native, shape);
  *part = static_cast<ArrayId>(reinterpret_cast<uint64_t>(found));
  return ToResult(result);
}

CudaResult CudaArrays::ArrayPlane(ArrayId array, uint32_t plane, ArrayShape* shape, ArrayId* part) {
  Enter();
  if (IsMipmapped(array)) return CudaResult::kInvalidValue;
  CUarray found = nullptr;
  CUresult result = api_->p_cuArrayGetPlane(&found, NativeArray(array), plane);
  CUDA_ARRAY3D_DESCRIPTOR native = {};
  if (result == CUDA_SUCCESS) result = api_->p_cuArray3DGetDescriptor(&native, found);
  SetShape(native, shape);
  *part = static_cast<ArrayId>(reinterpret_cast<uint64_t>(found));
  return ToResult(result);
}

CUcontext CudaArrays::ContextOfEnd(const ArrayEnd& end) const {
  switch (end.kind) {
    case ArrayEnd::Kind::kArray:
      return group_->members()[end.device].context;
    case ArrayEnd::Kind::kDevice:
      return ContextOf(end.place.address);
    case ArrayEnd::Kind::kHost:
      break;
  }
  return context_;
}

CudaResult CudaArrays::CopyArray(const ArrayEnd& to, const ArrayEnd& from, const BoxExtent& extent,
                                 StreamId stream) {
  Enter();
  const auto is_whole = [](const ArrayEnd& end) {
    return end.kind == ArrayEnd::Kind::kArray && IsMipmapped(end.array);
  };
  const size_t members = group_->members().size();
  if (!IsValid(to, extent) || !IsValid(from, extent) || is_whole(to) || is_whole(from) ||
      to.device >= members || from.device >= members) {
    return CudaResult::kInvalidValue;
  }
  CUDA_MEMCPY3D copy = {};
  copy.WidthInBytes = extent.width;
  copy.Height = extent.height;
  copy.Depth = extent.depth;
  SetSource(from, extent, &copy);
  SetTarget(to, extent, &copy);
  return ToResult(
      CopyBox(*api_, copy, context_, ContextOfEnd(to), ContextOfEnd(from), Native(stream)));
}

}  // namespace warpline::device
