// Copies of rows and slices between memories and arrays.
#include "client_stub/core/copy/copies.h"
#include "client_stub/core/copy/described_copies.h"
#include "client_stub/core/runtime/contexts.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;
constexpr Completion kSync = Completion::kSynchronous;
constexpr Completion kAsync = Completion::kAsynchronous;

// Returns the copy in the three-dimensional form.
CUDA_MEMCPY3D Plain(const CUDA_MEMCPY2D& c) {
  CUDA_MEMCPY3D plain = {};
  plain.srcXInBytes = c.srcXInBytes;
  plain.srcY = c.srcY;
  plain.srcMemoryType = c.srcMemoryType;
  plain.srcHost = c.srcHost;
  plain.srcDevice = c.srcDevice;
  plain.srcArray = c.srcArray;
  plain.srcPitch = c.srcPitch;
  plain.dstXInBytes = c.dstXInBytes;
  plain.dstY = c.dstY;
  plain.dstMemoryType = c.dstMemoryType;
  plain.dstHost = c.dstHost;
  plain.dstDevice = c.dstDevice;
  plain.dstArray = c.dstArray;
  plain.dstPitch = c.dstPitch;
  plain.WidthInBytes = c.WidthInBytes;
  plain.Height = c.Height;
  plain.Depth = 1;
  return plain;
}
template <typename Descriptor>
CUresult Copy(const Descriptor& c, CUstream handle, DefaultStream null_means,
              Completion completion) {
  Stream* stream = FindStream(handle, null_means);
  return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CopyDescribed(stream, c, completion);
}

CUresult Copy2D(const CUDA_MEMCPY2D* copy, CUstream handle, DefaultStream null_means,
                Completion completion) {
  WARPLINE_TRY(EnterStreamCall(handle));
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Copy(Plain(*copy), handle, null_means, completion);
}

CUresult Copy3D(const CUDA_MEMCPY3D* copy, CUstream handle, DefaultStream null_means,
                Completion completion) {
  WARPLINE_TRY(EnterStreamCall(handle));
  if (copy == nullptr || copy->reserved0 != nullptr || copy->reserved1 != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Copy(*copy, handle, null_means, completion);
}

// The address tells whose memory it is, so the contexts only have to exist.
CUresult CopyPeer(const CUDA_MEMCPY3D_PEER* copy, CUstream handle, DefaultStream null_means,
                  Completion completion) {
  WARPLINE_TRY(EnterStreamCall(handle));
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto known = [](CUmemorytype type, CUcontext context) {
    return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_ARRAY ||
           FindContext(context) != nullptr;
  };
  if (!known(copy->srcMemoryType, copy->srcContext) ||
      !known(copy->dstMemoryType, copy->dstContext)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return Copy(*copy, handle, null_means, completion);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
  return Copy2D(pCopy, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* pCopy) {
  return Copy2D(pCopy, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) {
  return Copy2D(pCopy, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* pCopy) {
  return Copy2D(pCopy, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return Copy2D(pCopy, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return Copy2D(pCopy, hStream, kPerThread, kAsync);
}

CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
  return Copy3D(pCopy, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* pCopy) {
  return Copy3D(pCopy, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
  return CopyPeer(pCopy, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER* pCopy) {
  return CopyPeer(pCopy, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  return CopyPeer(pCopy, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  return CopyPeer(pCopy, hStream, kPerThread, kAsync);
}
CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return Copy3D(pCopy, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return Copy3D(pCopy, hStream, kPerThread, kAsync);
}

}  // extern "C"
