#include "server/worker/executors/event.h"

namespace warpline::worker {

EventPool::~EventPool() {
  MutexLock lock(&mu_);
  for (const auto& [flags, events] : idle_) {
    for (const device::EventId event : events) context_->DestroyEvent(event);
  }
}

CudaResult EventPool::Take(uint32_t flags, device::EventId* event) {
  {
    MutexLock lock(&mu_);
    std::vector<device::EventId>& events = idle_[flags];
    if (!events.empty()) {
      *event = events.back();
      events.pop_back();
      return CudaResult::kSuccess;
    }
  }
  return context_->CreateEvent(flags, event);
}

void EventPool::Give(uint32_t flags, device::EventId event) {
  MutexLock lock(&mu_);
  idle_[flags].push_back(event);
}

EventRecord::~EventRecord() {
  if (taken_) pool_->Give(flags, id_);
}

CudaResult EventRecord::Record(device::Context* context, device::StreamId stream) {
  CudaResult result = pool_->Take(flags, &id_);
  if (result == CudaResult::kSuccess) {
    taken_ = true;
    result = context->RecordEvent(id_, stream);
  }
  set_state(result == CudaResult::kSuccess ? State::kRecorded : State::kFailed);
  return result;
}

}  // namespace warpline::worker
