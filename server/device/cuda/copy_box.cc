#include "server/device/cuda/copy_box.h"

namespace warpline::device {

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
