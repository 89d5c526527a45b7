// Whether streams and events are part of captures, and what captures forbid.
//
// A capture begins in one stream and spreads to others through events. A call that CUDA forbids
// while it is under way invalidates it.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_CAPTURE_STATE_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_CAPTURE_STATE_H_

#include <atomic>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/device.h"
#include "client_stub/core/runtime/objects.h"
#include "client_stub/core/runtime/runtime.h"

namespace warpline::stub {

// All functions here take GraphMutex() (captures.h) themselves, unless they say otherwise.

inline bool AnyCapture() { return runtime().captures.load(std::memory_order_relaxed) != 0; }
inline bool Captured(const Stream& stream) {
  return stream.capture.load(std::memory_order_relaxed) != 0;
}

// ---- Events in captures.

// Records `event` on a capturing stream. Work that waits for the event comes after everything that
// the stream was given so far.
CUresult CaptureEventRecord(Stream* stream, Event* event);
// Makes `stream` wait for `event`. Called also when only the event is part of a capture: the stream
// then joins that capture.
CUresult CaptureEventWait(Stream* stream, const Event* event);

// ---- What captures forbid. Each of these is CUDA_SUCCESS where no capture is in the way.

// Checks whether a device's legacy stream may be used beside the capturing streams. Called with
// GraphMutex() held.
CUresult CheckLegacyStream(const Device* device, bool invalidate);
// For a command that cannot be captured.
CUresult CheckUncaptured(const Stream* stream);
// For a call that is unsafe while any stream captures; the modes of the captures and of the thread
// decide.
CUresult CheckUnsafe();
// For a query of an event or a wait for it. `unsafe` says that the call also counts as unsafe when
// the event is not part of a capture.
CUresult CheckEventQuery(const Event& event, bool unsafe);
// For a wait for all work of a device.
CUresult CheckDeviceSynchronize(const Device& device);
// Called before the stream is destroyed. A capture that began in it ends; a capture that it joined
// goes on and keeps the stream's work.
void ForgetCapture(Stream* stream);

// Enters a call as Enter() does, and checks CheckUnsafe() in the rare case that anything captures.
inline CUresult EnterUnsafe() {
  WARPLINE_TRY(Enter());
  return AnyCapture() ? CheckUnsafe() : CUDA_SUCCESS;
}
// Does the same for calls whose handle names its context.
inline CUresult EnterObjectUnsafe() {
  WARPLINE_TRY(EnterObject());
  return AnyCapture() ? CheckUnsafe() : CUDA_SUCCESS;
}

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_CAPTURE_STATE_H_
