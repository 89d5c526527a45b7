// Events, with a device event for every record.
//
// An application may record an event again while a stream still waits for the former record. In
// CUDA each wait is bound to the record that was the latest when the wait was made. But executors
// run apart, so a shared device event could be recorded anew before the wait is issued. Hence a
// record takes a device event of its own from a pool, and gives it back when nothing refers to the
// record any more.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_EVENT_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_EVENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/cuda/cuda_numbers.h"
#include "common/mutex.h"
#include "server/device/device.h"
#include "server/worker/executors/decoder_thread.h"

namespace warpline::worker {

class Executor;

// Device events by their flags. Thread-safe.
class EventPool {
 public:
  explicit EventPool(device::Context* context) : context_(context) {}
  ~EventPool();

  CudaResult Take(uint32_t flags, device::EventId* event);
  void Give(uint32_t flags, device::EventId event);

 private:
  device::Context* const context_;
  Mutex mu_;
  absl::flat_hash_map<uint32_t, std::vector<device::EventId>> idle_ ABSL_GUARDED_BY(mu_);
};

// One record of an event. The decoder makes it, its executor records and watches it, and whatever
// waits for it holds it. It is shared because these outlive each other in any order.
class EventRecord {
 public:
  enum class State { kPending, kRecorded, kComplete, kFailed };

  // `executor` may be null for a mark that nothing waits for.
  EventRecord(EventPool* pool, uint32_t flags, std::shared_ptr<Executor> executor)
      : executor(std::move(executor)), flags(flags), pool_(pool) {}
  ~EventRecord();
  EventRecord(const EventRecord&) = delete;
  EventRecord& operator=(const EventRecord&) = delete;

  // Called once, by the executor.
  CudaResult Record(device::Context* context, device::StreamId stream);

  State state() const { return state_.load(std::memory_order_acquire); }
  void set_state(State state) { state_.store(state, std::memory_order_release); }
  // Valid once recorded.
  device::EventId id() const { return id_; }

  // Whether cuEventElapsedTime() may ask for its time.
  bool timed() const { return event != 0 && (flags & kEventDisableTiming) == 0; }

  const std::shared_ptr<Executor> executor;
  // The client's handle; 0 for a mark that is no record of an event.
  uint64_t event = 0;
  // The number of the command that made it.
  uint64_t seq = 0;
  // The time when it was seen complete, by the monotonic clock; the next worker gets nothing else
  // of it.
  std::atomic<int64_t> host_ns{0};
  // True when a former worker made it: there is no device event, only host_ns.
  bool restored = false;
  // The record's ticket in its executor, and the latest ticket up to it in that
  // executor that has data for the client (Executor::data_ticket).
  uint64_t ticket ABSL_GUARDED_BY(decoder_thread) = 0;
  uint64_t data_ticket ABSL_GUARDED_BY(decoder_thread) = 0;
  const uint32_t flags;

 private:
  EventPool* const pool_;
  std::atomic<State> state_{State::kPending};
  bool taken_ = false;
  device::EventId id_{};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_EVENT_H_
