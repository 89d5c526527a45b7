// The functions of warpline.h that wait with a deadline and cancel. The shim calls them.
#include <cmath>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/host_calls.h"
#include "client_stub/core/stream/limited_waits.h"
#include "client_stub/core/stream/streams.h"
#include "client_stub/warpline.h"

using namespace warpline::stub;

namespace {

bool IsTime(double seconds) { return !std::isnan(seconds) && seconds >= 0; }

}  // namespace

extern "C" {

CUresult warpline_stream_wait(CUstream handle, double seconds) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, DefaultStream::kLegacy, &stream));
  if (!IsTime(seconds)) return CUDA_ERROR_INVALID_VALUE;
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  return SeemsComplete(stream) ? FoundComplete() : AwaitStream(*stream, absl::Seconds(seconds));
}

CUresult warpline_event_wait(CUevent handle, double seconds) {
  WARPLINE_TRY(EnterObject());
  const Event* const event = FindEvent(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!IsTime(seconds)) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(CheckEventQuery(*event, /*unsafe=*/false));
  // The latest record now, and none that another thread may add.
  const uint64_t stream = event->stream.load(std::memory_order_acquire);
  const uint64_t seq = event->seq.load(std::memory_order_acquire);
  if (seq == 0 || runtime().commands->Retired(stream, seq)) return FoundComplete();
  return AwaitCommand(stream, seq, absl::Seconds(seconds));
}

// Host functions come first: the worker calls none any more once it has dropped what is before
// them, but for those whose turn has come.
CUresult warpline_stream_cancel(CUstream handle, unsigned int flags) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, DefaultStream::kLegacy, &stream));
  if ((flags & ~WARPLINE_CANCEL_WAITING) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  runtime().host_calls->Cancel(stream->wire);
  return SentAs(runtime().commands->Send(warpline::cmd::StreamCancel{
      stream->wire, (flags & WARPLINE_CANCEL_WAITING) != 0 ? 1u : 0u, 0}));
}

}  // extern "C"
