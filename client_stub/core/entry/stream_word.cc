// Waits for words of device memory, and writes of them, in the order of a stream.
#include "client_stub/core/graph/capture.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/stream_commands.h"
#include "client_stub/core/stream/streams.h"
#include "proto/frames.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;
// cuda.h requires fewer than 256 operations.
constexpr unsigned int kMaxOperations = 255;

CUresult Submit(CUstream handle, const CUstreamBatchMemOpParams* operations, unsigned int count,
                DefaultStream null_means) {
  Stream* stream = FindStream(handle, null_means);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!Captured(*stream)) return SendMemOps(stream, operations, count);
  SharedNodeParams params;
  // The operations are only read.
  auto* const given = const_cast<CUstreamBatchMemOpParams*>(operations);
  WARPLINE_TRY(ReadBatchMemOpNode({nullptr, count, given, 0}, &params));
  return CaptureNode(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params);
}

CUresult One(CUstream stream, CUstreamBatchMemOpType kind, CUdeviceptr address, uint64_t value,
             unsigned int flags, DefaultStream null_means) {
  WARPLINE_TRY(EnterStreamCall(stream));
  CUstreamBatchMemOpParams operation = {};
  operation.operation = kind;
  // Wait and write operations have these members at the same places.
  operation.waitValue.address = address;
  operation.waitValue.value64 = value;
  operation.waitValue.flags = flags;
  return Submit(stream, &operation, 1, null_means);
}

CUresult Batch(CUstream stream, unsigned int count, const CUstreamBatchMemOpParams* operations,
               unsigned int flags, DefaultStream null_means) {
  WARPLINE_TRY(EnterStreamCall(stream));
  if (operations == nullptr || count == 0 || count > kMaxOperations || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Submit(stream, operations, count, null_means);
}

}  // namespace

extern "C" {

// The two ABI versions differ in what a device must be set up for, not in what they do.
#define WARPLINE_WORD_ENTRIES(name, value_type, kind)                                              \
  CUresult CUDAAPI name(CUstream stream, CUdeviceptr addr, value_type value, unsigned int flags) { \
    return One(stream, kind, addr, value, flags, kLegacy);                                         \
  }                                                                                                \
  CUresult CUDAAPI name##_ptsz(CUstream stream, CUdeviceptr addr, value_type value,                \
                               unsigned int flags) {                                               \
    return One(stream, kind, addr, value, flags, kPerThread);                                      \
  }

WARPLINE_WORD_ENTRIES(cuStreamWaitValue32, cuuint32_t, CU_STREAM_MEM_OP_WAIT_VALUE_32)
WARPLINE_WORD_ENTRIES(cuStreamWaitValue32_v2, cuuint32_t, CU_STREAM_MEM_OP_WAIT_VALUE_32)
WARPLINE_WORD_ENTRIES(cuStreamWaitValue64, cuuint64_t, CU_STREAM_MEM_OP_WAIT_VALUE_64)
WARPLINE_WORD_ENTRIES(cuStreamWaitValue64_v2, cuuint64_t, CU_STREAM_MEM_OP_WAIT_VALUE_64)
WARPLINE_WORD_ENTRIES(cuStreamWriteValue32, cuuint32_t, CU_STREAM_MEM_OP_WRITE_VALUE_32)
WARPLINE_WORD_ENTRIES(cuStreamWriteValue32_v2, cuuint32_t, CU_STREAM_MEM_OP_WRITE_VALUE_32)
WARPLINE_WORD_ENTRIES(cuStreamWriteValue64, cuuint64_t, CU_STREAM_MEM_OP_WRITE_VALUE_64)
WARPLINE_WORD_ENTRIES(cuStreamWriteValue64_v2, cuuint64_t, CU_STREAM_MEM_OP_WRITE_VALUE_64)
#undef WARPLINE_WORD_ENTRIES

CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned int count,
                                    CUstreamBatchMemOpParams* paramArray, unsigned int flags) {
  return Batch(stream, count, paramArray, flags, kLegacy);
}
CUresult CUDAAPI cuStreamBatchMemOp_ptsz(CUstream stream, unsigned int count,
                                         CUstreamBatchMemOpParams* paramArray, unsigned int flags) {
  return Batch(stream, count, paramArray, flags, kPerThread);
}
CUresult CUDAAPI cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                       CUstreamBatchMemOpParams* paramArray, unsigned int flags) {
  return Batch(stream, count, paramArray, flags, kLegacy);
}
CUresult CUDAAPI cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
                                            CUstreamBatchMemOpParams* paramArray,
                                            unsigned int flags) {
  return Batch(stream, count, paramArray, flags, kPerThread);
}

}  // extern "C"
