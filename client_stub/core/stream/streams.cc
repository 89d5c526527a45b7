#include "client_stub/core/stream/streams.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/creations.h"
#include "client_stub/core/stream/limited_waits.h"
#include "common/mutex.h"

namespace warpline::stub {
namespace {

void DestroyOnServer(uint64_t wire) {
  Commands& commands = *runtime().commands;
  commands.Send(cmd::StreamDestroy{wire});
  commands.ForgetStream(wire);
}

void Forget(Stream& stream) {
  Runtime& r = runtime();
  if (Captured(stream)) ForgetCapture(&stream);
  // The stream may have freed other devices' memory.
  for (uint32_t i = 0; i < r.device_count; ++i) r.devices[i].allocator->ForgetStream(stream.wire);
  const uint64_t last = stream.last_seq.load(std::memory_order_acquire);
  if (!r.commands->Retired(stream.wire, last)) {
    uint64_t known = r.last_of_destroyed_streams.load();
    while (known < last && !r.last_of_destroyed_streams.compare_exchange_weak(known, last)) {
    }
  }
  DestroyOnServer(stream.wire);
}

// The handles of the latest streams that were left in green contexts which are destroyed.
class LeftStreams {
 public:
  void Add(uint64_t handle) {
    MutexLock lock(&mu_);
    handles_[next_++ % kRememberedStreams] = handle;
  }
  bool Has(uint64_t handle) {
    MutexLock lock(&mu_);
    return handle != 0 && std::find(handles_.begin(), handles_.end(), handle) != handles_.end();
  }

 private:
  Mutex mu_;
  std::array<uint64_t, kRememberedStreams> handles_ ABSL_GUARDED_BY(mu_) = {};
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
};

LeftStreams& left_streams() {
  static LeftStreams* const made = new LeftStreams;
  return *made;
}

bool IsGreen(const Context* context) { return context != nullptr && context->green != nullptr; }

// Creates the stream on the server, unless that refuses it.
CUresult CreateOnServer(const Context* context, uint64_t wire, unsigned int flags, int priority) {
  Runtime& r = runtime();
  const uint64_t seq =
      IsGreen(context)
          ? r.commands->Send(cmd::StreamCreateIn{wire, context->green->partition, priority, 0})
          : r.commands->Send(cmd::StreamCreate{wire, flags, priority});
  WARPLINE_TRY(SentAs(seq));
  const uint64_t streams = r.streams.live();
  const CUresult refused = ConfirmCreation(seq, streams, streams + r.events.live());
  if (refused != CUDA_SUCCESS) Withdraw(cmd::StreamDestroy{wire});
  return refused;
}

// Gives a stream of the server its handle. Returns nullptr when there are too many.
Stream* AddStream(Device* device, Context* context, uint64_t wire, unsigned int flags,
                  int priority) {
  Stream* stream = nullptr;
  runtime().streams.Add([&](Stream& s, uint64_t number) {
    s.handle = HandleOf<CUstream>(number);
    s.wire = wire;
    s.flags = flags;
    s.priority = priority;
    s.device = device;
    s.context = context;
    {
      MutexLock lock(&s.attributes_mu);
      s.attributes = {};
    }
    // Creating the stream is no work: a new stream is idle, whatever the server still has to do.
    s.last_seq.store(0, std::memory_order_relaxed);
    s.last_barrier.store(0, std::memory_order_relaxed);
    s.capture.store(0, std::memory_order_relaxed);
    stream = &s;
  });
  return stream;
}

// Orders a new stream after what the green context of `context`, if it is one's, was told to wait
// for.
CUresult JoinHeld(const Context* context, Stream* stream) {
  if (!IsGreen(context) || !context->green->held.load(std::memory_order_acquire)) {
    return CUDA_SUCCESS;
  }
  Stream* const first = context->green->default_stream.load(std::memory_order_acquire);
  return first == nullptr ? CUDA_SUCCESS : Join(first, stream);
}

// Called at the end of the thread whose default streams these are.
void ReleaseStreams(Stream** streams) {
  for (uint32_t i = 0; i < kMaxSessionDevices; ++i) {
    if (streams[i] == nullptr || EnterInitialized() != CUDA_SUCCESS) continue;
    runtime().streams.Remove(NumberOf(streams[i]->handle), Forget);
  }
  delete[] streams;
}

Stream* ThreadStream() {
  Device& device = CurrentDevice();
  if (t_thread.default_streams == nullptr) {
    t_thread.default_streams = new Stream* [kMaxSessionDevices] {};
    t_thread.release_streams = ReleaseStreams;
    WatchThreadEnd();
  }
  Stream*& stream = t_thread.default_streams[device.number];
  if (stream == nullptr &&
      CreateStream(&device, nullptr, CU_STREAM_DEFAULT, 0, &stream) != CUDA_SUCCESS) {
    return nullptr;
  }
  return stream;
}

// Whether all that a wait for the stream waits for beside its own work is complete: a legacy stream
// comes after the blocking ones.
bool ComesAloneOrLast(const Stream& stream) {
  if (!stream.legacy()) return true;
  const Commands& commands = *runtime().commands;
  bool complete = true;
  runtime().streams.ForEach([&](const Stream& other, uint64_t) {
    complete = !other.blocking() || other.device != stream.device ||
               commands.Retired(other.wire, other.last_seq.load(std::memory_order_acquire));
    return complete;
  });
  return complete;
}

}  // namespace

Stream* FindStream(CUstream handle, DefaultStream null_means) {
  const bool is_default = IsDefaultStream(handle);
  if (!is_default) return runtime().streams.Find(NumberOf(handle));
  const bool of_thread = handle == CU_STREAM_PER_THREAD ||
                         (handle == nullptr && null_means == DefaultStream::kPerThread);
  const Context* const context = t_thread.current;
  if (context != nullptr && context->green != nullptr) {
    return of_thread ? nullptr : DefaultStreamOf(context->green);
  }
  return of_thread ? ThreadStream() : &CurrentDevice().legacy;
}

Stream* DefaultStreamOf(GreenContext* green) {
  Stream* stream = green->default_stream.load(std::memory_order_acquire);
  if (stream != nullptr) return stream;
  Stream* made = nullptr;
  if (CreateStream(green->context->device, green->context, CU_STREAM_NON_BLOCKING, 0, &made) !=
      CUDA_SUCCESS) {
    return nullptr;
  }
  if (green->default_stream.compare_exchange_strong(stream, made)) return made;
  // Another thread was first.
  DestroyStream(made->handle);
  return stream;
}

CUresult NoStream(CUstream handle) {
  return left_streams().Has(NumberOf(handle)) ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                              : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CreateStream(Device* device, Context* context, unsigned int flags, int priority,
                      Stream** stream) {
  Runtime& r = runtime();
  if (IsGreen(context)) flags |= CU_STREAM_NON_BLOCKING;
  priority = std::clamp(priority, device->remote->greatest_stream_priority,
                        device->remote->least_stream_priority);
  if ((flags & CU_STREAM_NON_BLOCKING) != 0 && !r.legacy_overtaken.exchange(true)) {
    // Earlier synchronous copies were not ordered against it.
    WARPLINE_TRY(OrderOtherStreamsAfter(&device->legacy));
  }
  const uint64_t wire = r.NewNumber(*device);
  WARPLINE_TRY(CreateOnServer(context, wire, flags, priority));
  Stream* const made = AddStream(device, context, wire, flags, priority);
  if (made == nullptr) {
    DestroyOnServer(wire);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult joined = JoinHeld(context, made);
  if (joined != CUDA_SUCCESS) {
    r.streams.Remove(NumberOf(made->handle), Forget);
    return joined;
  }
  *stream = made;
  return CUDA_SUCCESS;
}

CUresult OrderOtherStreamsAfter(Stream* stream) {
  const bool others_wait =
      stream->legacy() && !runtime().legacy_overtaken.load(std::memory_order_relaxed);
  if (others_wait) return CUDA_SUCCESS;
  uint64_t seq = 0;
  WARPLINE_TRY(SendOn(stream, cmd::StreamBarrier{stream->wire}, {}, &seq, Notice::kUnnoticed));
  Stream::Raise(&stream->last_barrier, seq);
  return CUDA_SUCCESS;
}

CUresult DestroyStream(CUstream handle) {
  const Stream* stream = runtime().streams.Find(NumberOf(handle));
  // A stream without a context is a thread's default stream.
  if (stream == nullptr || stream->context == nullptr) return NoStream(handle);
  return runtime().streams.Remove(NumberOf(handle), Forget) ? CUDA_SUCCESS : NoStream(handle);
}

void DestroyStreamsOf(const Context* context) {
  const GreenContext* const green = context->green;
  runtime().streams.ForEach([&](const Stream& stream, uint64_t handle) {
    if (stream.context != context) return true;
    // The application has no handle of the default stream.
    if (green != nullptr && &stream != green->default_stream.load()) left_streams().Add(handle);
    runtime().streams.Remove(handle, Forget);
    return true;
  });
}

CUresult Waited(CudaResult result) {
  runtime().mirrored->AfterWait();
  return ToCu(result);
}

CUresult FoundComplete() {
  runtime().mirrored->AfterWait();
  return WaitedFor();
}

bool StreamComplete(const Stream& stream) {
  return runtime().commands->Retired(stream.wire,
                                     stream.last_seq.load(std::memory_order_acquire)) &&
         ComesAloneOrLast(stream);
}

bool NothingToNotice() {
  const Runtime& r = runtime();
  return !r.shared_with_processes.load() &&
         r.commands->Retired(kNoStream, r.last_noticed.load(std::memory_order_acquire));
}

bool SeemsComplete(Stream* stream) {
  if (StreamComplete(*stream)) return true;
  const uint64_t last = stream->last_seq.load(std::memory_order_acquire);
  if (!NothingToNotice() || !ComesAloneOrLast(*stream)) return false;
  const bool ordered = stream->last_barrier.load(std::memory_order_acquire) >= last ||
                       OrderOtherStreamsAfter(stream) == CUDA_SUCCESS;
  if (!ordered) return false;
  // BeginSharing() looks in the other order.
  Stream::Raise(&runtime().last_seemed, last);
  return !runtime().shared_with_processes.load();
}

CUresult SynchronizeStream(Stream* stream) {
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  Commands& commands = *runtime().commands;
  const uint64_t last = stream->last_seq.load(std::memory_order_acquire);
  if (SeemsComplete(stream)) return FoundComplete();
  if (WaitsAreLimited()) return AwaitStream(*stream, runtime().wait_limit);
  if (!ComesAloneOrLast(*stream)) {
    return Waited(commands.Call(WaitKind::kSynchronize, cmd::StreamSync{stream->wire}));
  }
  return Waited(
      commands.Await(WaitKind::kSynchronize, stream->wire, last, cmd::StreamSync{stream->wire}));
}

CUresult SynchronizeStreamsOf(const Context& context) {
  Runtime& r = runtime();
  CUresult result = SessionError();
  r.streams.ForEach([&](const Stream& stream, uint64_t handle) {
    if (stream.context != &context || StreamComplete(stream)) return true;
    Stream* const found = r.streams.Find(handle);
    if (found != nullptr) result = SynchronizeStream(found);
    return result == CUDA_SUCCESS;
  });
  return result == CUDA_SUCCESS ? FoundComplete() : result;
}

CUresult SynchronizeDevice(const Device& device) {
  Commands& commands = *runtime().commands;
  if (!runtime().several_devices() || commands.Retired(kNoStream, commands.last_seq())) {
    return SynchronizeSession();
  }
  if (WaitsAreLimited()) return AwaitDevice(device, runtime().wait_limit);
  return Waited(commands.Call(WaitKind::kSynchronize, cmd::DeviceSync{device.number, 0}));
}

CUresult SynchronizeSession() {
  Commands& commands = *runtime().commands;
  const uint64_t last = commands.last_seq();
  if (commands.Retired(kNoStream, last)) return FoundComplete();
  if (WaitsAreLimited()) return AwaitCommand(kNoStream, last, runtime().wait_limit);
  return Waited(commands.Await(WaitKind::kSynchronize, kNoStream, last, cmd::ContextSync{}));
}

CUresult BeginSharing() {
  constexpr absl::Duration kNap = absl::Microseconds(50);
  Runtime& r = runtime();
  r.seen_without_calls.store(true);
  r.shared_with_processes.store(true);
  const uint64_t last = r.last_seemed.load();
  while (last != 0 && !r.commands->Retired(kNoStream, last)) {
    WARPLINE_TRY(SessionError());
    absl::SleepFor(kNap);
  }
  return CUDA_SUCCESS;
}

CUresult AwaitWorkBeforeFree(const Device& device) {
  const uint64_t left = runtime().last_of_destroyed_streams.load();
  bool complete =
      StreamComplete(device.legacy) && (left == 0 || runtime().commands->Retired(kNoStream, left));
  runtime().streams.ForEach([&](const Stream& stream, uint64_t) {
    complete = complete && (stream.device != &device || StreamComplete(stream));
    return complete;
  });
  return complete ? SessionError() : SynchronizeDevice(device);
}

CUresult EndSynchronous(Stream* stream) {
  return runtime().seen_without_calls.load(std::memory_order_relaxed)
             ? SynchronizeStream(stream)
             : OrderOtherStreamsAfter(stream);
}

CUresult Join(Stream* before, Stream* stream) {
  Commands& commands = *runtime().commands;
  const uint64_t event = runtime().NewNumber();
  WARPLINE_TRY(SentAs(commands.Send(cmd::EventCreate{event, CU_EVENT_DISABLE_TIMING, 0})));
  CUresult result = SendOn(before, cmd::EventRecord{event, before->wire});
  if (result == CUDA_SUCCESS) {
    result = SendOn(stream, cmd::StreamWaitEvent{stream->wire, event});
  }
  const CUresult destroyed = SentAs(commands.Send(cmd::EventDestroy{event}));
  return result == CUDA_SUCCESS ? destroyed : result;
}

CUresult JoinStreamsOf(const Context* context, Stream* stream) {
  Runtime& r = runtime();
  CUresult result = CUDA_SUCCESS;
  r.streams.ForEach([&](const Stream& other, uint64_t handle) {
    if (other.context != context || other.wire == stream->wire || StreamComplete(other)) {
      return true;
    }
    Stream* const before = r.streams.Find(handle);
    if (before != nullptr) result = Join(before, stream);
    return result == CUDA_SUCCESS;
  });
  return result;
}

CUresult JoinDevice(Device* device, const Context* context, Stream* stream) {
  Runtime& r = runtime();
  CUresult result = CUDA_SUCCESS;
  // The device has its legacy stream wait for the blocking ones.
  r.streams.ForEach([&](const Stream& other, uint64_t handle) {
    if (other.blocking() || other.device != device || other.wire == stream->wire ||
        (context != nullptr && other.context != nullptr && OwnerOf(other.context) != context) ||
        r.commands->Retired(other.wire, other.last_seq.load(std::memory_order_acquire))) {
      return true;
    }
    Stream* const before = r.streams.Find(handle);
    if (before != nullptr) result = Join(before, stream);
    return result == CUDA_SUCCESS;
  });
  if (result != CUDA_SUCCESS || stream == &device->legacy || StreamComplete(device->legacy)) {
    return result;
  }
  return Join(&device->legacy, stream);
}

}  // namespace warpline::stub
