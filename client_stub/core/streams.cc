#include "client_stub/core/streams.h"

#include <algorithm>
#include <vector>

#include "client_stub/core/capture.h"

namespace warpline::stub {
namespace {

Stream* ThreadStream() {
  if (t_thread.default_stream == nullptr) {
    Stream* stream = nullptr;
    if (CreateStream(nullptr, CU_STREAM_DEFAULT, 0, &stream) != CUDA_SUCCESS) return nullptr;
    t_thread.default_stream = stream;
    WatchThreadEnd();
  }
  return t_thread.default_stream;
}

void Forget(Stream& stream) {
  Runtime& r = runtime();
  if (Captured(stream)) ForgetCapture(&stream);
  r.allocator->ForgetStream(stream.wire);
  r.session->Send(cmd::StreamDestroy{stream.wire});
  r.session->ForgetStream(stream.wire);
}

}  // namespace

Stream* FindStream(CUstream handle, DefaultStream null_means) {
  if (handle == nullptr) {
    return null_means == DefaultStream::kLegacy ? &runtime().legacy : ThreadStream();
  }
  if (handle == CU_STREAM_LEGACY) return &runtime().legacy;
  if (handle == CU_STREAM_PER_THREAD) return ThreadStream();
  return runtime().streams.Find(NumberOf(handle));
}

CUresult CreateStream(Context* context, unsigned int flags, int priority, Stream** stream) {
  Runtime& r = runtime();
  const RemoteDevice& device = r.session->device();
  priority = std::clamp(priority, device.greatest_stream_priority, device.least_stream_priority);
  if ((flags & CU_STREAM_NON_BLOCKING) != 0 && !r.has_non_blocking_streams.exchange(true)) {
    // Earlier synchronous copies were not ordered against it.
    WARPLINE_TRY(OrderOtherStreamsAfter(&r.legacy));
  }
  const cmd::StreamCreate command = {r.NewNumber(), flags, priority};
  const uint64_t seq = r.session->Send(command);
  if (seq == 0) return SentAs(seq);
  const uint64_t handle = r.streams.Add([&](Stream& s, uint64_t number) {
    s.handle = HandleOf<CUstream>(number);
    s.wire = command.stream;
    s.flags = flags;
    s.priority = priority;
    s.context = context;
    {
      MutexLock lock(&s.attributes_mu);
      s.attributes = {};
    }
    // Its creation is no work: a new stream is idle, whatever the server still has to do.
    s.last_seq.store(0, std::memory_order_relaxed);
    s.capture.store(0, std::memory_order_relaxed);
    *stream = &s;
  });
  return handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult OrderOtherStreamsAfter(Stream* stream) {
  const bool others_wait = stream->wire == kLegacyStream &&
                           !runtime().has_non_blocking_streams.load(std::memory_order_relaxed);
  if (others_wait) return CUDA_SUCCESS;
  return SendOn(stream, cmd::StreamBarrier{stream->wire});
}

CUresult DestroyStream(CUstream handle) {
  const Stream* stream = runtime().streams.Find(NumberOf(handle));
  // A stream without a context is some thread's default one.
  if (stream == nullptr || stream->context == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return runtime().streams.Remove(NumberOf(handle), Forget) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_HANDLE;
}

void DestroyStreamsOf(const Context* context) {
  runtime().streams.ForEach([context](const Stream& stream, uint64_t handle) {
    if (stream.context == context) runtime().streams.Remove(handle, Forget);
    return true;
  });
}

void ReleaseThreadStream(Stream* stream) {
  if (EnterInitialized() != CUDA_SUCCESS) return;
  runtime().streams.Remove(NumberOf(stream->handle), Forget);
}

bool StreamComplete(const Stream& stream) {
  const Session& session = *runtime().session;
  if (!session.Retired(stream.wire, stream.last_seq.load(std::memory_order_acquire))) return false;
  if (stream.wire != kLegacyStream) return true;
  bool complete = true;
  runtime().streams.ForEach([&](const Stream& other, uint64_t) {
    complete = !other.blocking() ||
               session.Retired(other.wire, other.last_seq.load(std::memory_order_acquire));
    return complete;
  });
  return complete;
}

CUresult SynchronizeStream(Stream* stream) {
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  if (StreamComplete(*stream)) return WaitedFor();
  return ToCu(runtime().session->Call(WaitKind::kSynchronize, cmd::StreamSync{stream->wire}));
}

CUresult SynchronizeContext() {
  Session& session = *runtime().session;
  if (session.Retired(kNoStream, session.last_seq())) return WaitedFor();
  return ToCu(session.Call(WaitKind::kSynchronize, cmd::ContextSync{}));
}

}  // namespace warpline::stub
