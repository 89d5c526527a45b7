#include "client_stub/core/stream/stream_commands.h"

#include <vector>

#include "client_stub/core/base/call_log.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/pinned/pinned_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/host_calls.h"
#include "client_stub/core/stream/streams.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

// The form of an operation in StreamMemOps' tail.
struct Operation {
  uint32_t kind = 0;
  uint32_t flags = 0;
  uint64_t address = 0;
  uint64_t value = 0;
};
static_assert(sizeof(Operation) == 24);

CUresult CheckFlags(const Operation& op) {
  switch (op.kind) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      // No remote writer exists under this driver whose writes would need a flush.
      if ((op.flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
      return op.flags <= CU_STREAM_WAIT_VALUE_NOR ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return op.flags <= CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_INVALID_VALUE;
    case CU_STREAM_MEM_OP_BARRIER:
      return op.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Check(const Operation& op) {
  WARPLINE_TRY(CheckFlags(op));
  if (op.kind == CU_STREAM_MEM_OP_BARRIER) return CUDA_SUCCESS;
  const bool wide =
      op.kind == CU_STREAM_MEM_OP_WAIT_VALUE_64 || op.kind == CU_STREAM_MEM_OP_WRITE_VALUE_64;
  const uint64_t bytes = wide ? 8 : 4;
  const DeviceMemory& memory = *runtime().memory;
  return op.address % bytes == 0 && (memory.InArena(op.address) || InHostArena(op.address)) &&
                 memory.Contains(op.address, bytes)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult Send(Stream* stream, const std::vector<Operation>& operations) {
  MirroredMemory::Work work(runtime().mirrored);
  for (const Operation& op : operations) {
    WARPLINE_TRY(Check(op));
    if (stream->recorder != nullptr || op.kind == CU_STREAM_MEM_OP_BARRIER) continue;
    WARPLINE_TRY(work.ForAccess(op.address, sizeof(uint64_t)));
  }
  return SendOn(
      stream, cmd::StreamMemOps{stream->wire},
      {reinterpret_cast<const char*>(operations.data()), operations.size() * sizeof(Operation)});
}

// Refuses a wait for what this process writes, which no device sees while work waits.
CUresult CheckWait(const Operation& op) {
  if (op.kind != CU_STREAM_MEM_OP_WAIT_VALUE_32 && op.kind != CU_STREAM_MEM_OP_WAIT_VALUE_64) {
    return CUDA_SUCCESS;
  }
  MirroredMemory::Range range;
  const MirroredMemory& mirrored = *runtime().mirrored;
  if (!mirrored.any() || !mirrored.Find(op.address, &range) || range.managed()) return CUDA_SUCCESS;
  if (const LogPermit permit = CallLog().Ask(kPinnedLine)) {
    permit.Warning(
        "a stream cannot wait for a word of page-locked memory on another host than the server's");
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

Operation Translate(const CUstreamBatchMemOpParams& from) {
  const auto kind = static_cast<uint32_t>(from.operation);
  switch (from.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return {kind, from.waitValue.flags, from.waitValue.address, from.waitValue.value};
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return {kind, from.waitValue.flags, from.waitValue.address, from.waitValue.value64};
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return {kind, from.writeValue.flags, from.writeValue.address, from.writeValue.value};
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return {kind, from.writeValue.flags, from.writeValue.address, from.writeValue.value64};
    case CU_STREAM_MEM_OP_BARRIER:
      return {kind, from.memoryBarrier.flags, 0, 0};
    default:
      return {kind, 0, 0, 0};
  }
}

}  // namespace

CUresult SendHostCall(Stream* stream, const HostCalls::Call& call) {
  HostCalls::Call of_stream = call;
  of_stream.wire = stream->wire;
  const uint64_t token = runtime().host_calls->Add(of_stream);
  if (token == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = SendOn(stream, cmd::HostCall{stream->wire, token});
  if (result != CUDA_SUCCESS) runtime().host_calls->Forget(token);
  return result;
}

CUresult SendMemOps(Stream* stream, const CUstreamBatchMemOpParams* operations, size_t count) {
  std::vector<Operation> translated(count);
  for (size_t i = 0; i < count; ++i) {
    translated[i] = Translate(operations[i]);
    if (translated[i].address == 0) continue;
    WARPLINE_TRY(runtime().pinned->GiveAt(&translated[i].address));
    WARPLINE_TRY(CheckWait(translated[i]));
  }
  return Send(stream, translated);
}

}  // namespace warpline::stub
