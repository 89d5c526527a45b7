// Whether streams and events are part of captures, and what captures forbid meanwhile.
//
// A capture begins in one stream and spreads to others through events; a call that CUDA forbids
// meanwhile invalidates it.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_CAPTURE_STATE_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_CAPTURE_STATE_H_

#include <atomic>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/device.h"
#include "client_stub/core/runtime/objects.h"
#include "client_stub/core/runtime/runtime.h"

namespace warpline::stub {

// All take GraphMutex() (captures.h) themselves, unless they say otherwise.

inline bool AnyCapture() { return runtime().captures.load(std::memory_order_relaxed) != 0; }
inline bool Captured(const Stream& stream) {
  return stream.capture.load(std::memory_order_relaxed) != 0;
}

// ---- What is captured of events.

// `stream` is one that captures. What comes after the event comes after what it was given so far.
CUresult CaptureEventRecord(Stream* stream, Event* event);
// Also when only the event was captured: the stream then joins that capture.
CUresult CaptureEventWait(Stream* stream, const Event* event);

// ---- What captures forbid. Each is CUDA_SUCCESS where nothing is in the way.

// What a device's legacy stream in use means for those that capture. With GraphMutex() held.
CUresult CheckLegacyStream(const Device* device, bool invalidate);
// For a command that no capture takes.
CUresult CheckUncaptured(const Stream* stream);
// For a call that is unsafe while something captures, by the modes of captures and thread.
CUresult CheckUnsafe();
// For a query of an event or a wait for it.
CUresult CheckEventQuery(const Event& event, bool unsafe);
// For a wait for everything that a device was given.
CUresult CheckDeviceSynchronize(const Device& device);
// The stream is about to be destroyed: the capture that began in it ends with it, one that it
// joined goes on with what the stream did.
void ForgetCapture(Stream* stream);

// The same for who enters where nothing captures, which is nearly always.
inline CUresult EnterUnsafe() {
  WARPLINE_TRY(Enter());
  return AnyCapture() ? CheckUnsafe() : CUDA_SUCCESS;
}
// The same for calls whose handle names its context.
inline CUresult EnterObjectUnsafe() {
  WARPLINE_TRY(EnterObject());
  return AnyCapture() ? CheckUnsafe() : CUDA_SUCCESS;
}

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_CAPTURE_STATE_H_
