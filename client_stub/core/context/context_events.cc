#include "client_stub/core/context/context_events.h"

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/streams.h"

namespace warpline::stub {

CUresult RecordContext(const Context* context, Event* event) {
  Stream* const legacy = &context->device->legacy;
  WARPLINE_TRY(JoinDevice(context->device, context, legacy));
  return RecordEvent(event, legacy);
}

CUresult HoldContext(const Context* context, Event* event) {
  if (EventComplete(*event)) return CUDA_SUCCESS;
  Stream* const legacy = &context->device->legacy;
  WARPLINE_TRY(SendOn(legacy, cmd::StreamWaitEvent{legacy->wire, event->wire}));
  return OrderOtherStreamsAfter(legacy);
}

}  // namespace warpline::stub
