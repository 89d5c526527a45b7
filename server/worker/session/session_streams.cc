// A session's commands of streams, events, host functions and memory.
#include <utility>

#include "server/worker/session/session.h"

namespace warpline::worker {
namespace {

constexpr uint32_t kNonBlockingFlag = 1;
constexpr uint64_t kNumberMask = (uint64_t{1} << kHandleDeviceShift) - 1;

}  // namespace

template <typename Command>
void Session::ToStream(const Command& command, std::string_view tail) {
  const std::shared_ptr<Lane> lane = FindLane(command.stream);
  if (lane == nullptr) return Refuse(CudaResult::kInvalidHandle);
  Enqueue(lane, NewTask(command, tail));
}

// --- Streams and events

void Session::On(const cmd::StreamCreate& command, std::string_view tail) {
  if ((command.stream & kNumberMask) <= 2 || !HasDevice(command.stream) ||
      lanes_.contains(command.stream)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (!HandlesLeft()) return;
  ReapLanes();
  // Not those that are kept for an event that was recorded there: they have no thread any more.
  if (lanes_.size() + leaving_.size() >= limits_.max_streams) {
    return RefuseBeyond(Limit::kHandles, limits_.max_streams);
  }
  const bool blocking = (command.flags & kNonBlockingFlag) == 0;
  const std::shared_ptr<Lane> lane =
      OpenLane(blocking ? Lane::Kind::kBlocking : Lane::Kind::kNonBlocking, command.stream);
  if (lane == nullptr) return Refuse(CudaResult::kOutOfMemory);
  lane->Append(NewTask(command, tail));
}

void Session::On(const cmd::StreamDestroy& command, std::string_view tail) {
  const std::shared_ptr<Lane> lane = FindLane(command.stream);
  if (lane == nullptr || lane->kind() == Lane::Kind::kLegacy)
    return Refuse(CudaResult::kInvalidHandle);
  Enqueue(lane, NewTask(command, tail));
  leaving_.push_back(lane);
  lanes_.erase(command.stream);
}

void Session::On(const cmd::StreamSync& command, std::string_view tail) { ToStream(command, tail); }

void Session::On(const cmd::StreamWaitEvent& command, std::string_view tail) {
  const std::shared_ptr<Lane> lane = FindLane(command.stream);
  const auto event = event_table_.find(command.event);
  if (lane == nullptr || event == event_table_.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.event = event->second.latest;
  if (task.event != nullptr && task.event->lane != lane) {
    task.after.push_back({task.event->lane, task.event->ticket});
    ComesAfterData(lane.get(), task.event->lane, task.event->data_ticket, &task);
  }
  Enqueue(lane, std::move(task));
}

void Session::On(const cmd::StreamBarrier& command, std::string_view tail) {
  const std::shared_ptr<Lane> lane = FindLane(command.stream);
  if (lane == nullptr) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  auto record = std::make_shared<worker::EventRecord>(events(lane->device()), kDisableTiming, lane);
  record->ticket = lane->appended() + 1;
  task.event = record;
  Enqueue(lane, std::move(task));
  record->data_ticket = lane->data_ticket;
  const size_t kind = lane->ignores_barriers ? 1 : 0;
  barriers_[kind].latest = std::move(record);
  lane->barriers_seen[kind] = ++barriers_[kind].count;
}

void Session::On(const cmd::StreamIgnoreBarriers& command, std::string_view) {
  const std::shared_ptr<Lane> lane = FindLane(command.stream);
  if (lane == nullptr) return Refuse(CudaResult::kInvalidHandle);
  lane->ignores_barriers = true;
  RetireHere();
}

void Session::On(const cmd::ContextSync&, std::string_view) {
  RetireHere();
  WhenAllRetired([this, seq = seq_] { sink_.Reply(seq, fault()); });
}

void Session::On(const cmd::DeviceSync& command, std::string_view) {
  if (command.device >= devices_.size()) return Refuse(CudaResult::kInvalidDevice);
  RetireHere();
  WhenDeviceRetired(command.device, [this, seq = seq_] { sink_.Reply(seq, fault()); });
}

void Session::On(const cmd::EventCreate& command, std::string_view) {
  if (event_table_.contains(command.event)) return Refuse(CudaResult::kInvalidHandle);
  if (!HandlesLeft()) return;
  event_table_[command.event].flags = command.flags;
  RetireHere();
}

void Session::On(const cmd::EventDestroy& command, std::string_view) {
  if (event_table_.erase(command.event) == 0) return Refuse(CudaResult::kInvalidHandle);
  RetireHere();
}

void Session::On(const cmd::EventRecord& command, std::string_view tail) {
  const std::shared_ptr<Lane> lane = FindLane(command.stream);
  const auto event = event_table_.find(command.event);
  if (lane == nullptr || event == event_table_.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  auto record =
      std::make_shared<worker::EventRecord>(events(lane->device()), event->second.flags, lane);
  record->ticket = lane->appended() + 1;
  record->event = command.event;
  record->seq = seq_;
  task.event = record;
  Enqueue(lane, std::move(task));
  record->data_ticket = lane->data_ticket;
  event->second.latest = std::move(record);
}

void Session::On(const cmd::EventSync& command, std::string_view) {
  const auto event = event_table_.find(command.event);
  if (event == event_table_.end()) return Refuse(CudaResult::kInvalidHandle);
  RetireHere();
  const std::shared_ptr<worker::EventRecord>& record = event->second.latest;
  if (fault() != CudaResult::kSuccess || record == nullptr ||
      (record->state() == worker::EventRecord::State::kComplete &&
       record->lane->delivered() >= record->ticket)) {
    sink_.Reply(seq_, fault());
    return;
  }
  if (!record->lane->WaitForEvent(seq_, record)) sink_.Reply(seq_, CudaResult::kOutOfMemory);
}

void Session::On(const cmd::EventElapsed& command, std::string_view tail) {
  const auto start = event_table_.find(command.start);
  const auto end = event_table_.find(command.end);
  if (start == event_table_.end() || end == event_table_.end() || start->second.latest == nullptr ||
      end->second.latest == nullptr) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  Task task = NewTask(command, tail);
  task.event = start->second.latest;
  task.second_event = end->second.latest;
  task.after.push_back({task.event->lane, task.event->ticket});
  task.after.push_back({task.second_event->lane, task.second_event->ticket});
  ToControl(std::move(task));
}

// The client answers by the token, since the stream may be gone by then.
void Session::On(const cmd::HostCall& command, std::string_view tail) {
  const std::shared_ptr<Lane> lane = FindLane(command.stream);
  if (lane == nullptr) return Refuse(CudaResult::kInvalidHandle);
  if (host_calls_.contains(command.token)) return Refuse(CudaResult::kInvalidValue);
  // Nobody answers any more.
  if (fault() != CudaResult::kSuccess) return Refuse(fault());
  if (!HandlesLeft()) return;
  Task task = NewTask(command, tail);
  task.host = std::make_shared<HostWait>();
  host_calls_.emplace(command.token, HostCall{lane, task.host});
  Enqueue(lane, std::move(task));
}

void Session::On(const cmd::HostDone& command, std::string_view) {
  const auto call = host_calls_.find(command.token);
  if (call == host_calls_.end()) return Refuse(CudaResult::kInvalidValue);
  call->second.wait->done.store(true, std::memory_order_release);
  call->second.lane->Nudge();
  host_calls_.erase(call);
  RetireHere();
}

void Session::On(const cmd::StreamSetAttribute& command, std::string_view tail) {
  if (tail.size() != sizeof(device::LaunchAttribute::value)) {
    return Refuse(CudaResult::kInvalidValue);
  }
  ToStream(command, tail);
}

// --- Memory

void Session::On(const cmd::Memset& command, std::string_view tail) { ToStream(command, tail); }
void Session::On(const cmd::CopyToDevice& command, std::string_view tail) {
  ToStream(command, tail);
}
void Session::On(const cmd::CopyFromDevice& command, std::string_view tail) {
  ToStream(command, tail);
  if (const auto lane = FindLane(command.stream)) lane->data_ticket = lane->appended();
}
void Session::On(const cmd::CopyOnDevice& command, std::string_view tail) {
  ToStream(command, tail);
}

void Session::On(const cmd::MemsetRows& command, std::string_view tail) { ToStream(command, tail); }
void Session::On(const cmd::CopyBoxToDevice& command, std::string_view tail) {
  ToStream(command, tail);
}
void Session::On(const cmd::CopyBoxFromDevice& command, std::string_view tail) {
  ToStream(command, tail);
  if (const auto lane = FindLane(command.stream)) lane->data_ticket = lane->appended();
}
void Session::On(const cmd::CopyBoxOnDevice& command, std::string_view tail) {
  ToStream(command, tail);
}

void Session::On(const cmd::StreamMemOps& command, std::string_view tail) {
  if (tail.empty() || tail.size() % sizeof(device::MemOp) != 0 ||
      tail.size() / sizeof(device::MemOp) > device::kMaxMemOps) {
    return Refuse(CudaResult::kInvalidValue);
  }
  ToStream(command, tail);
}

void Session::On(const cmd::FreeFence& command, std::string_view) {
  RetireHere();
  WhenAllRetired([this, token = command.token] { sink_.Freed(token); });
}

}  // namespace warpline::worker
