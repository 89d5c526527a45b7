#include "client_stub/core/context_events.h"

#include "client_stub/core/events.h"
#include "client_stub/core/runtime.h"
#include "client_stub/core/streams.h"

namespace warpline::stub {
namespace {

// Has the legacy stream wait for what `stream` was given so far.
CUresult JoinLegacy(Stream* stream) {
  Runtime& r = runtime();
  const uint64_t event = r.NewNumber();
  WARPLINE_TRY(SentAs(r.session->Send(cmd::EventCreate{event, CU_EVENT_DISABLE_TIMING, 0})));
  WARPLINE_TRY(SendOn(stream, cmd::EventRecord{event, stream->wire}));
  WARPLINE_TRY(SendOn(&r.legacy, cmd::StreamWaitEvent{r.legacy.wire, event}));
  return SentAs(r.session->Send(cmd::EventDestroy{event}));
}

}  // namespace

CUresult RecordContext(const Context* context, Event* event) {
  Runtime& r = runtime();
  CUresult result = CUDA_SUCCESS;
  // The device has the legacy stream wait for the blocking ones.
  r.streams.ForEach([&](const Stream& other, uint64_t handle) {
    if (other.blocking() || (other.context != nullptr && other.context != context)) return true;
    Stream* const stream = r.streams.Find(handle);
    if (stream != nullptr) result = JoinLegacy(stream);
    return result == CUDA_SUCCESS;
  });
  WARPLINE_TRY(result);
  return RecordEvent(event, &r.legacy);
}

CUresult HoldContext(const Context*, Event* event) {
  if (EventComplete(*event)) return CUDA_SUCCESS;
  Stream* const legacy = &runtime().legacy;
  WARPLINE_TRY(SendOn(legacy, cmd::StreamWaitEvent{legacy->wire, event->wire}));
  return OrderOtherStreamsAfter(legacy);
}

}  // namespace warpline::stub
