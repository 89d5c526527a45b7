// The streams and events of a FakeContext.
#ifndef WARPLINE_SERVER_WORKER_TESTING_FAKE_STREAMS_H_
#define WARPLINE_SERVER_WORKER_TESTING_FAKE_STREAMS_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/facets/streams.h"
#include "server/worker/testing/fake_shared.h"

namespace warpline::worker {

// Work that was submitted to a stalled stream does not complete, nor does what waits for it.
// Thread-safe.
class FakeStreamFacet : public virtual device::Streams {
 public:
  explicit FakeStreamFacet(FakeShared* shared)
      : log_(shared->log), streams_(shared->streams.get()) {}

  void Stall(uint64_t stream) { streams_->Stall(stream); }
  void Resume(uint64_t stream) { streams_->Resume(stream); }
  // From now on every query ends with `result`.
  void Break(CudaResult result) {
    MutexLock lock(&mu_);
    broken_ = result;
  }
  // From now on streams are not destroyed before this is called with false.
  void HoldDestroys(bool hold) {
    MutexLock lock(&mu_);
    holds_destroys_ = hold;
    changed_.NotifyAll();
  }
  // Waits until a stream is to be destroyed and held.
  void AwaitHeldDestroy() {
    MutexLock lock(&mu_);
    while (held_destroys_ == 0) changed_.Wait(&mu_);
  }
  int live_events() {
    MutexLock lock(&mu_);
    return live_events_;
  }

  // Sets what OrdersByPriority() says. Called before sessions open.
  void OrderByPriority(bool orders) { orders_by_priority_ = orders; }

  bool OrdersByPriority() const override { return orders_by_priority_; }
  CudaResult CreateStream(uint32_t, int priority, device::StreamId* stream) override {
    *stream = static_cast<device::StreamId>(streams_->NewStream());
    if (priority != 0) log_.Add("create", *stream, absl::StrCat(priority));
    return CudaResult::kSuccess;
  }
  CudaResult DestroyStream(device::StreamId stream) override {
    {
      MutexLock lock(&mu_);
      ++held_destroys_;
      changed_.NotifyAll();
      while (holds_destroys_) changed_.Wait(&mu_);
      --held_destroys_;
    }
    return log_.Add("destroy", stream, "");
  }
  CudaResult SetStreamAttribute(device::StreamId stream,
                                const device::LaunchAttribute& attribute) override {
    return log_.Add("attribute", stream, absl::StrCat(attribute.id));
  }
  CudaResult CreateEvent(uint32_t, device::EventId* event) override {
    MutexLock lock(&mu_);
    ++live_events_;
    *event = static_cast<device::EventId>(streams_->NewEvent());
    return CudaResult::kSuccess;
  }
  CudaResult DestroyEvent(device::EventId) override {
    MutexLock lock(&mu_);
    --live_events_;
    return CudaResult::kSuccess;
  }
  CudaResult RecordEvent(device::EventId event, device::StreamId stream) override {
    streams_->Record(event, stream);
    return CudaResult::kSuccess;
  }
  CudaResult WaitEvent(device::StreamId stream, device::EventId event) override {
    return log_.Add("wait", stream, absl::StrCat(streams_->StreamOf(event)));
  }
  CudaResult QueryEvent(device::EventId event) override {
    MutexLock lock(&mu_);
    if (broken_ != CudaResult::kSuccess) return broken_;
    return streams_->Stalled(event) ? CudaResult::kNotReady : CudaResult::kSuccess;
  }
  CudaResult ElapsedMs(device::EventId, device::EventId, float* ms) override {
    *ms = 1.5f;
    return CudaResult::kSuccess;
  }
  CudaResult QueryIdle() override { return CudaResult::kSuccess; }
  device::ProcessorSet BusyProcessors() override { return {}; }

 private:
  FakeLog& log_;
  FakeStreams* const streams_;
  bool orders_by_priority_ = true;
  Mutex mu_;
  CondVar changed_;
  bool holds_destroys_ ABSL_GUARDED_BY(mu_) = false;
  int held_destroys_ ABSL_GUARDED_BY(mu_) = 0;
  CudaResult broken_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
  int live_events_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_TESTING_FAKE_STREAMS_H_
