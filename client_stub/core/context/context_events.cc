#include "client_stub/core/context/context_events.h"

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/streams.h"

namespace warpline::stub {
namespace {

// Returns an error and invalidates the capture when a stream of the green context captures.
CUresult CheckUncapturedStreamsOf(const Context* context) {
  if (!AnyCapture()) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  runtime().streams.ForEach([&](const Stream& stream, uint64_t) {
    if (stream.context != context) return true;
    const CUresult captured = CheckUncaptured(&stream);
    if (captured != CUDA_SUCCESS) result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return true;
  });
  return result;
}

CUresult RecordGreen(const Context* context, Event* event) {
  WARPLINE_TRY(CheckUncapturedStreamsOf(context));
  Stream* const first = DefaultStreamOf(context->green);
  if (first == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  WARPLINE_TRY(JoinStreamsOf(context, first));
  return RecordEvent(event, first);
}

CUresult HoldGreen(const Context* context, Event* event) {
  WARPLINE_TRY(CheckUncapturedStreamsOf(context));
  if (event->capture.load(std::memory_order_relaxed) != 0) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (EventComplete(*event)) return CUDA_SUCCESS;
  Stream* const first = DefaultStreamOf(context->green);
  if (first == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  context->green->held.store(true, std::memory_order_release);
  Runtime& r = runtime();
  CUresult result = CUDA_SUCCESS;
  r.streams.ForEach([&](const Stream& stream, uint64_t handle) {
    if (stream.context != context) return true;
    Stream* const found = r.streams.Find(handle);
    if (found != nullptr) result = WaitForEvent(found, event);
    return result == CUDA_SUCCESS;
  });
  return result;
}

}  // namespace

CUresult RecordContext(const Context* context, Event* event) {
  if (context->green != nullptr) return RecordGreen(context, event);
  Stream* const legacy = &context->device->legacy;
  WARPLINE_TRY(JoinDevice(context->device, context, legacy));
  return RecordEvent(event, legacy);
}

CUresult HoldContext(const Context* context, Event* event) {
  if (context->green != nullptr) return HoldGreen(context, event);
  if (EventComplete(*event)) return CUDA_SUCCESS;
  Stream* const legacy = &context->device->legacy;
  WARPLINE_TRY(SendOn(legacy, cmd::StreamWaitEvent{legacy->wire, event->wire}));
  return OrderOtherStreamsAfter(legacy);
}

}  // namespace warpline::stub
