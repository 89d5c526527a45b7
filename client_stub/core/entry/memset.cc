// Fills of device memory. They are one-way and run on the call's stream.
#include "client_stub/core/copy/copies.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

constexpr Completion kSync = Completion::kSynchronous;
constexpr Completion kAsync = Completion::kAsynchronous;

CUresult Set(CUdeviceptr to, uint32_t value, uint32_t width, size_t count, CUstream handle,
             DefaultStream null_means, Completion completion) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return Fill(stream, to, value, width, count, completion);
}

CUresult SetRows(CUdeviceptr to, size_t pitch, uint32_t value, uint32_t width, size_t columns,
                 size_t rows, CUstream handle, DefaultStream null_means, Completion completion) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return FillRows(stream, to, pitch, value, width, columns, rows, completion);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return Set(dstDevice, uc, 1, N, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                                 size_t Width, size_t Height) {
  return SetRows(dstDevice, dstPitch, uc, 1, Width, Height, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemsetD8_v2_ptds(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return Set(dstDevice, uc, 1, N, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemsetD2D8_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                                      size_t Width, size_t Height) {
  return SetRows(dstDevice, dstPitch, uc, 1, Width, Height, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N,
                                 CUstream hStream) {
  return Set(dstDevice, uc, 1, N, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                                   size_t Width, size_t Height, CUstream hStream) {
  return SetRows(dstDevice, dstPitch, uc, 1, Width, Height, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemsetD8Async_ptsz(CUdeviceptr dstDevice, unsigned char uc, size_t N,
                                      CUstream hStream) {
  return Set(dstDevice, uc, 1, N, hStream, kPerThread, kAsync);
}
CUresult CUDAAPI cuMemsetD2D8Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                                        size_t Width, size_t Height, CUstream hStream) {
  return SetRows(dstDevice, dstPitch, uc, 1, Width, Height, hStream, kPerThread, kAsync);
}
CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return Set(dstDevice, us, 2, N, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                                  size_t Width, size_t Height) {
  return SetRows(dstDevice, dstPitch, us, 2, Width, Height, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemsetD16_v2_ptds(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return Set(dstDevice, us, 2, N, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemsetD2D16_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                                       size_t Width, size_t Height) {
  return SetRows(dstDevice, dstPitch, us, 2, Width, Height, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N,
                                  CUstream hStream) {
  return Set(dstDevice, us, 2, N, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                                    size_t Width, size_t Height, CUstream hStream) {
  return SetRows(dstDevice, dstPitch, us, 2, Width, Height, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemsetD16Async_ptsz(CUdeviceptr dstDevice, unsigned short us, size_t N,
                                       CUstream hStream) {
  return Set(dstDevice, us, 2, N, hStream, kPerThread, kAsync);
}
CUresult CUDAAPI cuMemsetD2D16Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                                         size_t Width, size_t Height, CUstream hStream) {
  return SetRows(dstDevice, dstPitch, us, 2, Width, Height, hStream, kPerThread, kAsync);
}
CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return Set(dstDevice, ui, 4, N, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                                  size_t Width, size_t Height) {
  return SetRows(dstDevice, dstPitch, ui, 4, Width, Height, nullptr, kLegacy, kSync);
}
CUresult CUDAAPI cuMemsetD32_v2_ptds(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return Set(dstDevice, ui, 4, N, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemsetD2D32_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                                       size_t Width, size_t Height) {
  return SetRows(dstDevice, dstPitch, ui, 4, Width, Height, nullptr, kPerThread, kSync);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N,
                                  CUstream hStream) {
  return Set(dstDevice, ui, 4, N, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                                    size_t Width, size_t Height, CUstream hStream) {
  return SetRows(dstDevice, dstPitch, ui, 4, Width, Height, hStream, kLegacy, kAsync);
}
CUresult CUDAAPI cuMemsetD32Async_ptsz(CUdeviceptr dstDevice, unsigned int ui, size_t N,
                                       CUstream hStream) {
  return Set(dstDevice, ui, 4, N, hStream, kPerThread, kAsync);
}
CUresult CUDAAPI cuMemsetD2D32Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                                         size_t Width, size_t Height, CUstream hStream) {
  return SetRows(dstDevice, dstPitch, ui, 4, Width, Height, hStream, kPerThread, kAsync);
}

}  // extern "C"
