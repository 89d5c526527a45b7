#include "server/worker/order/stream_order.h"

#include <algorithm>
#include <utility>

#include "common/cuda/cuda_numbers.h"
#include "proto/devices.h"
#include "server/worker/executors/control_executor.h"
#include "server/worker/executors/graph.h"
#include "server/worker/executors/link_executor.h"
#include "server/worker/executors/partition.h"
#include "server/worker/executors/stream_executor.h"

namespace warpline::worker {
namespace {

// Returns true if a task has to name `ticket`, because no task before it in its executor did.
bool NamesFirst(uint64_t ticket, uint64_t* named) {
  if (*named >= ticket) return false;
  *named = ticket;
  return true;
}

// An executor is adopted when so many payloads in a row have had something for it alone: then it is
// one thread of the application that waits for each thing it does.
constexpr int kAloneToAdopt = 4;

}  // namespace

StreamOrder::StreamOrder(const ExecutorHost* host, Completion* completion)
    : host_(host), completion_(completion) {}

bool StreamOrder::Start() {
  control_ = std::make_shared<ControlExecutor>(host_);
  if (!control_->Start()) return false;
  completion_->AddExecutor(control_);
  for (uint32_t device = 0; device < host_->devices->size(); ++device) {
    Stream* const legacy =
        Open(Executor::Kind::kLegacy, HandleOnDevice(device, kLegacyStreamHandle));
    if (legacy == nullptr) return false;
    legacy_.push_back(legacy);
  }
  return true;
}

Stream* StreamOrder::Find(uint64_t handle) {
  const auto it = streams_.find(handle);
  return it == streams_.end() ? nullptr : it->second.get();
}

Stream* StreamOrder::Open(Executor::Kind kind, uint64_t handle) {
  auto stream = std::make_unique<Stream>();
  stream->executor = std::make_shared<StreamExecutor>(host_, kind, handle);
  if (!stream->executor->Start()) return nullptr;
  completion_->AddExecutor(stream->executor);
  return streams_.emplace(handle, std::move(stream)).first->second.get();
}

void StreamOrder::Close(uint64_t handle) {
  const auto it = streams_.find(handle);
  leaving_.push_back(std::move(it->second));
  streams_.erase(it);
}

// Records of events may keep the rest of an executor that is complete; it has no thread any more.
size_t StreamOrder::Threads() {
  ForgetFinished();
  for (const auto& executor : completion_->TakeFinishedExecutors()) executor->Stop();
  return streams_.size() + leaving_.size();
}

bool StreamOrder::AnyEndsSoon() const {
  return std::any_of(leaving_.begin(), leaving_.end(),
                     [](const auto& stream) RUNS_ON(decoder_thread) {
                       return stream->executor->delivered() >= stream->work_ticket;
                     });
}

bool StreamOrder::OpenLinker() {
  if (linker_ != nullptr) return true;
  auto executor = std::make_shared<LinkExecutor>(host_);
  if (!executor->Start()) return false;
  completion_->AddExecutor(executor);
  linker_ = std::move(executor);
  return true;
}

template <typename Visit>
void StreamOrder::ForEachStream(Visit visit) {
  for (const auto& [handle, stream] : streams_) visit(*stream);
  for (const auto& stream : leaving_) visit(*stream);
}

void StreamOrder::AddPrerequisites(After after, Stream* stream, Task* task) {
  switch (after) {
    case After::kNothing:
      return;
    case After::kEvents:
      return AfterEvents(stream, task);
    case After::kObjects:
      return AfterObjects(task);
    case After::kAllStreams:
      return AfterAllStreams(task);
  }
}

void StreamOrder::AfterEvents(Stream* stream, Task* task) {
  for (const EventRecord* record : {task->event.get(), task->second_event.get()}) {
    if (record == nullptr || (stream != nullptr && record->executor == stream->executor)) continue;
    task->after.push_back({record->executor, record->ticket, /*of_event=*/true});
    if (stream != nullptr) ComesAfterData(stream, record->executor, record->data_ticket, task);
  }
}

void StreamOrder::AfterObjects(Task* task) {
  const auto wait_for = [&](const auto& object) RUNS_ON(decoder_thread) {
    if (object == nullptr || control_->issued() >= object->ticket) return;
    task->after.push_back({control_, object->ticket});
  };
  wait_for(task->kernel);
  wait_for(task->array);
  if (task->second_array != task->array) wait_for(task->second_array);
  wait_for(task->graph);
  wait_for(task->partition);
}

void StreamOrder::AfterAllStreams(Task* task) {
  ForEachStream([&](Stream& stream) RUNS_ON(decoder_thread) {
    const uint64_t appended = stream.executor->appended();
    if (stream.executor->issued() < appended && NamesFirst(appended, &stream.by_control.issued)) {
      task->after.push_back({stream.executor, appended});
    }
  });
}

void StreamOrder::AfterAllIsComplete(Task* task) {
  if (!host_->shares_device) return;
  ForEachStream([&](Stream& stream) RUNS_ON(decoder_thread) {
    const uint64_t appended = stream.executor->appended();
    if (stream.executor->delivered() < appended &&
        NamesFirst(appended, &stream.by_control.complete)) {
      task->complete.push_back({stream.executor, appended});
    }
  });
}

void StreamOrder::ComesAfterData(Stream* stream, const std::shared_ptr<Executor>& other,
                                 uint64_t ticket, Task* task) {
  if (other->delivered() >= ticket) return;
  task->data.push_back({other, ticket});
  // Commands that come after this one come after that data.
  stream->data_ticket = stream->executor->appended() + 1;
}

void StreamOrder::ComesAfterBarrier(Stream* stream, size_t kind, const Barriers& barriers,
                                    Task* task) {
  uint64_t& seen = stream->barriers_seen[kind];
  if (seen == barriers.count) return;
  seen = barriers.count;
  const std::shared_ptr<EventRecord>& barrier = barriers.latest;
  if (barrier->executor == stream->executor) return;
  if (barrier->state() != EventRecord::State::kComplete) {
    task->after.push_back({barrier->executor, barrier->ticket});
    task->barriers.push_back(barrier);
  }
  ComesAfterData(stream, barrier->executor, barrier->data_ticket, task);
}

void StreamOrder::AfterStream(Stream* stream, const Stream& other, Named* named, Task* task) {
  const uint64_t appended = other.executor->appended();
  if (other.executor->issued() < appended && NamesFirst(appended, &named->issued)) {
    task->after.push_back({other.executor, appended});
  }
  if (NamesFirst(other.data_ticket, &named->data)) {
    ComesAfterData(stream, other.executor, other.data_ticket, task);
  }
}

// A device's legacy stream waits for each of its blocking streams, and they wait for it. The device
// sees to that once the commands reach it in the application's order.
void StreamOrder::Enqueue(Stream* stream, Task&& task) {
  const Executor& executor = *stream->executor;
  if (executor.kind() == Executor::Kind::kLegacy) {
    ForEachStream([&](Stream& other) RUNS_ON(decoder_thread) {
      if (other.executor->kind() != Executor::Kind::kBlocking ||
          other.executor->device() != executor.device()) {
        return;
      }
      AfterStream(stream, other, &other.by_legacy, &task);
    });
  } else if (executor.kind() == Executor::Kind::kBlocking) {
    AfterStream(stream, *legacy_[executor.device()], &stream->of_legacy, &task);
  }
  for (size_t kind = stream->ignores_barriers ? 1 : 0; kind < barriers_.size(); ++kind) {
    ComesAfterBarrier(stream, kind, barriers_[kind], &task);
  }
  ++given_[static_cast<size_t>(task.work.engine)];
  const bool ends = task.id == CommandId::kStreamDestroy;
  const uint64_t ticket = stream->executor->Append(std::move(task));
  if (!ends) stream->work_ticket = ticket;
}

void StreamOrder::AddBarrier(Stream* stream, std::shared_ptr<EventRecord> record) {
  const size_t kind = stream->ignores_barriers ? 1 : 0;
  barriers_[kind].latest = std::move(record);
  stream->barriers_seen[kind] = ++barriers_[kind].count;
}

int StreamOrder::CountAppended(const std::shared_ptr<Executor>** last) {
  int executors = 0;
  const auto look = [&](const std::shared_ptr<Executor>& executor) RUNS_ON(decoder_thread) {
    if (executor == nullptr || !executor->has_appended()) return;
    ++executors;
    *last = &executor;
  };
  look(control_);
  look(linker_);
  ForEachStream([&](const Stream& stream) RUNS_ON(decoder_thread) { look(stream.executor); });
  return executors;
}

void StreamOrder::GiveBackAdopted() {
  if (adopted_ != nullptr) std::exchange(adopted_, nullptr)->GiveBack();
}

void StreamOrder::Flush() {
  const std::shared_ptr<Executor>* executor = nullptr;
  const int executors = CountAppended(&executor);
  if (executors == 0) return;
  alone_times_ = executors == 1 && executor->get() == alone_ ? alone_times_ + 1 : 0;
  alone_ = executor->get();
  if (host_->adopts_executors && alone_times_ >= kAloneToAdopt && alone_->IssueHere()) {
    if (adopted_ == nullptr) adopted_ = *executor;
    return;
  }
  FlushToThreads();
}

void StreamOrder::FlushToThreads() {
  GiveBackAdopted();
  control_->Flush();
  if (linker_ != nullptr) linker_->Flush();
  ForEachStream([](const Stream& stream) RUNS_ON(decoder_thread) { stream.executor->Flush(); });
}

void StreamOrder::ForgetFinished() {
  std::erase_if(leaving_, [](const auto& stream)
                              RUNS_ON(decoder_thread) { return stream->executor->finished(); });
}

}  // namespace warpline::worker
