#include "client_stub/core/stream/events.h"

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/creations.h"
#include "client_stub/core/stream/limited_waits.h"
#include "client_stub/core/stream/streams.h"
#include "client_stub/session/session.h"

namespace warpline::stub {
namespace {

void SendDestroy(Event& event) {
  if (event.shared.load()) runtime().session->memory().EndSharedEvent(event.wire);
  runtime().commands->Send(cmd::EventDestroy{event.wire});
}

}  // namespace

Event* FindEvent(CUevent handle) { return runtime().events.Find(NumberOf(handle)); }

CUresult CreateEvent(Context* context, unsigned int flags, CUevent* event) {
  Runtime& r = runtime();
  const uint64_t wire = r.NewNumber();
  // The other flags say how this process waits.
  const uint32_t wire_flags = flags & CU_EVENT_DISABLE_TIMING;
  const uint64_t seq = r.commands->Send(cmd::EventCreate{wire, wire_flags, 0});
  if (seq == 0) return SentAs(seq);
  const CUresult refused = ConfirmCreation(seq, 0, r.streams.live() + r.events.live());
  if (refused != CUDA_SUCCESS) {
    Withdraw(cmd::EventDestroy{wire});
    return refused;
  }
  const uint64_t handle = r.events.Add([&](Event& e, uint64_t number) {
    e.handle = HandleOf<CUevent>(number);
    e.wire = wire;
    e.flags = flags;
    e.context = context;
    e.capture.store(0, std::memory_order_relaxed);
    e.shared.store(false);
    e.seq.store(0, std::memory_order_relaxed);
    e.stream.store(0, std::memory_order_relaxed);
  });
  if (handle == 0) {
    r.commands->Send(cmd::EventDestroy{wire});
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *event = HandleOf<CUevent>(handle);
  return CUDA_SUCCESS;
}

CUresult DestroyEvent(CUevent handle) {
  return runtime().events.Remove(NumberOf(handle), SendDestroy) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_HANDLE;
}

void DestroyEventsOf(const Context* context) {
  runtime().events.ForEach([context](const Event& event, uint64_t handle) {
    if (event.context == context) runtime().events.Remove(handle, SendDestroy);
    return true;
  });
}

CUresult RecordEvent(Event* event, Stream* stream) {
  if (Captured(*stream)) return CaptureEventRecord(stream, event);
  event->capture.store(0, std::memory_order_relaxed);
  uint64_t seq = 0;
  const CUresult result = SendOn(stream, cmd::EventRecord{event->wire, stream->wire}, {}, &seq);
  if (result != CUDA_SUCCESS) return result;
  event->NoteRecorded(stream->wire, seq);
  // A process that opened the event takes it for complete.
  return event->shared.load(std::memory_order_relaxed) ? SynchronizeEvent(event) : CUDA_SUCCESS;
}

bool EventComplete(const Event& event) {
  const uint64_t stream = event.stream.load(std::memory_order_acquire);
  const uint64_t seq = event.seq.load(std::memory_order_acquire);
  return seq == 0 || runtime().commands->Retired(stream, seq);
}

CUresult WaitForEvent(Stream* stream, const Event* event) {
  if (event->capture.load(std::memory_order_relaxed) != 0 || Captured(*stream)) {
    return CaptureEventWait(stream, event);
  }
  if (EventComplete(*event) && stream->recorder == nullptr) return CUDA_SUCCESS;
  return SendOn(stream, cmd::StreamWaitEvent{stream->wire, event->wire});
}

CUresult SynchronizeEvent(Event* event) {
  WARPLINE_TRY(CheckEventQuery(*event, /*unsafe=*/false));
  Commands& commands = *runtime().commands;
  // The latest record now, and none that another thread may add.
  const uint64_t stream = event->stream.load(std::memory_order_acquire);
  const uint64_t seq = event->seq.load(std::memory_order_acquire);
  if (seq == 0 || commands.Retired(stream, seq)) return FoundComplete();
  if (WaitsAreLimited()) return AwaitCommand(stream, seq, runtime().wait_limit);
  return Waited(commands.Await(WaitKind::kSynchronize, stream, seq, cmd::EventSync{event->wire}));
}

}  // namespace warpline::stub
