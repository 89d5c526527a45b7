#include <memory>
#include <utility>

#include "common/cuda/cuda_numbers.h"
#include "proto/devices.h"
#include "server/device/device.h"
#include "server/worker/commands/families.h"
#include "server/worker/executors/partition.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kNumberMask = (uint64_t{1} << kHandleDeviceShift) - 1;

}  // namespace

// The decoder waits here, and with it all streams of the session. The command that ends a stream
// with work left may come behind this one, so only the other streams are worth the wait. One of
// them may take long in the driver, too: after one wait in vain the next is for an executor that
// has finished.
bool StreamCommands::AwaitThread() {
  const auto has_thread = [this]() RUNS_ON(decoder_thread) {
    return order().Threads() < parts_.limits->max_streams;
  };
  if (!has_thread() && !waited_in_vain_ && order().AnyEndsSoon()) {
    // The ends of streams may not have been handed to their threads yet.
    order().FlushToThreads();
    waited_in_vain_ = !parts_.progress->AwaitFor(parts_.limits->stream_end_wait, [&] {
      decoder_thread.AssertOnLoop();
      return parts_.ending->load(std::memory_order_seq_cst) || has_thread() ||
             !order().AnyEndsSoon();
    });
  }
  if (!has_thread()) return false;
  waited_in_vain_ = false;
  return true;
}

Stream* StreamCommands::Open(Executor::Kind kind, uint64_t handle) {
  if ((handle & kNumberMask) <= kPerThreadStreamHandle || !HasDeviceOf(handle) ||
      FindStream(handle) != nullptr) {
    Refuse(CudaResult::kInvalidHandle);
    return nullptr;
  }
  if (!HandlesLeft()) return nullptr;
  if (!AwaitThread()) {
    parts_.current->RefuseBeyond(Limit::kHandles, parts_.limits->max_streams);
    return nullptr;
  }
  Stream* const stream = order().Open(kind, handle);
  if (stream == nullptr) Refuse(CudaResult::kOutOfMemory);
  return stream;
}

void StreamCommands::On(const cmd::StreamCreate& command, std::string_view tail) {
  const bool blocking = (command.flags & kStreamNonBlocking) == 0;
  Stream* const stream =
      Open(blocking ? Executor::Kind::kBlocking : Executor::Kind::kNonBlocking, command.stream);
  if (stream == nullptr) return;
  order().ToNewStream<cmd::StreamCreate>(stream, NewTask(command, tail));
}

void StreamCommands::On(const cmd::StreamCreateIn& command, std::string_view tail) {
  const std::shared_ptr<Partition> partition = FindIn(tables().partitions, command.partition);
  if (partition == nullptr || partition->device != DeviceOfHandle(command.stream)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  Stream* const stream = Open(Executor::Kind::kNonBlocking, command.stream);
  if (stream == nullptr) return;
  partition->AddUser();
  Task task = NewTask(command, tail);
  task.partition = partition;
  order().ToNewStream<cmd::StreamCreateIn>(stream, std::move(task));
}

void StreamCommands::On(const cmd::StreamDestroy& command, std::string_view tail) {
  Stream* const stream = FindStream(command.stream);
  if (stream == nullptr || stream->executor->kind() == Executor::Kind::kLegacy) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  order().ToStream<cmd::StreamDestroy>(stream, NewTask(command, tail));
  order().Close(command.stream);
}

void StreamCommands::On(const cmd::StreamSync& command, std::string_view tail) {
  ToStream(command, tail);
}

void StreamCommands::On(const cmd::StreamWaitEvent& command, std::string_view tail) {
  Stream* const stream = FindStream(command.stream);
  const auto event = tables().events.find(command.event);
  if (stream == nullptr || event == tables().events.end()) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  Task task = NewTask(command, tail);
  task.event = event->second.latest;
  order().ToStream<cmd::StreamWaitEvent>(stream, std::move(task));
}

void StreamCommands::On(const cmd::StreamBarrier& command, std::string_view tail) {
  Stream* const stream = FindStream(command.stream);
  if (stream == nullptr) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  auto record = std::make_shared<EventRecord>(parts_.devices->events(stream->executor->device()),
                                              kEventDisableTiming, stream->executor);
  record->ticket = stream->executor->appended() + 1;
  task.event = record;
  order().ToStream<cmd::StreamBarrier>(stream, std::move(task));
  record->data_ticket = stream->data_ticket;
  order().AddBarrier(stream, std::move(record));
}

void StreamCommands::On(const cmd::StreamIgnoreBarriers& command, std::string_view) {
  Stream* const stream = FindStream(command.stream);
  if (stream == nullptr) return Refuse(CudaResult::kInvalidHandle);
  stream->ignores_barriers = true;
  RetireHere();
}

void StreamCommands::On(const cmd::StreamSetAttribute& command, std::string_view tail) {
  if (tail.size() != sizeof(device::LaunchAttribute::value)) {
    return Refuse(CudaResult::kInvalidValue);
  }
  ToStream(command, tail);
}

void StreamCommands::On(const cmd::ContextSync&, std::string_view) {
  RetireHere();
  parts_.completion->WhenAllRetired(
      [this, seq = seq()] { parts_.sink->Reply(seq, parts_.completion->fault()); });
}

void StreamCommands::On(const cmd::DeviceSync& command, std::string_view) {
  if (command.device >= parts_.devices->size()) return Refuse(CudaResult::kInvalidDevice);
  RetireHere();
  parts_.completion->WhenDeviceRetired(
      command.device, [this, seq = seq()] { parts_.sink->Reply(seq, parts_.completion->fault()); });
}

// The client means all that is appended by now.
void StreamCommands::On(const cmd::StreamCancel& command, std::string_view) {
  Stream* const stream = FindStream(command.stream);
  if (stream == nullptr || command.waiting_only > 1 || command.reserved != 0) {
    return Refuse(stream == nullptr ? CudaResult::kInvalidHandle : CudaResult::kInvalidValue);
  }
  RetireHere();
  stream->executor->Cancel(command.waiting_only != 0);
}

// The client answers with the token, since the stream may be gone by then.
void StreamCommands::On(const cmd::HostCall& command, std::string_view tail) {
  Stream* const stream = FindStream(command.stream);
  if (stream == nullptr) return Refuse(CudaResult::kInvalidHandle);
  if (tables().host_calls.contains(command.token)) return Refuse(CudaResult::kInvalidValue);
  // After a fault no client answers any more.
  if (parts_.completion->fault() != CudaResult::kSuccess) {
    return Refuse(parts_.completion->fault());
  }
  if (!HandlesLeft()) return;
  Task task = NewTask(command, tail);
  task.host = std::make_shared<HostWait>();
  tables().host_calls.emplace(command.token, worker::HostCall{stream->executor, task.host});
  order().ToStream<cmd::HostCall>(stream, std::move(task));
}

void StreamCommands::On(const cmd::HostDone& command, std::string_view) {
  const auto call = tables().host_calls.find(command.token);
  if (call == tables().host_calls.end()) return Refuse(CudaResult::kInvalidValue);
  call->second.wait->done.store(true, std::memory_order_release);
  call->second.executor->Nudge();
  tables().host_calls.erase(call);
  RetireHere();
}

}  // namespace warpline::worker
