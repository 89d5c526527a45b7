#include "server/worker/stream_lane.h"

#include <algorithm>
#include <utility>

namespace warpline::worker {

void StreamLane::Check(const Task& task, CudaResult result) {
  if (result != CudaResult::kSuccess) host_->Fail(task.seq, task.id, result);
}

// The legacy stream exists; others are made by the lane's first command.
bool StreamLane::OpenStream() {
  if (open_result_ == CudaResult::kNotReady) {
    if (kind() == Kind::kLegacy) {
      device_stream_ = device::kLegacyStream;
      open_result_ = CudaResult::kSuccess;
    } else {
      open_result_ = host_->context()->CreateStream(flags_, priority_, &device_stream_);
    }
    has_stream_ = open_result_ == CudaResult::kSuccess;
  }
  return has_stream_;
}

Lane::Step StreamLane::Issue(Task& task) {
  if (!std::holds_alternative<cmd::StreamCreate>(task.command)) {
    CudaResult result = host_->fault();
    if (result == CudaResult::kSuccess && !OpenStream()) result = open_result_;
    if (result != CudaResult::kSuccess) {
      if (std::holds_alternative<cmd::StreamDestroy>(task.command)) closing_ = true;
      if (task.event != nullptr && !std::holds_alternative<cmd::StreamWaitEvent>(task.command)) {
        task.event->set_state(worker::EventRecord::State::kFailed);
      }
      const bool answers =
          kCommandTable[static_cast<int>(task.id) - 1].effect == Effect::kRoundTrip;
      if (answers) {
        host_->sink()->Reply(task.seq, result);
      } else if (host_->fault() == CudaResult::kSuccess) {
        host_->Fail(task.seq, task.id, result);
      }
      copied_ = 0;
      return Step::kDone;
    }
  }
  if (task.barrier != nullptr) WaitFor(task, std::exchange(task.barrier, nullptr).get());
  return std::visit([&](const auto& command) { return Do(command, task); }, task.command);
}

Lane::Step StreamLane::Do(const cmd::StreamCreate& command, Task& task) {
  flags_ = command.flags;
  priority_ = command.priority;
  OpenStream();
  Check(task, open_result_);
  return Step::kDone;
}

Lane::Step StreamLane::Do(const cmd::StreamDestroy&, Task&) {
  closing_ = true;
  return Step::kDone;
}

Lane::Step StreamLane::Do(const cmd::StreamSync&, Task& task) {
  Pending pending;
  pending.ticket = task.ticket;
  pending.seq = task.seq;
  pending.reply_seq = task.seq;
  Mark(device_stream_, std::move(pending));
  return Step::kDone;
}

void StreamLane::WaitFor(const Task& task, const worker::EventRecord* record) {
  // An event that was never recorded, or whose record is complete, holds nothing back.
  if (record == nullptr || record->state() == worker::EventRecord::State::kComplete) return;
  if (record->state() == worker::EventRecord::State::kFailed) {
    Check(task, CudaResult::kInvalidHandle);
    return;
  }
  Check(task, host_->context()->WaitEvent(device_stream_, record->id()));
}

Lane::Step StreamLane::Do(const cmd::StreamWaitEvent&, Task& task) {
  WaitFor(task, task.event.get());
  return Step::kDone;
}

Lane::Step StreamLane::Do(const cmd::StreamBarrier&, Task& task) { return RecordMark(task); }
Lane::Step StreamLane::Do(const cmd::EventRecord&, Task& task) { return RecordMark(task); }

Lane::Step StreamLane::RecordMark(Task& task) {
  const CudaResult result = task.event->Record(host_->context(), device_stream_);
  if (result != CudaResult::kSuccess) {
    Check(task, result);
    return Step::kDone;
  }
  Pending pending;
  pending.mark = task.event;
  pending.ticket = task.ticket;
  pending.seq = task.seq;
  Mark(device_stream_, std::move(pending));
  return Step::kDone;
}

Lane::Step StreamLane::Do(const cmd::Memset& command, Task& task) {
  Check(task, host_->context()->Memset(command.dst, command.value, static_cast<int>(command.width),
                                       command.count, device_stream_));
  return Step::kDone;
}

Lane::Step StreamLane::Do(const cmd::CopyToDevice& command, Task& task) {
  Check(task, host_->context()->CopyToDevice(command.dst, task.tail.data(), task.tail.size(),
                                             device_stream_));
  return Step::kDone;
}

// Sends the range in pieces, each through a staging buffer; several are under way at a time.
Lane::Step StreamLane::Do(const cmd::CopyFromDevice& command, Task& task) {
  ReplySink* const sink = host_->sink();
  StagingPool* const staging = host_->staging();
  while (copied_ < command.bytes || command.bytes == 0) {
    const uint64_t offset = copied_;
    const size_t bytes = std::min<uint64_t>(kStagingBytes, command.bytes - offset);
    const bool last = offset + bytes == command.bytes;
    CudaResult result;
    void* buffer = staging->Take(&result);
    if (buffer == nullptr && result == CudaResult::kSuccess) return Step::kBlocked;
    if (result == CudaResult::kSuccess && bytes > 0) {
      result =
          host_->context()->CopyFromDevice(buffer, command.src + offset, bytes, device_stream_);
    }
    if (result != CudaResult::kSuccess) {
      if (buffer != nullptr) staging->Give(buffer);
      if (IsSticky(result)) Check(task, result);
      sink->Reply(task.seq, result);
      copied_ = 0;
      return Step::kDone;
    }
    Pending pending;
    pending.seq = task.seq;
    pending.ticket = last ? task.ticket : 0;
    pending.reply_seq = last ? task.seq : 0;
    pending.action = [sink, staging, buffer, offset, bytes, seq = task.seq](CudaResult done,
                                                                            std::string* batch) {
      if (done == CudaResult::kSuccess && bytes > 0) {
        sink->CopyData(seq, offset, std::string_view(static_cast<char*>(buffer), bytes), batch);
      }
      staging->Give(buffer);
    };
    // A mark that cannot be made completes the piece with its error, and the session's fault ends
    // the rest.
    result = Mark(device_stream_, std::move(pending));
    copied_ += bytes;
    if (result != CudaResult::kSuccess && !last) {
      sink->Reply(task.seq, result);
      copied_ = 0;
      return Step::kDone;
    }
    if (last) break;
  }
  copied_ = 0;
  return Step::kDone;
}

Lane::Step StreamLane::Do(const cmd::CopyOnDevice& command, Task& task) {
  Check(task,
        host_->context()->CopyOnDevice(command.dst, command.src, command.bytes, device_stream_));
  return Step::kDone;
}

Lane::Step StreamLane::Do(const cmd::Launch& command, Task& task) {
  const Kernel& kernel = *task.kernel;
  CudaResult result = kernel.result;
  // The driver reads as many bytes as the kernel has, so a shorter buffer is not passed on.
  if (result == CudaResult::kSuccess && task.tail.size() != kernel.param_bytes) {
    result = CudaResult::kInvalidValue;
  }
  if (result == CudaResult::kSuccess) {
    const device::LaunchConfig config = {{command.grid_x, command.grid_y, command.grid_z},
                                         {command.block_x, command.block_y, command.block_z},
                                         command.dynamic_shared_bytes};
    const auto* params = reinterpret_cast<const std::byte*>(task.tail.data());
    result =
        host_->context()->Launch(kernel.id, config, {params, task.tail.size()}, device_stream_);
  }
  Check(task, result);
  return Step::kDone;
}

void StreamLane::Finish() {
  if (has_stream_ && kind() != Kind::kLegacy) host_->context()->DestroyStream(device_stream_);
}

}  // namespace warpline::worker
