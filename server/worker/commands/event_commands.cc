#include <memory>
#include <utility>

#include "server/worker/commands/families.h"

namespace warpline::worker {

void EventCommands::On(const cmd::EventCreate& command, std::string_view) {
  if (tables().events.contains(command.event)) return Refuse(CudaResult::kInvalidHandle);
  if (!HandlesLeft()) return;
  tables().events[command.event].flags = command.flags;
  RetireHere();
}

void EventCommands::On(const cmd::EventDestroy& command, std::string_view) {
  if (tables().events.erase(command.event) == 0) return Refuse(CudaResult::kInvalidHandle);
  RetireHere();
}

void EventCommands::On(const cmd::EventRecord& command, std::string_view tail) {
  Stream* const stream = FindStream(command.stream);
  const auto event = tables().events.find(command.event);
  if (stream == nullptr || event == tables().events.end()) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  Task task = NewTask(command, tail);
  auto record = std::make_shared<worker::EventRecord>(
      parts_.devices->events(stream->executor->device()), event->second.flags, stream->executor);
  record->ticket = stream->executor->appended() + 1;
  record->event = command.event;
  record->seq = seq();
  task.event = record;
  order().ToStream<cmd::EventRecord>(stream, std::move(task));
  record->data_ticket = stream->data_ticket;
  event->second.latest = std::move(record);
}

void EventCommands::On(const cmd::EventSync& command, std::string_view) {
  const auto event = tables().events.find(command.event);
  if (event == tables().events.end()) return Refuse(CudaResult::kInvalidHandle);
  RetireHere();
  const std::shared_ptr<worker::EventRecord>& record = event->second.latest;
  const CudaResult fault = parts_.completion->fault();
  if (fault != CudaResult::kSuccess || record == nullptr ||
      (record->state() == worker::EventRecord::State::kComplete &&
       record->executor->delivered() >= record->ticket)) {
    parts_.sink->Reply(seq(), fault);
    return;
  }
  if (!record->executor->WaitForEvent(seq(), record)) {
    parts_.sink->Reply(seq(), CudaResult::kOutOfMemory);
  }
}

void EventCommands::On(const cmd::EventElapsed& command, std::string_view tail) {
  const auto start = tables().events.find(command.start);
  const auto end = tables().events.find(command.end);
  if (start == tables().events.end() || end == tables().events.end() ||
      start->second.latest == nullptr || end->second.latest == nullptr) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  Task task = NewTask(command, tail);
  task.event = start->second.latest;
  task.second_event = end->second.latest;
  order().ToControl<cmd::EventElapsed>(std::move(task));
}

}  // namespace warpline::worker
