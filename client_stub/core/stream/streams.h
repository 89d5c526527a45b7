// Streams, their default ones among them, and waiting for what was sent on them.
//
// Stream and event commands go through here, so that a stream knows the latest command that it
// carries: whether that has retired answers most waits without the server.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_STREAMS_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_STREAMS_H_

#include <string_view>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/command_recorder.h"
#include "client_stub/core/stream/host_calls.h"

namespace warpline::stub {

// Which stream a call means that names none, or NULL.
enum class DefaultStream { kLegacy, kPerThread };

// nullptr for what is no stream. NULL is the call's default, 1 the legacy stream, 2 the thread's
// own, which is created here; all three are of the current device.
Stream* FindStream(CUstream handle, DefaultStream null_means);

inline bool IsDefaultStream(CUstream handle) {
  return handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}
// What calls on a stream begin with. A stream that was created names its context; the default ones
// are those of the current context, and CUDA_ERROR_INVALID_CONTEXT without one.
inline CUresult EnterStreamCall(CUstream handle) {
  return IsDefaultStream(handle) ? Enter() : EnterObject();
}
// The same, and finds it. CUDA_ERROR_INVALID_HANDLE for what is no stream.
inline CUresult EnterOn(CUstream handle, DefaultStream null_means, Stream** stream) {
  WARPLINE_TRY(EnterStreamCall(handle));
  *stream = FindStream(handle, null_means);
  return *stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// `context` is nullptr for a default stream of a thread.
CUresult CreateStream(Device* device, Context* context, unsigned int flags, int priority,
                      Stream** stream);
// Its work completes; CUDA_ERROR_INVALID_HANDLE for what is no stream that cuStreamCreate gave.
CUresult DestroyStream(CUstream handle);
// Destroys all streams that `context` owns.
void DestroyStreamsOf(const Context* context);

// Sends a command that runs on `stream`. `*sent_seq` (may be null) gets its number.
template <typename Command>
CUresult SendOn(Stream* stream, const Command& command, std::string_view tail = {},
                uint64_t* sent_seq = nullptr) {
  if (stream->recorder != nullptr) return Record(stream->recorder, command, tail);
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  if (runtime().host_calls->any()) runtime().host_calls->Pace(tail.size());
  const uint64_t seq = runtime().commands->Send(command, tail);
  if (seq != 0) stream->NoteSent(seq);
  if (sent_seq != nullptr) *sent_seq = seq;
  return SentAs(seq);
}

// What any stream is given from now on comes after what `stream` was given so far. Needed after
// synchronous copies, which do not wait for the device. Only non-blocking streams and those of
// other devices overtake the legacy stream, so for that one nothing is sent before there is one.
CUresult OrderOtherStreamsAfter(Stream* stream);

// True when everything sent on the stream so far is complete; for the legacy stream, which waits
// for the blocking ones, theirs too. Reads memory only.
bool StreamComplete(const Stream& stream);

// Returns when everything sent on the stream so far is complete: from memory if it already is.
CUresult SynchronizeStream(Stream* stream);
// The same for everything that a device was given.
CUresult SynchronizeDevice(const Device& device);
// The same for everything that this process sent.
CUresult SynchronizeSession();

// What `stream` is given from now on comes after what `before` was given so far.
CUresult Join(Stream* before, Stream* stream);
// The same for all that a device's streams were given; of the contexts' streams those of `context`
// only, unless it is nullptr.
CUresult JoinDevice(Device* device, const Context* context, Stream* stream);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_STREAMS_H_
