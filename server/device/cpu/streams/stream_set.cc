#include "server/device/cpu/streams/stream_set.h"

#include <time.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "common/cuda/cuda_numbers.h"

namespace warpline::cpu {
namespace {

constexpr size_t kMaxQueued = 4096;

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

StreamSet::StreamSet(uint32_t contexts) : next_stream_(LegacyOf(contexts)), last_legacy_(contexts) {
  MutexLock lock(&mu_);
  for (uint32_t context = 0; context < contexts; ++context) {
    auto legacy = std::make_shared<Stream>();
    legacy->context = context;
    legacy->legacy = true;
    streams_[LegacyOf(context)] = std::move(legacy);
  }
}

void StreamSet::Stop() {
  std::vector<std::shared_ptr<Stream>> all;
  {
    MutexLock lock(&mu_);
    stopping_.store(true);
    changed_.NotifyAll();
    for (const auto& [id, stream] : streams_) all.push_back(stream);
    all.insert(all.end(), closing_.begin(), closing_.end());
  }
  for (const auto& stream : all) {
    if (stream->thread.joinable()) stream->thread.join();
  }
  // The dropped operations may hold parts of contexts, which are destroyed before this object is.
  std::vector<std::deque<Operation>> dropped;  // Destroyed without the lock.
  MutexLock lock(&mu_);
  for (const auto& stream : all) dropped.push_back(std::exchange(stream->queue, {}));
}

std::shared_ptr<StreamSet::Stream> StreamSet::Find(uint64_t stream) {
  const auto it = streams_.find(stream);
  return it == streams_.end() ? nullptr : it->second;
}

void StreamSet::JoinFinished() {
  for (size_t i = 0; i < closing_.size();) {
    if (!closing_[i]->finished) {
      ++i;
      continue;
    }
    if (closing_[i]->thread.joinable()) closing_[i]->thread.join();
    closing_.erase(closing_.begin() + static_cast<ptrdiff_t>(i));
  }
}

CudaResult StreamSet::CreateStream(uint32_t context, uint32_t flags, uint64_t* stream) {
  if (flags > kStreamNonBlocking) return CudaResult::kInvalidValue;
  MutexLock lock(&mu_);
  JoinFinished();
  auto created = std::make_shared<Stream>();
  created->context = context;
  created->blocking = (flags & kStreamNonBlocking) == 0;
  *stream = next_stream_++;
  streams_[*stream] = std::move(created);
  return CudaResult::kSuccess;
}

CudaResult StreamSet::DestroyStream(uint64_t stream) {
  MutexLock lock(&mu_);
  const auto it = streams_.find(stream);
  if (it == streams_.end() || it->second->legacy) return CudaResult::kInvalidHandle;
  it->second->closing = true;
  if (it->second->thread.joinable()) closing_.push_back(it->second);
  streams_.erase(it);
  changed_.NotifyAll();
  return CudaResult::kSuccess;
}

CudaResult StreamSet::Submit(uint64_t stream, When when, Work work) {
  MutexLock lock(&mu_);
  std::shared_ptr<Stream> target = Find(stream);
  if (target == nullptr) return CudaResult::kInvalidHandle;
  while (target->queue.size() >= kMaxQueued && !stopping_ && error() == CudaResult::kSuccess) {
    changed_.Wait(&mu_);
  }
  SubmitLocked(target, when, std::move(work), nullptr);
  return error();
}

bool StreamSet::RunIfIdle(uint64_t stream, const Work& work) {
  MutexLock lock(&mu_);
  const std::shared_ptr<Stream> target = Find(stream);
  if (target == nullptr || target->busy || !target->queue.empty() ||
      !Predecessors(*target).empty()) {
    return false;
  }
  Operation operation;
  operation.work = work;
  operation.completion = std::make_shared<Completion>();
  NoteLast(target.get(), operation.completion);
  RunOne(target.get(), &operation);
  return true;
}

std::vector<StreamSet::CompletionPtr> StreamSet::Predecessors(const Stream& stream) {
  std::vector<CompletionPtr> waits;
  const auto wait_for = [&](const CompletionPtr& completion) {
    if (completion != nullptr && !completion->done) waits.push_back(completion);
  };
  const auto precedes = [&](const Stream& other) {
    return &other != &stream && other.blocking && other.context == stream.context;
  };
  if (stream.legacy) {
    for (const auto& [id, other] : streams_) {
      if (precedes(*other)) wait_for(other->last);
    }
    for (const auto& other : closing_) {
      if (precedes(*other)) wait_for(other->last);
    }
  } else if (stream.blocking) {
    wait_for(last_legacy_[stream.context]);
  }
  return waits;
}

void StreamSet::NoteLast(Stream* stream, const CompletionPtr& completion) {
  stream->last = completion;
  if (stream->legacy) last_legacy_[stream->context] = completion;
}

StreamSet::CompletionPtr StreamSet::SubmitLocked(const std::shared_ptr<Stream>& stream, When when,
                                                 Work work, const CompletionPtr& also) {
  Operation operation;
  operation.work = std::move(work);
  operation.completion = std::make_shared<Completion>();
  operation.waits = Predecessors(*stream);
  if (also != nullptr && !also->done) operation.waits.push_back(also);
  CompletionPtr completion = operation.completion;
  NoteLast(stream.get(), completion);
  if (when == When::kNowIfPossible && !stream->busy && stream->queue.empty() &&
      operation.waits.empty()) {
    RunOne(stream.get(), &operation);
    return completion;
  }
  stream->queue.push_back(std::move(operation));
  if (!stream->thread.joinable()) {
    try {
      stream->thread = std::thread([this, stream] { RunStream(stream); });
    } catch (const std::system_error&) {
      // Its work cannot be done, and others may wait for it, so it counts as a launch that failed.
      if (error() == CudaResult::kSuccess) error_.store(CudaResult::kOutOfMemory);
      while (!stream->queue.empty()) {
        stream->queue.front().completion->done = true;
        stream->queue.pop_front();
      }
    }
  }
  changed_.NotifyAll();
  return completion;
}

void StreamSet::RunOne(Stream* stream, Operation* operation) {
  if (operation->work != nullptr && error() == CudaResult::kSuccess && !stopping_) {
    stream->busy = true;
    mu_.Unlock();
    const CudaResult result = operation->work();
    operation->work = nullptr;  // What it holds may take long to free.
    mu_.Lock();
    stream->busy = false;
    if (result != CudaResult::kSuccess && error() == CudaResult::kSuccess) error_.store(result);
  }
  operation->completion->done = true;
  operation->completion->time_ns = NowNs();
  changed_.NotifyAll();
}

void StreamSet::RunStream(const std::shared_ptr<Stream>& stream) {
  MutexLock lock(&mu_);
  const auto ready = [](const Operation& operation) {
    return std::all_of(operation.waits.begin(), operation.waits.end(),
                       [](const CompletionPtr& completion) { return completion->done; });
  };
  for (;;) {
    while (!stopping_ && (stream->busy || stream->queue.empty() || !ready(stream->queue.front()))) {
      if (stream->closing && stream->queue.empty() && !stream->busy) break;
      changed_.Wait(&mu_);
    }
    if (stopping_ || stream->queue.empty()) break;
    Operation operation = std::move(stream->queue.front());
    stream->queue.pop_front();
    RunOne(stream.get(), &operation);
  }
  stream->finished = true;
}

CudaResult StreamSet::CreateEvent(uint32_t flags, uint64_t* event) {
  MutexLock lock(&mu_);
  *event = next_event_++;
  events_[*event].flags = flags;
  return CudaResult::kSuccess;
}

CudaResult StreamSet::DestroyEvent(uint64_t event) {
  MutexLock lock(&mu_);
  return events_.erase(event) != 0 ? CudaResult::kSuccess : CudaResult::kInvalidHandle;
}

CudaResult StreamSet::RecordEvent(uint64_t event, uint64_t stream) {
  MutexLock lock(&mu_);
  const auto it = events_.find(event);
  const std::shared_ptr<Stream> target = Find(stream);
  if (it == events_.end() || target == nullptr) return CudaResult::kInvalidHandle;
  it->second.mark = SubmitLocked(target, When::kNowIfPossible, nullptr, nullptr);
  return CudaResult::kSuccess;
}

CudaResult StreamSet::WaitEvent(uint64_t stream, uint64_t event) {
  MutexLock lock(&mu_);
  const auto it = events_.find(event);
  const std::shared_ptr<Stream> target = Find(stream);
  if (it == events_.end() || target == nullptr) return CudaResult::kInvalidHandle;
  const CompletionPtr mark = it->second.mark;
  if (mark == nullptr || mark->done) return CudaResult::kSuccess;
  SubmitLocked(target, When::kQueued, nullptr, mark);
  return CudaResult::kSuccess;
}

CudaResult StreamSet::QueryEvent(uint64_t event) {
  MutexLock lock(&mu_);
  const auto it = events_.find(event);
  if (it == events_.end()) return CudaResult::kInvalidHandle;
  if (error() != CudaResult::kSuccess) return error();
  const CompletionPtr& mark = it->second.mark;
  return mark == nullptr || mark->done ? CudaResult::kSuccess : CudaResult::kNotReady;
}

CudaResult StreamSet::ElapsedMs(uint64_t start, uint64_t end, float* ms) {
  MutexLock lock(&mu_);
  const auto first = events_.find(start);
  const auto last = events_.find(end);
  if (first == events_.end() || last == events_.end() || first->second.mark == nullptr ||
      last->second.mark == nullptr ||
      ((first->second.flags | last->second.flags) & kEventDisableTiming) != 0) {
    return CudaResult::kInvalidHandle;
  }
  if (!first->second.mark->done || !last->second.mark->done) return CudaResult::kNotReady;
  *ms = static_cast<float>(last->second.mark->time_ns - first->second.mark->time_ns) / 1e6f;
  return CudaResult::kSuccess;
}

bool StreamSet::IsIdle() {
  MutexLock lock(&mu_);
  const auto is_idle = [](const Stream& stream) {
    return stream.last == nullptr || stream.last->done;
  };
  return std::all_of(streams_.begin(), streams_.end(),
                     [&](const auto& entry) { return is_idle(*entry.second); }) &&
         std::all_of(closing_.begin(), closing_.end(),
                     [&](const auto& stream) { return is_idle(*stream); });
}

void StreamSet::Drain() {
  MutexLock lock(&mu_);
  std::vector<CompletionPtr> pending;
  for (const auto& [id, stream] : streams_) pending.push_back(stream->last);
  for (const auto& stream : closing_) pending.push_back(stream->last);
  for (const CompletionPtr& completion : pending) {
    while (completion != nullptr && !completion->done && !stopping_) changed_.Wait(&mu_);
  }
}

}  // namespace warpline::cpu
