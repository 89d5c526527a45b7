// Copies of a run of bytes to and from arrays. CUDA defines them for arrays of one dimension; in
// other arrays a run lies within the first row.
#include "client_stub/core/copy/arrays.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;
constexpr Completion kSync = Completion::kSynchronous;
constexpr Completion kAsync = Completion::kAsynchronous;

CopyEnd Memory(uint64_t address, uint64_t bytes, bool device) {
  CopyEnd end;
  end.box.place = {address, bytes, bytes};
  // As with other copies, an address of the arena is the device's wherever it is given.
  end.box.device = device || runtime().memory->IsDevice(address);
  return end;
}

CopyEnd Host(const void* address, uint64_t bytes) {
  return Memory(reinterpret_cast<uint64_t>(address), bytes, false);
}

CopyEnd Device(CUdeviceptr address, uint64_t bytes) { return Memory(address, bytes, true); }

CUresult InArray(CUarray handle, uint64_t offset, CopyEnd* end) {
  end->array = FindArray(handle);
  end->x = offset;
  return end->array == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult Copy(const CopyEnd& to, const CopyEnd& from, uint64_t bytes, CUstream handle,
              DefaultStream null_means, Completion completion) {
  Stream* const stream = FindStream(handle, null_means);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return CopyArrayBox(stream, to, from, {bytes, 1, 1}, completion);
}

CUresult ToArray(CUarray array, size_t offset, const CopyEnd& from, size_t bytes, CUstream handle,
                 DefaultStream null_means, Completion completion) {
  CopyEnd to;
  WARPLINE_TRY(InArray(array, offset, &to));
  return Copy(to, from, bytes, handle, null_means, completion);
}

CUresult FromArray(const CopyEnd& to, CUarray array, size_t offset, size_t bytes, CUstream handle,
                   DefaultStream null_means, Completion completion) {
  CopyEnd from;
  WARPLINE_TRY(InArray(array, offset, &from));
  return Copy(to, from, bytes, handle, null_means, completion);
}

CUresult DtoA(CUarray array, size_t offset, CUdeviceptr source, size_t bytes,
              DefaultStream null_means) {
  WARPLINE_TRY(Enter());
  return ToArray(array, offset, Device(source, bytes), bytes, nullptr, null_means, kSync);
}

CUresult AtoD(CUdeviceptr target, CUarray array, size_t offset, size_t bytes,
              DefaultStream null_means) {
  WARPLINE_TRY(Enter());
  return FromArray(Device(target, bytes), array, offset, bytes, nullptr, null_means, kSync);
}

CUresult HtoA(CUarray array, size_t offset, const void* source, size_t bytes, CUstream stream,
              DefaultStream null_means, Completion completion) {
  WARPLINE_TRY(EnterStreamCall(stream));
  return ToArray(array, offset, Host(source, bytes), bytes, stream, null_means, completion);
}

CUresult AtoH(void* target, CUarray array, size_t offset, size_t bytes, CUstream stream,
              DefaultStream null_means, Completion completion) {
  WARPLINE_TRY(EnterStreamCall(stream));
  return FromArray(Host(target, bytes), array, offset, bytes, stream, null_means, completion);
}

CUresult AtoA(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes,
              DefaultStream null_means) {
  WARPLINE_TRY(Enter());
  CopyEnd source;
  WARPLINE_TRY(InArray(from, from_offset, &source));
  return ToArray(to, to_offset, source, bytes, nullptr, null_means, kSync);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpyDtoA_v2(CUarray dst, size_t dstOffset, CUdeviceptr src, size_t bytes) {
  return DtoA(dst, dstOffset, src, bytes, kLegacy);
}
CUresult CUDAAPI cuMemcpyDtoA_v2_ptds(CUarray dst, size_t dstOffset, CUdeviceptr src,
                                      size_t bytes) {
  return DtoA(dst, dstOffset, src, bytes, kPerThread);
}
CUresult CUDAAPI cuMemcpyAtoD_v2(CUdeviceptr dst, CUarray src, size_t srcOffset, size_t bytes) {
  return AtoD(dst, src, srcOffset, bytes, kLegacy);
}
CUresult CUDAAPI cuMemcpyAtoD_v2_ptds(CUdeviceptr dst, CUarray src, size_t srcOffset,
                                      size_t bytes) {
  return AtoD(dst, src, srcOffset, bytes, kPerThread);
}
CUresult CUDAAPI cuMemcpyHtoA_v2(CUarray dst, size_t dstOffset, const void* src, size_t bytes) {
  return HtoA(dst, dstOffset, src, bytes, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpyHtoA_v2_ptds(CUarray dst, size_t dstOffset, const void* src,
                                      size_t bytes) {
  return HtoA(dst, dstOffset, src, bytes, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpyHtoAAsync_v2(CUarray dst, size_t dstOffset, const void* src, size_t bytes,
                                      CUstream stream) {
  return HtoA(dst, dstOffset, src, bytes, stream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemcpyHtoAAsync_v2_ptsz(CUarray dst, size_t dstOffset, const void* src,
                                           size_t bytes, CUstream stream) {
  return HtoA(dst, dstOffset, src, bytes, stream, kPerThread, kAsync);
}
CUresult CUDAAPI cuMemcpyAtoH_v2(void* dst, CUarray src, size_t srcOffset, size_t bytes) {
  return AtoH(dst, src, srcOffset, bytes, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemcpyAtoH_v2_ptds(void* dst, CUarray src, size_t srcOffset, size_t bytes) {
  return AtoH(dst, src, srcOffset, bytes, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemcpyAtoHAsync_v2(void* dst, CUarray src, size_t srcOffset, size_t bytes,
                                      CUstream stream) {
  return AtoH(dst, src, srcOffset, bytes, stream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemcpyAtoHAsync_v2_ptsz(void* dst, CUarray src, size_t srcOffset, size_t bytes,
                                           CUstream stream) {
  return AtoH(dst, src, srcOffset, bytes, stream, kPerThread, kAsync);
}
CUresult CUDAAPI cuMemcpyAtoA_v2(CUarray dst, size_t dstOffset, CUarray src, size_t srcOffset,
                                 size_t bytes) {
  return AtoA(dst, dstOffset, src, srcOffset, bytes, kLegacy);
}
CUresult CUDAAPI cuMemcpyAtoA_v2_ptds(CUarray dst, size_t dstOffset, CUarray src, size_t srcOffset,
                                      size_t bytes) {
  return AtoA(dst, dstOffset, src, srcOffset, bytes, kPerThread);
}

}  // extern "C"
