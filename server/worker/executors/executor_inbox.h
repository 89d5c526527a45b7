// Takes tasks from the decoder to an executor's thread, which sleeps here while it has nothing to
// do.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_EXECUTOR_INBOX_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_EXECUTOR_INBOX_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/event.h"
#include "server/worker/executors/stream_cancel.h"
#include "server/worker/executors/task.h"
#include "server/worker/executors/task_queue.h"

namespace warpline::worker {

// An application's wait for a record.
struct EventWait {
  uint64_t seq = 0;  // The round trip to answer.
  std::shared_ptr<EventRecord> record;
};

class ExecutorInbox {
 public:
  // Append() takes effect at Flush().
  void Append(Task&& task) RUNS_ON(decoder_thread) { outbox_.push_back(std::move(task)); }
  void Flush() RUNS_ON(decoder_thread);
  // What Flush() would hand over. Whoever takes it out instead sees to what was handed over before.
  TaskQueue& outbox() RUNS_ON(decoder_thread) { return outbox_; }
  const TaskQueue& outbox() const RUNS_ON(decoder_thread) { return outbox_; }
  bool has_news() const { return has_news_.load(std::memory_order_acquire); }

  // Called by any thread. Returns false, and adds nothing, once the inbox is closed.
  bool AddEventWait(EventWait wait);
  // Does nothing once the inbox is closed, because nothing is left to cancel.
  void AddCancel(const CancelRequest& cancel);
  // Makes the executor look at its tasks again.
  void Nudge();
  // Tells the executor's thread to end.
  void Stop();

  // Called by the executor's thread. Appends what has come; returns false when nothing has.
  bool Take(TaskQueue* ready, std::vector<EventWait>* waits, std::vector<CancelRequest>* cancels);
  bool stopped();
  // Sleeps until something comes, or at most for `nap`. Returns at once if something has already
  // come.
  void Sleep(absl::Duration nap);
  // Accepts no more waits from now on. Returns those that were not taken.
  std::vector<EventWait> Close();

  // Drops everything. Called once the executor's thread has ended.
  void Clear() RUNS_ON(decoder_thread);

 private:
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  TaskQueue outbox_ ABSL_GUARDED_BY(decoder_thread);

  Mutex mu_;
  CondVar wake_;
  TaskQueue tasks_ ABSL_GUARDED_BY(mu_);
  std::vector<EventWait> waits_ ABSL_GUARDED_BY(mu_);
  std::vector<CancelRequest> cancels_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool asleep_ ABSL_GUARDED_BY(mu_) = false;
  // Written under `mu_`; lets the thread look without taking it.
  std::atomic<bool> has_news_{false};
};

// Decides how long the executors of a session nap between two looks. The more of them nap, the
// longer each nap is. So a session of many streams wakes the processor hardly more often than one
// of a few.
//
// Thread-safe.
class ExecutorNaps {
 public:
  // So many executors nap as if they were alone.
  static constexpr int64_t kUndisturbed = 16;

  // One nap, from its beginning to its end.
  class Nap {
   public:
    // `naps` is borrowed; `alone_ns` is how long the executor would nap alone.
    Nap(ExecutorNaps* naps, int64_t alone_ns) : naps_(naps) {
      const int64_t executors = naps->executors_.fetch_add(1, std::memory_order_relaxed) + 1;
      ns_ = alone_ns * std::max(executors, kUndisturbed) / kUndisturbed;
    }
    ~Nap() { naps_->executors_.fetch_sub(1, std::memory_order_relaxed); }
    Nap(const Nap&) = delete;
    Nap& operator=(const Nap&) = delete;

    int64_t ns() const { return ns_; }

   private:
    ExecutorNaps* const naps_;
    int64_t ns_;
  };

 private:
  std::atomic<int64_t> executors_{0};  // That nap.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_EXECUTOR_INBOX_H_
