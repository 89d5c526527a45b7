// Copies of one run of bytes.
#include "client_stub/core/copy/copies.h"
#include "client_stub/core/runtime/contexts.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

CUresult HtoD(CUdeviceptr to, const void* from, size_t bytes, CUstream handle,
              DefaultStream null_means, Completion completion) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return CopyToDevice(stream, to, from, bytes, completion);
}

CUresult DtoH(void* to, CUdeviceptr from, size_t bytes, CUstream handle, DefaultStream null_means,
              Completion completion) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return CopyFromDevice(stream, to, from, bytes, completion);
}

CUresult DtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle,
              DefaultStream null_means, Completion completion) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return CopyOnDevice(stream, to, from, bytes, completion);
}

CUresult Any(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle,
             DefaultStream null_means, Completion completion) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return CopyByAddress(stream, to, from, bytes, completion);
}

// The address tells whose memory it is, so the contexts only have to exist.
CUresult Peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t bytes, CUstream handle, DefaultStream null_means, Completion completion) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  // NULL means the current context, as in NVIDIA's driver.
  if (ContextOrCurrent(to_context) == nullptr || ContextOrCurrent(from_context) == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return CopyOnDevice(stream, to, from, bytes, completion);
}

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;
constexpr Completion kSync = Completion::kSynchronous;
constexpr Completion kAsync = Completion::kAsynchronous;

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return Any(dst, src, ByteCount, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return Any(dst, src, ByteCount, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                               CUstream hStream) {
  return Any(dst, src, ByteCount, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                                    CUstream hStream) {
  return Any(dst, src, ByteCount, hStream, kPerThread, kAsync);
}

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  return HtoD(dstDevice, srcHost, ByteCount, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void* srcHost,
                                      size_t ByteCount) {
  return HtoD(dstDevice, srcHost, ByteCount, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                      CUstream hStream) {
  return HtoD(dstDevice, srcHost, ByteCount, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void* srcHost,
                                           size_t ByteCount, CUstream hStream) {
  return HtoD(dstDevice, srcHost, ByteCount, hStream, kPerThread, kAsync);
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return DtoH(dstHost, srcDevice, ByteCount, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return DtoH(dstHost, srcDevice, ByteCount, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                      CUstream hStream) {
  return DtoH(dstHost, srcDevice, ByteCount, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemcpyDtoHAsync_v2_ptsz(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                           CUstream hStream) {
  return DtoH(dstHost, srcDevice, ByteCount, hStream, kPerThread, kAsync);
}

CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return DtoD(dstDevice, srcDevice, ByteCount, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                      size_t ByteCount) {
  return DtoD(dstDevice, srcDevice, ByteCount, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                      size_t ByteCount, CUstream hStream) {
  return DtoD(dstDevice, srcDevice, ByteCount, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                           size_t ByteCount, CUstream hStream) {
  return DtoD(dstDevice, srcDevice, ByteCount, hStream, kPerThread, kAsync);
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                              CUcontext srcContext, size_t ByteCount) {
  return Peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext,
                                   CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount) {
  return Peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
                                   CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount,
                                   CUstream hStream) {
  return Peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext,
                                        CUdeviceptr srcDevice, CUcontext srcContext,
                                        size_t ByteCount, CUstream hStream) {
  return Peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, kPerThread, kAsync);
}

}  // extern "C"
