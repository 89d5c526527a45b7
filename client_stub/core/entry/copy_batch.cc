// Batches of copies. Each copy of a batch is made as if it came by itself, in the batch's order,
// which is one of the orders that CUDA allows.
#include "client_stub/core/copy/copies.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;
using warpline::BoxExtent;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

CUresult EnterBatch(CUstream handle, DefaultStream null_means, Stream** stream) {
  WARPLINE_TRY(EnterStreamCall(handle));
  // The legacy stream takes no batches.
  if (handle == CU_STREAM_LEGACY || (handle == nullptr && null_means == kLegacy)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *stream = FindStream(handle, null_means);
  return *stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

bool KnownOrder(CUmemcpySrcAccessOrder order) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

CUresult CheckAttributes(const CUmemcpyAttributes* attributes, const size_t* first, size_t count,
                         size_t copies) {
  if (attributes == nullptr || first == nullptr || count == 0 || count > copies || first[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    if (!KnownOrder(attributes[i].srcAccessOrder) || first[i] >= copies ||
        (i > 0 && first[i] <= first[i - 1])) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

// `*failed` (may be null) is the index of the copy that failed, or the largest number when no
// single copy did.
CUresult CopyBatch(const CUdeviceptr* to, const CUdeviceptr* from, const size_t* bytes,
                   size_t count, const CUmemcpyAttributes* attributes, const size_t* first,
                   size_t attribute_count, size_t* failed, CUstream handle,
                   DefaultStream null_means) {
  Stream* stream;
  if (failed != nullptr) *failed = SIZE_MAX;
  WARPLINE_TRY(EnterBatch(handle, null_means, &stream));
  if (to == nullptr || from == nullptr || bytes == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WARPLINE_TRY(CheckAttributes(attributes, first, attribute_count, count));
  for (size_t i = 0; i < count; ++i) {
    const CUresult result =
        bytes[i] == 0 ? CUDA_ERROR_INVALID_VALUE
                      : CopyByAddress(stream, to[i], from[i], bytes[i], Completion::kAsynchronous);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}

CUresult FindBox(const CUmemcpy3DOperand& operand, const BoxExtent& extent, Box* box) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_ERROR_INVALID_VALUE;
  // In memory an element is a byte.
  const auto& pointer = operand.op.ptr;
  box->place.address = pointer.ptr;
  box->place.pitch = pointer.rowLength != 0 ? pointer.rowLength : extent.width;
  const uint64_t rows = pointer.layerHeight != 0 ? pointer.layerHeight : extent.height;
  box->device = runtime().memory->IsDevice(pointer.ptr);
  return rows < extent.height || __builtin_mul_overflow(box->place.pitch, rows, &box->place.slice)
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult CopyOne(Stream* stream, const CUDA_MEMCPY3D_BATCH_OP& copy) {
  const BoxExtent extent = {copy.extent.width, copy.extent.height, copy.extent.depth};
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0 ||
      !KnownOrder(copy.srcAccessOrder)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Box to, from;
  WARPLINE_TRY(FindBox(copy.dst, extent, &to));
  WARPLINE_TRY(FindBox(copy.src, extent, &from));
  return CopyBox(stream, to, from, extent, Completion::kAsynchronous);
}

CUresult CopyBoxes(size_t count, const CUDA_MEMCPY3D_BATCH_OP* copies, size_t* failed,
                   unsigned long long flags, CUstream handle, DefaultStream null_means) {
  Stream* stream;
  if (failed != nullptr) *failed = SIZE_MAX;
  WARPLINE_TRY(EnterBatch(handle, null_means, &stream));
  if (copies == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUresult result = CopyOne(stream, copies[i]);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes,
                                       size_t count, CUmemcpyAttributes* attrs, size_t* attrsIdxs,
                                       size_t numAttrs, CUstream hStream) {
  return CopyBatch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, nullptr, hStream, kLegacy);
}
CUresult CUDAAPI cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes,
                                            size_t count, CUmemcpyAttributes* attrs,
                                            size_t* attrsIdxs, size_t numAttrs, CUstream hStream) {
  return CopyBatch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, nullptr, hStream,
                   kPerThread);
}
CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes,
                                    size_t count, CUmemcpyAttributes* attrs, size_t* attrsIdxs,
                                    size_t numAttrs, size_t* failIdx, CUstream hStream) {
  return CopyBatch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream, kLegacy);
}
CUresult CUDAAPI cuMemcpyBatchAsync_ptsz(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes,
                                         size_t count, CUmemcpyAttributes* attrs, size_t* attrsIdxs,
                                         size_t numAttrs, size_t* failIdx, CUstream hStream) {
  return CopyBatch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream,
                   kPerThread);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                         unsigned long long flags, CUstream hStream) {
  return CopyBoxes(numOps, opList, nullptr, flags, hStream, kLegacy);
}
CUresult CUDAAPI cuMemcpy3DBatchAsync_v2_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                              unsigned long long flags, CUstream hStream) {
  return CopyBoxes(numOps, opList, nullptr, flags, hStream, kPerThread);
}
CUresult CUDAAPI cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                      size_t* failIdx, unsigned long long flags, CUstream hStream) {
  return CopyBoxes(numOps, opList, failIdx, flags, hStream, kLegacy);
}
CUresult CUDAAPI cuMemcpy3DBatchAsync_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                           size_t* failIdx, unsigned long long flags,
                                           CUstream hStream) {
  return CopyBoxes(numOps, opList, failIdx, flags, hStream, kPerThread);
}

}  // extern "C"
