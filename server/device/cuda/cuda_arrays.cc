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

void SetSource(const ArrayEnd& end, CUDA_MEMCPY3D* copy) {
  copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy->srcArray = NativeArray(end.array);
  copy->srcXInBytes = end.x;
  copy->srcY = end.y;
  copy->srcZ = end.z;
}

void SetTarget(const ArrayEnd& end, CUDA_MEMCPY3D* copy) {
  copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy->dstArray = NativeArray(end.array);
  copy->dstXInBytes = end.x;
  copy->dstY = end.y;
  copy->dstZ = end.z;
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

bool CudaArrays::IsArray(const ArrayEnd& end) const {
  return !IsMipmapped(end.array) && end.device < group_->members().size();
}

bool CudaArrays::UseSource(const ArrayEnd& end, const BoxExtent& extent, CUDA_MEMCPY3D* copy,
                           CUcontext* context) const {
  switch (end.kind) {
    case ArrayEnd::Kind::kArray:
      if (!IsArray(end)) return false;
      *context = group_->members()[end.device].context;
      SetSource(end, copy);
      return true;
    case ArrayEnd::Kind::kDevice:
      if (const auto box = gate().AdmitBox(end.place, extent, MemoryUse::kRead)) {
        *context = ContextOf(box->span());
        SetSource(*box, extent, copy);
        return true;
      }
      return false;
    case ArrayEnd::Kind::kHost:
      *context = context_;
      SetSource(end.host, extent, copy);
      return true;
  }
  return false;
}

bool CudaArrays::UseTarget(const ArrayEnd& end, const BoxExtent& extent, CUDA_MEMCPY3D* copy,
                           CUcontext* context) const {
  switch (end.kind) {
    case ArrayEnd::Kind::kArray:
      if (!IsArray(end)) return false;
      *context = group_->members()[end.device].context;
      SetTarget(end, copy);
      return true;
    case ArrayEnd::Kind::kDevice:
      if (const auto box = gate().AdmitBox(end.place, extent, MemoryUse::kWrite)) {
        *context = ContextOf(box->span());
        SetTarget(*box, extent, copy);
        return true;
      }
      return false;
    case ArrayEnd::Kind::kHost:
      *context = context_;
      SetTarget(end.host, extent, copy);
      return true;
  }
  return false;
}

CudaResult CudaArrays::CopyArray(const ArrayEnd& to, const ArrayEnd& from, const BoxExtent& extent,
                                 StreamId stream) {
  Enter();
  CUDA_MEMCPY3D copy = DescribeBox(extent);
  CUcontext target = nullptr;
  CUcontext source = nullptr;
  if (!UseSource(from, extent, &copy, &source) || !UseTarget(to, extent, &copy, &target)) {
    return CudaResult::kInvalidValue;
  }
  return ToResult(CopyBox(*api_, copy, context_, target, source, Native(stream)));
}

}  // namespace warpline::device
