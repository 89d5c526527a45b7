// Events. Creating, recording and destroying them is one-way; only the time between two events is
// asked of the server.
#include <cstring>

#include "client_stub/core/graph/capture.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/streams.h"
#include "proto/wire.h"

using namespace warpline::stub;

namespace {

CUresult Record(CUevent handle, CUstream stream_handle, unsigned int flags,
                DefaultStream null_means) {
  WARPLINE_TRY(EnterStreamCall(stream_handle));
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  Event* event = FindEvent(handle);
  Stream* stream = FindStream(stream_handle, null_means);
  if (flags == CU_EVENT_RECORD_EXTERNAL) {
    // This flag asks for a node of a graph that is being captured.
    if (stream == nullptr || !Captured(*stream)) return CUDA_ERROR_ILLEGAL_STATE;
    return event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CaptureExternalRecord(stream, event);
  }
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == nullptr) return NoStream(stream_handle);
  // An event can be waited for on any device, but recorded only on its own.
  if (event->context->device != stream->device) return CUDA_ERROR_INVALID_HANDLE;
  return RecordEvent(event, stream);
}

bool Timed(const Event* event) {
  return event != nullptr && (event->flags & CU_EVENT_DISABLE_TIMING) == 0 && event->seq != 0;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  WARPLINE_TRY(Enter());
  constexpr unsigned int kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (phEvent == nullptr || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  // Only an event without timing can be shared with other processes.
  if ((Flags & CU_EVENT_INTERPROCESS) != 0 && (Flags & CU_EVENT_DISABLE_TIMING) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CreateEvent(CurrentOwner(), Flags, phEvent);
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent hEvent) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterObject());
  return DestroyEvent(hEvent);
}
CUresult CUDAAPI cuEventDestroy(CUevent hEvent) { return cuEventDestroy_v2(hEvent); }

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream) {
  return Record(hEvent, hStream, CU_EVENT_RECORD_DEFAULT, DefaultStream::kLegacy);
}
CUresult CUDAAPI cuEventRecord_ptsz(CUevent hEvent, CUstream hStream) {
  return Record(hEvent, hStream, CU_EVENT_RECORD_DEFAULT, DefaultStream::kPerThread);
}
CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  return Record(hEvent, hStream, flags, DefaultStream::kLegacy);
}
CUresult CUDAAPI cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags) {
  return Record(hEvent, hStream, flags, DefaultStream::kPerThread);
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent) {
  WARPLINE_TRY(EnterObject());
  const Event* event = FindEvent(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  WARPLINE_TRY(CheckEventQuery(*event, /*unsafe=*/true));
  if (!EventComplete(*event)) return CUDA_ERROR_NOT_READY;
  return FoundComplete();
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent) {
  WARPLINE_TRY(EnterObject());
  Event* event = FindEvent(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return SynchronizeEvent(event);
}

CUresult CUDAAPI cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  WARPLINE_TRY(EnterObject());
  // NVIDIA's driver returns this error.
  if (pMilliseconds == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Event* start = FindEvent(hStart);
  const Event* end = FindEvent(hEnd);
  if (start == nullptr || end == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  WARPLINE_TRY(CheckEventQuery(*start, /*unsafe=*/false));
  WARPLINE_TRY(CheckEventQuery(*end, /*unsafe=*/false));
  if (!Timed(start) || !Timed(end) || start->context->device != end->context->device) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!EventComplete(*start) || !EventComplete(*end)) return CUDA_ERROR_NOT_READY;
  std::string reply;
  WARPLINE_TRY(ToCu(runtime().commands->Call(
      WaitKind::kRoundTrip, warpline::cmd::EventElapsed{start->wire, end->wire}, {}, &reply)));
  std::string_view rest = reply;
  warpline::cmd::EventElapsedReply elapsed;
  if (!warpline::TakeStruct(&rest, &elapsed)) return CUDA_ERROR_UNKNOWN;
  *pMilliseconds = elapsed.milliseconds;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

}  // extern "C"
