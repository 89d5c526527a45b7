#include "server/worker/executors/stream_executor.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/cuda/box.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/frames.h"
#include "server/worker/executors/launch_attributes.h"
#include "server/worker/executors/library_calls.h"
#include "server/worker/executors/partition.h"

namespace warpline::worker {
namespace {

// The driver copies pageable memory of up to this size into its queue.
constexpr size_t kMaxPageableBytes = 64u << 10;
// A copy of so much host memory that client and device share is reported as soon as it is complete:
// the client may be waiting to use the memory.
constexpr uint64_t kMarkedBytes = 16u << 10;
// CU_STREAM_ATTRIBUTE_PRIORITY.
constexpr uint32_t kPriorityAttribute = 8;

}  // namespace

void StreamExecutor::Check(const Task& task, CudaResult result) {
  if (result != CudaResult::kSuccess) host_->reports->Fail(task.seq, task.id, result);
}

// The legacy stream exists already; the executor's first command makes any other.
bool StreamExecutor::OpenStream() {
  if (open_result_ == CudaResult::kNotReady) {
    if (kind() == Kind::kLegacy) {
      device_stream_ = device::kLegacyStream;
      open_result_ = CudaResult::kSuccess;
    } else {
      open_result_ = MakeStream(device(), flags_, partition_.get(), &device_stream_);
    }
    has_stream_ = open_result_ == CudaResult::kSuccess;
  }
  return has_stream_;
}

CudaResult StreamExecutor::MakeStream(uint32_t device, uint32_t flags, const Partition* partition,
                                      device::StreamId* stream) {
  CudaResult result = partition == nullptr ? CudaResult::kSuccess : partition->result;
  if (result != CudaResult::kSuccess) return result;
  result = host_->outside->Take(device, OutsideMemory::kStreamBytes);
  if (result != CudaResult::kSuccess) return result;
  device::Context* const context = host_->devices->context(device);
  result = partition == nullptr ? context->CreateStream(flags, priority_, stream)
                                : context->CreateStreamIn(partition->id, priority_, stream);
  if (result != CudaResult::kSuccess) host_->outside->Give(device, OutsideMemory::kStreamBytes);
  return result;
}

void StreamExecutor::EndStream(uint32_t device, device::StreamId stream) {
  host_->devices->context(device)->DestroyStream(stream);
  host_->outside->Give(device, OutsideMemory::kStreamBytes);
}

Executor::Step StreamExecutor::Issue(Task& task) {
  if (!std::holds_alternative<cmd::StreamCreate>(task.command) &&
      !std::holds_alternative<cmd::StreamCreateIn>(task.command)) {
    CudaResult result = host_->reports->fault();
    if (result == CudaResult::kSuccess && !OpenStream()) result = open_result_;
    if (result != CudaResult::kSuccess) {
      if (std::holds_alternative<cmd::StreamDestroy>(task.command)) closing_ = true;
      if (task.event != nullptr && !std::holds_alternative<cmd::StreamWaitEvent>(task.command)) {
        task.event->set_state(worker::EventRecord::State::kFailed);
      }
      if (Answers(task.id)) {
        host_->sink->Reply(task.seq, result);
      } else if (host_->reports->fault() == CudaResult::kSuccess) {
        host_->reports->Fail(task.seq, task.id, result);
      }
      copied_ = 0;
      library_call_.reset();
      return Step::kDone;
    }
  }
  for (const auto& barrier : std::exchange(task.barriers, {})) WaitFor(task, barrier);
  return std::visit([&](const auto& command) RUNS_ON(on_executor_) { return Do(command, task); },
                    task.command);
}

// Each of these puts something into the driver's queue. A kernel's first launch may load it.
bool StreamExecutor::IsQuick(const Task& task) const {
  switch (task.id) {
    case CommandId::kLaunch:
      return task.kernel->on_device != nullptr &&
             task.kernel->on_device->launched.load(std::memory_order_relaxed);
    case CommandId::kEventRecord:
    case CommandId::kCopyOnDevice:
    case CommandId::kStreamSync:
      return true;
    default:
      return false;
  }
}

Executor::Step StreamExecutor::Do(const cmd::StreamCreate& command, Task& task) {
  flags_ = command.flags;
  SetPriority(command.priority);
  OpenStream();
  Check(task, open_result_);
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::StreamCreateIn& command, Task& task) {
  flags_ = kStreamNonBlocking;
  SetPriority(command.priority);
  partition_ = task.partition;
  OpenStream();
  Check(task, open_result_);
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::StreamDestroy&, Task&) {
  closing_ = true;
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::StreamSync&, Task& task) {
  Pending pending;
  pending.ticket = task.ticket;
  pending.seq = task.seq;
  pending.reply_seq = task.seq;
  Mark(device_stream_, std::move(pending));
  return Step::kDone;
}

void StreamExecutor::WaitFor(const Task& task, std::shared_ptr<worker::EventRecord> record) {
  // An event that was never recorded, or whose record is complete, holds nothing back.
  if (record == nullptr || record->state() == worker::EventRecord::State::kComplete) return;
  if (record->state() == worker::EventRecord::State::kFailed) {
    Check(task, CudaResult::kInvalidHandle);
    return;
  }
  Check(task, context_->WaitEvent(device_stream_, record->id()));
  (void)IsHeld();  // So that no more is kept than there are events under way.
  if (record->executor.get() != this) held_by_.push_back(std::move(record));
}

Executor::Step StreamExecutor::Do(const cmd::StreamWaitEvent&, Task& task) {
  WaitFor(task, task.event);
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::StreamBarrier&, Task& task) {
  return RecordMark(task);
}
Executor::Step StreamExecutor::Do(const cmd::EventRecord&, Task& task) { return RecordMark(task); }

Executor::Step StreamExecutor::RecordMark(Task& task) {
  const CudaResult result = task.event->Record(context_, device_stream_);
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

Executor::Step StreamExecutor::Do(const cmd::Memset& command, Task& task) {
  Check(task, context_->Memset(command.dst, command.value, static_cast<int>(command.width),
                               command.count, device_stream_));
  return Step::kDone;
}

void* StreamExecutor::TakeStaging(CudaResult* result) {
  void* const buffer = host_->staging->Take(/*first=*/staged_ == 0, result);
  if (buffer != nullptr) ++staged_;
  return buffer;
}

void StreamExecutor::GiveStaging(void* buffer) {
  --staged_;
  host_->staging->Give(buffer);
}

template <typename Copy>
Executor::Step StreamExecutor::CopyIn(Task& task, Copy copy) {
  CudaResult result;
  void* const buffer = TakeStaging(&result);
  if (buffer == nullptr && result == CudaResult::kSuccess) return Step::kBlocked;
  if (result == CudaResult::kSuccess) {
    std::memcpy(buffer, task.tail.data(), task.tail.size());
    result = copy(buffer);
  }
  if (result != CudaResult::kSuccess) {
    if (buffer != nullptr) GiveStaging(buffer);
    Check(task, result);
    return Step::kDone;
  }
  Pending pending;
  pending.ticket = task.ticket;
  pending.seq = task.seq;
  pending.unhurried = true;
  pending.action = [this, buffer](CudaResult, std::string*) {
    on_executor_.AssertOnLoop();
    GiveStaging(buffer);
  };
  Mark(device_stream_, std::move(pending));
  return Step::kDone;
}

// A driver that is given more than a little pageable memory waits for the stream. With a buffer
// from AllocStaging it only queues the copy.
Executor::Step StreamExecutor::Do(const cmd::CopyToDevice& command, Task& task) {
  const size_t bytes = task.tail.size();
  if (bytes <= kMaxPageableBytes || bytes > kStagingBytes) {
    Check(task, context_->CopyToDevice(command.dst, task.tail.data(), bytes, device_stream_));
    return Step::kDone;
  }
  return CopyIn(task, [&, stream = device_stream_](const void* buffer) {
    return context_->CopyToDevice(command.dst, buffer, bytes, stream);
  });
}

// Sends the range in pieces, each through a staging buffer; several are under way at a time.
template <typename Copy>
Executor::Step StreamExecutor::CopyOut(Task& task, uint64_t total, Copy copy) {
  bool last = false;
  while (!last) {
    const uint64_t offset = copied_;
    size_t bytes = 0;
    CudaResult result;
    void* buffer = TakeStaging(&result);
    if (buffer == nullptr && result == CudaResult::kSuccess) return Step::kBlocked;
    if (result == CudaResult::kSuccess && offset < total) result = copy(buffer, offset, &bytes);
    last = offset + bytes == total;
    Pending pending;
    pending.seq = task.seq;
    pending.ticket = last ? task.ticket : 0;
    pending.reply_seq = last ? task.seq : 0;
    if (result == CudaResult::kSuccess) {
      pending.action = [this, buffer, offset, bytes, seq = task.seq](CudaResult done,
                                                                     std::string* batch) {
        on_executor_.AssertOnLoop();
        if (done == CudaResult::kSuccess && bytes > 0) {
          const std::string_view data(static_cast<char*>(buffer), bytes);
          host_->sink->CopyData(seq, offset, data, batch);
        }
        GiveStaging(buffer);
      };
      result = Mark(device_stream_, std::move(pending));
      if (result == CudaResult::kSuccess || last) {
        copied_ += bytes;
        continue;
      }
    } else {
      if (buffer != nullptr) GiveStaging(buffer);
      if (IsSticky(result)) Check(task, result);
    }
    // The answer comes after the pieces that are under way, since the client takes no data after
    // it.
    AnswerInOrder(task, result);
    break;
  }
  copied_ = 0;
  return Step::kDone;
}

Executor::Step StreamExecutor::CopyInBy(Task& task, const std::function<CudaResult(void*)>& copy) {
  return CopyIn(task, copy);
}

Executor::Step StreamExecutor::CopyOutBy(
    Task& task, uint64_t total, const std::function<CudaResult(void*, uint64_t, size_t*)>& copy) {
  return CopyOut(task, total, copy);
}

void StreamExecutor::AnswerInOrder(const Task& task, CudaResult result) {
  Pending answer;
  answer.seq = task.seq;
  answer.reply_seq = task.seq;
  answer.reply_result = result;
  pending_.push_back(std::move(answer));
}

Executor::Step StreamExecutor::Do(const cmd::CopyFromDevice& command, Task& task) {
  return CopyOut(task, command.bytes,
                 [&, stream = device_stream_](void* buffer, uint64_t offset, size_t* bytes) {
                   *bytes = std::min<uint64_t>(kStagingBytes, command.bytes - offset);
                   return context_->CopyFromDevice(buffer, command.src + offset, *bytes, stream);
                 });
}

Executor::Step StreamExecutor::Do(const cmd::CopyOnDevice& command, Task& task) {
  Check(task, context_->CopyOnDevice(command.dst, command.src, command.bytes, device_stream_));
  const bool host = InHostArena(command.dst) || InHostArena(command.src);
  if (!host || command.bytes < kMarkedBytes) return Step::kDone;
  Pending pending;
  pending.ticket = task.ticket;
  pending.seq = task.seq;
  Mark(device_stream_, std::move(pending));
  return Step::kDone;
}

void StreamExecutor::TakeStopNumber() {
  asked_for_number_ = true;
  device::KernelStops* const stops = host_->devices->code(device())->kernel_stops();
  if (stops != nullptr) stop_number_ = stops->Take();
}

bool StreamExecutor::StopKernels(bool stop) {
  return host_->devices->code(device())->kernel_stops()->Set(stop_number_, stop) ==
         CudaResult::kSuccess;
}

bool StreamExecutor::IsHeld() {
  std::erase_if(held_by_, [](const auto& record) {
    return record->state() == worker::EventRecord::State::kComplete ||
           record->state() == worker::EventRecord::State::kFailed;
  });
  return !held_by_.empty();
}

bool StreamExecutor::HasBegun(const Task&) const { return copied_ > 0 || library_call_; }

void StreamExecutor::Drop(const Task& task) {
  if (Answers(task.id)) AnswerInOrder(task, kCancelled);
}

void StreamExecutor::Launch(const Task& task, const device::LaunchConfig& config,
                            std::string_view params) {
  const Kernel& kernel = *task.kernel;
  CudaResult result = kernel.result;
  // The driver reads as many bytes as the kernel has, so a shorter buffer is not passed on.
  if (result == CudaResult::kSuccess && params.size() != kernel.param_bytes) {
    result = CudaResult::kInvalidValue;
  }
  if (result == CudaResult::kSuccess) {
    if (kernel.module->prints) Prints(task.ticket);
    if (kernel.params != nullptr) host_->pointers->Look(*kernel.params, params);
    if (kernel.added != nullptr) {
      with_added_ = params;
      if (!asked_for_number_) TakeStopNumber();
      kernel.added->AddTo(&with_added_, config, stop_number_);
      params = with_added_;
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(params.data());
    result = host_->gate->With({&task.kernel, 1}, [&, stream = device_stream_] {
      return context_->Launch(kernel.id, config, {bytes, params.size()}, stream);
    });
    std::atomic<bool>& launched = kernel.on_device->launched;
    if (!launched.load(std::memory_order_relaxed)) launched.store(true, std::memory_order_relaxed);
  }
  Check(task, result);
}

Executor::Step StreamExecutor::Do(const cmd::Launch& command, Task& task) {
  Launch(task,
         {{command.grid_x, command.grid_y, command.grid_z},
          {command.block_x, command.block_y, command.block_z},
          command.dynamic_shared_bytes},
         task.tail);
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::LaunchEx& command, Task& task) {
  device::LaunchConfig config = {{command.grid_x, command.grid_y, command.grid_z},
                                 {command.block_x, command.block_y, command.block_z},
                                 command.dynamic_shared_bytes};
  config.cooperative = command.cooperative != 0;
  std::string_view rest = task.tail;
  if (TakeAttributes(&rest, command.attribute_count, &config)) {
    Launch(task, config, rest);
  } else {
    Check(task, CudaResult::kInvalidValue);
  }
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::LibraryCall& command, Task& task) {
  PaidCode payer(host_->outside, device());
  const auto counted = [&](const LibraryCallIssue::Work& work) {
    on_executor_.AssertOnLoop();
    Pending pending;
    pending.seq = task.seq;
    pending.action = [this, work](CudaResult, std::string*) {
      on_executor_.AssertOnLoop();
      host_->libraries->Give(work.microseconds);
      library_launches_ -= work.launches;
    };
    Mark(device_stream_, std::move(pending));
  };
  if (!library_call_) library_call_.emplace(host_->libraries, &library_launches_);
  const LibraryCallIssue::Step step =
      library_call_->Issue(command, task.tail, context_, device_stream_, &payer, counted);
  if (step == LibraryCallIssue::Step::kBlocked) return Step::kBlocked;
  Check(task, library_call_->result());
  return Step::kDone;
}

// The executor holds itself back, with neither a driver's callback nor a wait on the device: one
// host function that blocks would stop those of all streams there.
Executor::Step StreamExecutor::Do(const cmd::HostCall& command, Task& task) {
  if (task.host->done.load(std::memory_order_acquire)) return Step::kDone;
  if (!task.host->announced) {
    task.host->announced = true;
    MarkIssued([token = command.token, host = task.host](std::string* batch) {
      if (batch == nullptr) {
        host->done.store(true, std::memory_order_release);
        return;
      }
      AppendNotice(ReplyId::kHostDue, 0, notice::HostDue{token}, {}, batch);
    });
  }
  return Step::kBlocked;
}

Executor::Step StreamExecutor::Do(const cmd::MemsetRows& command, Task& task) {
  Check(task, context_->MemsetRows(command.dst, command.pitch, command.value,
                                   static_cast<int>(command.width), command.columns, command.rows,
                                   device_stream_));
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::CopyBoxToDevice& command, Task& task) {
  const BoxPlace place = {command.dst, command.pitch, command.slice};
  const BoxExtent extent = {command.width, command.height, command.depth};
  uint64_t span;
  if (!BoxSpan(place, extent, &span) || extent.bytes() != task.tail.size() ||
      task.tail.size() > kStagingBytes) {
    Check(task, CudaResult::kInvalidValue);
    return Step::kDone;
  }
  return CopyIn(task, [&, stream = device_stream_](const void* buffer) {
    return context_->CopyBoxToDevice(place, buffer, extent, stream);
  });
}

Executor::Step StreamExecutor::Do(const cmd::CopyBoxFromDevice& command, Task& task) {
  const BoxPlace place = {command.src, command.pitch, command.slice};
  const BoxExtent extent = {command.width, command.height, command.depth};
  uint64_t span;
  if (!BoxSpan(place, extent, &span)) {
    AnswerInOrder(task, CudaResult::kInvalidValue);
    return Step::kDone;
  }
  return CopyOut(task, extent.bytes(),
                 [&, stream = device_stream_](void* buffer, uint64_t offset, size_t* bytes) {
                   const BoxPart part = PartOfBox(extent, offset, kStagingBytes);
                   *bytes = part.extent.bytes();
                   return context_->CopyBoxFromDevice(buffer, part.In(place), part.extent, stream);
                 });
}

Executor::Step StreamExecutor::Do(const cmd::CopyBoxOnDevice& command, Task& task) {
  Check(task,
        context_->CopyBoxOnDevice({command.dst, command.dst_pitch, command.dst_slice},
                                  {command.src, command.src_pitch, command.src_slice},
                                  {command.width, command.height, command.depth}, device_stream_));
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::StreamMemOps&, Task& task) {
  std::vector<device::MemOp> operations(task.tail.size() / sizeof(device::MemOp));
  std::memcpy(operations.data(), task.tail.data(), operations.size() * sizeof(device::MemOp));
  Check(task, context_->MemOps(operations, device_stream_));
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::StreamSetAttribute& command, Task& task) {
  if (!IsStreamAttribute(command.attribute)) {
    Check(task, CudaResult::kInvalidValue);
    return Step::kDone;
  }
  device::LaunchAttribute attribute;
  attribute.id = command.attribute;
  std::memcpy(attribute.value.data(), task.tail.data(), attribute.value.size());
  const CudaResult result = context_->SetStreamAttribute(device_stream_, attribute);
  if (result == CudaResult::kSuccess && attribute.id == kPriorityAttribute) {
    int32_t priority = 0;
    std::memcpy(&priority, attribute.value.data(), sizeof(priority));
    SetPriority(priority);
  }
  Check(task, result);
  return Step::kDone;
}

void StreamExecutor::SetPriority(int32_t priority) {
  priority_ = priority;
  turns().SetPriority(priority, /*makes_way=*/!context_->OrdersByPriority());
}

void StreamExecutor::Finish() {
  held_by_.clear();  // Records keep their executors.
  for (const auto& [device, stream] : side_streams_) EndStream(device, stream);
  if (stop_number_ != 0) host_->devices->code(device())->kernel_stops()->Give(stop_number_);
  if (has_stream_ && kind() != Kind::kLegacy) EndStream(device(), device_stream_);
  if (partition_ != nullptr) EndUse(partition_.get(), *host_);
}

}  // namespace warpline::worker
