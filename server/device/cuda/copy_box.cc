#include "server/device/cuda/copy_box.h"

#include <cstddef>

namespace warpline::device {
namespace {

// The number of rows of `place` in a slice. The driver asks for as many as the extent has even when
// there is only one slice.
size_t RowsOfSlice(const BoxPlace& place, const BoxExtent& extent) {
  return extent.depth > 1 ? place.slice / place.pitch : extent.height;
}

}  // namespace

CUDA_MEMCPY3D DescribeBox(const BoxExtent& extent) {
  CUDA_MEMCPY3D copy = {};
  copy.WidthInBytes = extent.width;
  copy.Height = extent.height;
  copy.Depth = extent.depth;
  return copy;
}

void SetSource(const GatedBox& box, const BoxExtent& extent, CUDA_MEMCPY3D* copy) {
  if (box.span().kind() == MemoryKind::kHost) {
    copy->srcMemoryType = CU_MEMORYTYPE_HOST;
    copy->srcHost = box.span().host();
  } else {
    copy->srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy->srcDevice = box.span().address();
  }
  copy->srcPitch = box.place().pitch;
  copy->srcHeight = RowsOfSlice(box.place(), extent);
}

void SetTarget(const GatedBox& box, const BoxExtent& extent, CUDA_MEMCPY3D* copy) {
  if (box.span().kind() == MemoryKind::kHost) {
    copy->dstMemoryType = CU_MEMORYTYPE_HOST;
    copy->dstHost = box.span().host();
  } else {
    copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy->dstDevice = box.span().address();
  }
  copy->dstPitch = box.place().pitch;
  copy->dstHeight = RowsOfSlice(box.place(), extent);
}

void SetSource(const void* buffer, const BoxExtent& extent, CUDA_MEMCPY3D* copy) {
  copy->srcMemoryType = CU_MEMORYTYPE_HOST;
  copy->srcHost = buffer;
  copy->srcPitch = extent.width;
  copy->srcHeight = extent.height;
}

void SetTarget(void* buffer, const BoxExtent& extent, CUDA_MEMCPY3D* copy) {
  copy->dstMemoryType = CU_MEMORYTYPE_HOST;
  copy->dstHost = buffer;
  copy->dstPitch = extent.width;
  copy->dstHeight = extent.height;
}

CUresult CopyBox(const DriverApi& api, const CUDA_MEMCPY3D& copy, CUcontext own, CUcontext to,
                 CUcontext from, CUstream stream) {
  if (to == own && from == own) return api.p_cuMemcpy3DAsync(&copy, stream);
  // This copy also works when neither device reaches the other's memory.
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
  return api.p_cuMemcpy3DPeerAsync(&peer, stream);
}

}  // namespace warpline::device
