// Boxes, rows and words: the rest of CudaContext's work on memory.
#include <cstring>
#include <vector>

#include "server/device/cuda/cuda_context.h"

namespace warpline::device {
namespace {

CUstream Native(StreamId id) {
  return id == kLegacyStream ? CU_STREAM_LEGACY
                             : reinterpret_cast<CUstream>(static_cast<uint64_t>(id));
}

// Rows of `place` to a slice. The driver asks for as many as the extent has, also of one slice.
size_t Rows(const BoxPlace& place, const BoxExtent& extent) {
  return extent.depth > 1 ? place.slice / place.pitch : extent.height;
}

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
  copy->srcHeight = Rows(place, extent);
}

void SetTarget(const BoxPlace& place, const BoxExtent& extent, CUDA_MEMCPY3D* copy) {
  copy->dstMemoryType = TypeOfDeviceEnd(place.address);
  copy->dstDevice = place.address;
  copy->dstPitch = place.pitch;
  copy->dstHeight = Rows(place, extent);
}

bool IsBox(const BoxPlace& place, const BoxExtent& extent) {
  uint64_t bytes;
  return BoxSpan(place, extent, &bytes);
}

}  // namespace

CudaResult CudaContext::MemsetRows(uint64_t dst, uint64_t pitch, uint32_t value, int width,
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

CudaResult CudaContext::CopyBoxToDevice(const BoxPlace& dst, const void* src,
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

CudaResult CudaContext::CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
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

CudaResult CudaContext::CopyBoxOnDevice(const BoxPlace& dst, const BoxPlace& src,
                                        const BoxExtent& extent, StreamId stream) {
  Enter();
  if (!IsBox(dst, extent) || !IsBox(src, extent)) return CudaResult::kInvalidValue;
  CUDA_MEMCPY3D copy = Describe(extent);
  SetSource(src, extent, &copy);
  SetTarget(dst, extent, &copy);
  const auto context = [this](const BoxPlace& place) {
    return group_->IsForeign(place.address, place_) ? group_->ContextOf(place.address, place_)
                                                    : context_;
  };
  return ToResult(Copy3D(copy, context(dst), context(src), Native(stream)));
}

CUresult CudaContext::Copy3D(const CUDA_MEMCPY3D& copy, CUcontext to, CUcontext from,
                             CUstream stream) {
  if (to == context_ && from == context_) return api_->p_cuMemcpy3DAsync(&copy, stream);
  // Also right where neither device reaches the other's memory.
  CUDA_MEMCPY3D_PEER peer = {};
  peer.srcXInBytes = copy.srcXInBytes;
  peer.srcY = copy.srcY;
  peer.srcZ = copy.srcZ;
  peer.srcLOD = copy.srcLOD;
  peer.srcMemoryType = copy.srcMemoryType;
  peer.srcHost = copy.srcHost;
  peer.srcDevice = copy.srcDevice;
  peer.srcArray = copy.srcArray;
  peer.srcContext = from;
  peer.srcPitch = copy.srcPitch;
  peer.srcHeight = copy.srcHeight;
  peer.dstXInBytes = copy.dstXInBytes;
  peer.dstY = copy.dstY;
  peer.dstZ = copy.dstZ;
  peer.dstLOD = copy.dstLOD;
  peer.dstMemoryType = copy.dstMemoryType;
  peer.dstHost = copy.dstHost;
  peer.dstDevice = copy.dstDevice;
  peer.dstArray = copy.dstArray;
  peer.dstContext = to;
  peer.dstPitch = copy.dstPitch;
  peer.dstHeight = copy.dstHeight;
  peer.WidthInBytes = copy.WidthInBytes;
  peer.Height = copy.Height;
  peer.Depth = copy.Depth;
  return api_->p_cuMemcpy3DPeerAsync(&peer, stream);
}

CUresult CudaContext::Translate(absl::Span<const MemOp> operations,
                                std::vector<CUstreamBatchMemOpParams>* native) const {
  if (operations.empty() || operations.size() > kMaxMemOps) return CUDA_ERROR_INVALID_VALUE;
  native->resize(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) {
    const MemOp& op = operations[i];
    CUstreamBatchMemOpParams& to = (*native)[i];
    std::memset(&to, 0, sizeof(to));
    to.operation = static_cast<CUstreamBatchMemOpType>(op.kind);
    if (op.kind == MemOp::kBarrier) {
      to.memoryBarrier.flags = op.flags;
      continue;
    }
    const bool wide = op.kind == MemOp::kWait64 || op.kind == MemOp::kWrite64;
    const uint64_t bytes = wide ? 8 : 4;
    // Nothing else that the driver takes: the worker's own host memory is within its reach too.
    if (op.address % bytes != 0 || !group_->InArena(op.address, bytes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    switch (op.kind) {
      case MemOp::kWait32:
      case MemOp::kWait64:
        to.waitValue.address = op.address;
        to.waitValue.value64 = wide ? op.value : static_cast<uint32_t>(op.value);
        to.waitValue.flags = op.flags;
        break;
      case MemOp::kWrite32:
      case MemOp::kWrite64:
        to.writeValue.address = op.address;
        to.writeValue.value64 = wide ? op.value : static_cast<uint32_t>(op.value);
        to.writeValue.flags = op.flags;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CudaResult CudaContext::MemOps(absl::Span<const MemOp> operations, StreamId stream) {
  Enter();
  std::vector<CUstreamBatchMemOpParams> native;
  const CUresult result = Translate(operations, &native);
  if (result != CUDA_SUCCESS) return ToResult(result);
  return ToResult(api_->p_cuStreamBatchMemOp(Native(stream), static_cast<unsigned>(native.size()),
                                             native.data(), 0));
}

CudaResult CudaContext::SetStreamAttribute(StreamId stream, const LaunchAttribute& attribute) {
  Enter();
  CUstreamAttrValue value;
  static_assert(sizeof(value) == sizeof(attribute.value));
  std::memcpy(&value, attribute.value.data(), sizeof(value));
  return ToResult(api_->p_cuStreamSetAttribute(Native(stream),
                                               static_cast<CUstreamAttrID>(attribute.id), &value));
}

}  // namespace warpline::device
