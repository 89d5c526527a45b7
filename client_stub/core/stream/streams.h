// Streams, including the default ones, and waiting for the work that was sent on them.
//
// Stream and event commands go through here, so that a stream knows the latest command that it
// carries: whether that command has retired answers most waits without the server.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_STREAMS_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_STREAMS_H_

#include <cstddef>
#include <string_view>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/command_recorder.h"
#include "client_stub/core/stream/host_calls.h"

namespace warpline::stub {

// Which stream a call means that names no stream, or NULL.
enum class DefaultStream { kLegacy, kPerThread };

// Returns nullptr for a handle that names no stream. NULL is the call's default, 1 the legacy
// stream, 2 the thread's own, which is created here; all three belong to the current device. While
// a green context is current, 1 is its default stream and 2 is none.
Stream* FindStream(CUstream handle, DefaultStream null_means);
// The stream that NULL means while the green context is current, which is created here when it is
// first needed. Returns nullptr when there is no room for it.
Stream* DefaultStreamOf(GreenContext* green);
// The error for a handle that names no stream: CUDA_ERROR_CONTEXT_IS_DESTROYED for one of the
// latest kRememberedStreams that DestroyStreamsOf() has destroyed with a green context, and
// otherwise CUDA_ERROR_INVALID_HANDLE.
CUresult NoStream(CUstream handle);
inline constexpr size_t kRememberedStreams = 1024;

inline bool IsDefaultStream(CUstream handle) {
  return handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}
// Every call on a stream begins with this check. A stream that was created names its context. The
// default streams belong to the current context; without one this is CUDA_ERROR_INVALID_CONTEXT.
inline CUresult EnterStreamCall(CUstream handle) {
  return IsDefaultStream(handle) ? Enter() : EnterObject();
}
// Does the same and finds the stream. NoStream() for a handle that names none.
inline CUresult EnterOn(CUstream handle, DefaultStream null_means, Stream** stream) {
  WARPLINE_TRY(EnterStreamCall(handle));
  *stream = FindStream(handle, null_means);
  return *stream == nullptr ? NoStream(handle) : CUDA_SUCCESS;
}

// `context` is nullptr for a default stream of a thread. A green context's stream waits for no
// other, whatever its flags are.
CUresult CreateStream(Device* device, Context* context, unsigned int flags, int priority,
                      Stream** stream);
// Destroys a stream, whose work still completes. CUDA_ERROR_INVALID_HANDLE for a handle that
// cuStreamCreate did not give.
CUresult DestroyStream(CUstream handle);
// Destroys all streams that `context` owns.
void DestroyStreamsOf(const Context* context);

// Notes that command `seq` was sent on the stream.
inline void NoteSent(Stream* stream, uint64_t seq, Notice notice) {
  // A thread that sees the stream's number sees this one.
  if (notice == Notice::kNoticed) Stream::Raise(&runtime().last_noticed, seq);
  stream->NoteSent(seq);
}

// Sends a command that runs on `stream`. `*sent_seq` (may be null) gets its number.
template <typename Command>
CUresult SendOn(Stream* stream, const Command& command, std::string_view tail = {},
                uint64_t* sent_seq = nullptr, Notice notice = Notice::kNoticed) {
  if (stream->recorder != nullptr) return Record(stream->recorder, command, tail);
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  if (runtime().host_calls->any()) runtime().host_calls->Pace(tail.size());
  const uint64_t seq = runtime().commands->Send(command, tail);
  if (seq != 0) NoteSent(stream, seq, notice);
  if (sent_seq != nullptr) *sent_seq = seq;
  return SentAs(seq);
}

// Orders all work that any stream is given from now on after the work that `stream` was given so
// far. Needed after synchronous copies, which do not wait for the device. Only non-blocking streams
// and those of other devices overtake the legacy stream, so for the legacy stream nothing is sent
// before there is such a stream.
CUresult OrderOtherStreamsAfter(Stream* stream);

// Returns true when everything sent on the stream so far is complete; for the legacy stream, which
// waits for the blocking streams, everything sent on those too. Reads memory only.
bool StreamComplete(const Stream& stream);

// Called when the application has waited for work: the memory that it reads without a call has what
// the work wrote. Returns `result`, or for FoundComplete() WaitedFor().
CUresult Waited(CudaResult result);
// Called when the application asked and nothing had to be waited for.
CUresult FoundComplete();

// Returns true if no command that the application can notice (Notice) is under way in the session.
// Work of other streams counts, too, since streams come after each other in many ways.
bool NothingToNotice();
// Returns true when everything sent on the stream so far is complete as far as the application can
// tell. Where only it cannot tell, other streams' later work is ordered after the rest. Reads
// memory, and may send, but waits for nothing.
bool SeemsComplete(Stream* stream);

// Returns when everything sent on the stream so far is complete as far as the application can tell.
// Asks the server only if it is not complete yet.
CUresult SynchronizeStream(Stream* stream);
// Waits in the same way for the streams that a context owns.
CUresult SynchronizeStreamsOf(const Context& context);
// Waits in the same way for all work of a device.
CUresult SynchronizeDevice(const Device& device);
// Waits in the same way for everything that this process has sent.
CUresult SynchronizeSession();
// Called before memory is shared with another process: from now on the application can notice when
// any command is complete. Waits for those that were said to be complete already, which no kernel
// holds back.
CUresult BeginSharing();
// Waits for the device's work as NVIDIA's driver does in calls that free what work may use: the
// program sees what was written, and gets the error of a kernel that failed. Waits for nothing else
// that was sent, such as other calls that freed something.
CUresult AwaitWorkBeforeFree(const Device& device);
// Ends a synchronous call that need not wait for what it has sent on the stream unless something
// sees that without a call.
CUresult EndSynchronous(Stream* stream);

// Orders the work that `stream` is given from now on after the work that `before` was given so far.
CUresult Join(Stream* before, Stream* stream);
// Orders it after the work of the streams that a context owns.
CUresult JoinStreamsOf(const Context* context, Stream* stream);
// Orders it after the work of all streams of a device; of the streams that belong to contexts only
// those of `context` count, unless it is nullptr. Green contexts' count as the primary context's.
CUresult JoinDevice(Device* device, const Context* context, Stream* stream);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_STREAMS_H_
