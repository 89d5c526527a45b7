// An executor: one stream's commands, in order, on a thread of their own.
//
// Where a client waits for each command, the way from the decoder's thread to the executor's is a
// good part of its wait. So the decoder's thread may adopt an executor: it issues its commands and
// looks after them, turn by turn, while the executor's own thread sleeps. It does both, because the
// driver takes longer when one thread issues to a stream and another one asks for what was issued.
//
// An executor waits only for what a command depends on. Waits of the application never block its
// thread: it issues, marks what it issued with device events, polls the marks, and answers when
// they complete. It does not block in the driver either. The driver takes about 1,000 launches on a
// stalled stream and then holds its caller, so an executor keeps fewer outstanding.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_EXECUTOR_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/loop/loop_affinity.h"
#include "common/steady_time.h"
#include "proto/command_lists.h"
#include "proto/devices.h"
#include "server/device/device.h"
#include "server/hostlink/dispatch_gate/executor_turns.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/event.h"
#include "server/worker/executors/executor_host.h"
#include "server/worker/executors/executor_inbox.h"
#include "server/worker/executors/stream_cancel.h"
#include "server/worker/executors/task.h"
#include "server/worker/executors/task_queue.h"

namespace warpline::worker {

// Thread-safe, except for what runs on the executor's thread or the decoder's. Derived classes must
// call Stop() in their destructors. Destroy an executor on the decoder's thread, or on any other
// once it has been stopped.
class Executor {
 public:
  enum class Kind { kLegacy, kBlocking, kNonBlocking, kControl };

  // `host` is borrowed. `stream` is the client's handle, of a device that exists.
  Executor(const ExecutorHost* host, Kind kind, uint64_t stream);
  virtual ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Starts the thread. Call it once, before anything is appended. Returns false when the system has
  // no more threads; the executor is then of no use.
  bool Start();
  // Ends the thread. What has not been issued is dropped, and what has been issued is not waited
  // for.
  void Stop() RUNS_ON(decoder_thread);

  // For what the executor calls: looks whether this thread is the executor's, or has its turn.
  void AssertOnExecutor() const ABSL_ASSERT_EXCLUSIVE_LOCK(on_executor_) {
    on_executor_.AssertOnLoop();
  }

  Kind kind() const { return kind_; }
  uint64_t stream() const { return stream_; }
  // The stream's device. An executor without a stream belongs to no device, and says 0.
  uint32_t device() const { return DeviceOfHandle(stream_); }

  // Appends a task and returns its ticket. It takes effect at Flush().
  uint64_t Append(Task&& task) RUNS_ON(decoder_thread);
  // Hands what was appended to the executor's thread, which goes on with an adopted executor.
  void Flush() RUNS_ON(decoder_thread);
  bool has_appended() const RUNS_ON(decoder_thread) { return !inbox_.outbox().empty(); }
  // Adopts the executor, unless it is adopted already, and issues what was appended: a few commands
  // that cannot hold up this thread, with not much ahead of them. Returns false, and does nothing,
  // where that is not so.
  bool IssueHere() RUNS_ON(decoder_thread);
  // Looks after the work of an adopted executor, and returns whether any is under way.
  bool LookHere() RUNS_ON(decoder_thread);
  // The executor's thread goes on, with an adopted executor.
  void GiveBack() RUNS_ON(decoder_thread);
  // Replies to round trip `seq` when `record`, which belongs to this executor, is complete. Returns
  // false, and does not reply, when very many wait already.
  bool WaitForEvent(uint64_t seq, std::shared_ptr<EventRecord> record);

  // Drops the tasks up to the latest one that was appended, as far as they have not begun. Unless
  // this is for what waits only, kernels that have begun are told to stop, and what is appended
  // later waits until nothing is left. If that takes too long, the session ends.
  void Cancel(bool waiting_only) RUNS_ON(decoder_thread) {
    inbox_.AddCancel({appended(), waiting_only});
  }

  // Makes the executor look at its tasks again, because something that one of them waits for has
  // happened.
  void Nudge() { inbox_.Nudge(); }

  // Tickets that were appended by the decoder, issued to the device, completed, and completed with
  // all their replies sent. Others may act only upon the last: data for the client must come first.
  uint64_t appended() const { return appended_.load(std::memory_order_acquire); }
  uint64_t issued() const { return issued_.load(std::memory_order_acquire); }
  uint64_t retired() const RUNS_ON(on_executor_) { return retired_; }
  uint64_t delivered() const { return delivered_.load(std::memory_order_acquire); }
  // Of work that was issued and is not complete: when the first of it was issued, or when something
  // became complete the last time, whatever was later, by SteadyNow(). Of no meaning without such
  // work.
  absl::Time under_way_since() const {
    return absl::FromUnixNanos(under_way_since_.load(std::memory_order_relaxed));
  }
  // The numbers of the commands at retired() and delivered().
  uint64_t retired_seq() const RUNS_ON(on_executor_) { return retired_seq_; }
  uint64_t delivered_seq() const { return delivered_seq_.load(std::memory_order_acquire); }
  // True when the executor has destroyed its stream and its last command is complete: it may be
  // deleted.
  bool finished() const { return finished_.load(std::memory_order_acquire); }

 protected:
  enum class Step { kDone, kBlocked };

  // Issued work whose completion is watched.
  struct Pending {
    // Null when it only has to keep its place after the marks before it.
    std::shared_ptr<EventRecord> mark;
    uint64_t ticket = 0;  // Retires the executor up to here; 0 for none.
    uint64_t seq = 0;
    uint64_t reply_seq = 0;  // The round trip that this answers; 0 for none.
    // The result of that reply if all went well so far.
    CudaResult reply_result = CudaResult::kSuccess;
    // Why the mark could not be made.
    CudaResult mark_result = CudaResult::kSuccess;
    // It only gives a buffer back: while no answer waits behind it, the driver is asked a little
    // later if it is not complete, since each question holds up those who launch kernels in the
    // same context.
    bool unhurried = false;
    // Task::data. This waits for them, and so does what comes after it.
    std::vector<Prerequisite> data;
    // Runs before the executor retires and the reply is sent. May be empty.
    std::function<void(CudaResult, std::string* batch)> action;
  };

  // Issues a task. kBlocked leaves it at the front to be tried again.
  virtual Step Issue(Task& task) RUNS_ON(on_executor_) = 0;
  // Whether issuing this task, whose prerequisites are there, takes the driver some microseconds
  // only.
  virtual bool IsQuick(const Task&) const { return false; }
  // Returns true if a part of this task, at the front, was issued.
  virtual bool HasBegun(const Task&) const RUNS_ON(on_executor_) { return false; }
  // Ends a task that is not issued. A round trip is answered with kCancelled, in its turn.
  virtual void Drop(const Task&) RUNS_ON(on_executor_) {}
  // Returns true if the stream's kernels can be stopped alone. StopKernels() tells them so, or that
  // they may go on, and returns false when they could not be told.
  virtual bool CanStopKernels() const RUNS_ON(on_executor_) { return false; }
  virtual bool StopKernels(bool /*stop*/) RUNS_ON(on_executor_) { return false; }
  // Returns true if the stream may wait on the device for another one's event.
  virtual bool IsHeld() RUNS_ON(on_executor_) { return false; }
  // Called when the executor's thread ends.
  virtual void Finish() RUNS_ON(on_executor_) {}

  dispatch::ExecutorTurns& turns() RUNS_ON(on_executor_) { return turns_; }
  // Adds a mark after everything issued so far. When that fails, `pending` completes in its turn
  // with the error that is returned.
  CudaResult Mark(device::StreamId stream, Pending pending) RUNS_ON(on_executor_);
  // Adds such a mark for everything issued so far. When it is complete it is reported as such, and
  // then `then` adds to the batch; with an error `batch` is null.
  void MarkIssued(std::function<void(std::string* batch)> then) RUNS_ON(on_executor_);
  void Retire(uint64_t ticket, uint64_t seq) RUNS_ON(on_executor_);
  // The command with this ticket launches a kernel that may print.
  void Prints(uint64_t ticket) RUNS_ON(on_executor_);
  void SendPrints(uint64_t ticket, uint64_t seq) RUNS_ON(on_executor_);

  LoopAffinity on_executor_;  // The thread whose turn it is.
  const ExecutorHost* const host_;
  device::Context* const context_;  // Of device().
  device::StreamId device_stream_ ABSL_GUARDED_BY(on_executor_){};
  bool has_stream_ ABSL_GUARDED_BY(on_executor_) = false;  // Marks need a stream.
  // The stream is destroyed once everything has retired.
  bool closing_ ABSL_GUARDED_BY(on_executor_) = false;
  // The latest ticket that launched a kernel which may print.
  uint64_t printed_ ABSL_GUARDED_BY(on_executor_) = 0;
  uint64_t printing_ ABSL_GUARDED_BY(on_executor_) = 0;  // How many of these are not retired
  uint64_t unmarked_ ABSL_GUARDED_BY(on_executor_) = 0;  // Tasks issued since the last mark.
  std::deque<Pending> pending_ ABSL_GUARDED_BY(on_executor_);
  std::string batch_ ABSL_GUARDED_BY(on_executor_);  // Replies not yet sent.

 private:
  // How the executor's thread goes on after a look at everything.
  enum class Next { kLookAgain, kWait, kEnd };

  bool TryTakeTurn() { return !turn_.exchange(true, std::memory_order_acquire); }
  void TakeTurn();
  void LeaveTurn() { turn_.store(false, std::memory_order_release); }
  bool AllQuick(const TaskQueue& tasks) const RUNS_ON(decoder_thread);

  void Run();
  Next Look() RUNS_ON(on_executor_);
  bool IssueReady() RUNS_ON(on_executor_);
  // Does what is next about the cancellation under way; returns whether that was anything.
  bool LookAfterCancel() RUNS_ON(on_executor_);
  // Lets kernels go on.
  void EndCancel() RUNS_ON(on_executor_);
  // Drops the task at the front. Those behind it come after all that it came after: they do not
  // name it again.
  void DropFront() RUNS_ON(on_executor_);
  // Adds what dropped tasks came after to what the task comes after.
  void TakeOver(Task* task) RUNS_ON(on_executor_);
  // Counts the task at the front as issued.
  void PopIssued() RUNS_ON(on_executor_);
  // Issues the task where its engine is free for it.
  Step IssueInTurn(Task& task) RUNS_ON(on_executor_);
  // Whether to report what is complete, in the middle of a row.
  bool ReportsNow() const RUNS_ON(on_executor_);
  bool Poll() RUNS_ON(on_executor_);
  bool PollEventWaits() RUNS_ON(on_executor_);
  void Deliver() RUNS_ON(on_executor_);
  void MarkTail() RUNS_ON(on_executor_);
  // How long the executor's thread may nap after so long without progress.
  absl::Duration NapAfter(std::chrono::nanoseconds waited) RUNS_ON(on_executor_);
  // Whether something was issued behind the last mark.
  bool HasTail() const RUNS_ON(on_executor_) {
    const uint64_t last = issued_.load(std::memory_order_relaxed);
    return last != last_marked_ && last != retired_;
  }
  // Returns whether the executor has anything to look after.
  bool UnderWay() const RUNS_ON(on_executor_) {
    return !ready_.empty() || !pending_.empty() || !event_waits_.empty() || HasTail() ||
           (cancel_.under_way() && host_->reports->fault() == CudaResult::kSuccess);
  }
  static bool Satisfied(const Task& task);
  void NoteProgress() {
    under_way_since_.store(absl::ToUnixNanos(SteadyNow()), std::memory_order_relaxed);
  }
  void Complete(const Pending& pending, CudaResult result) RUNS_ON(on_executor_);

  const Kind kind_;
  const uint64_t stream_;

  ExecutorInbox inbox_;
  alignas(64) std::atomic<bool> turn_{false};  // A thread has it.
  std::atomic<bool> adopted_{false};           // By the decoder's thread, which alone writes it.

  TaskQueue ready_ ABSL_GUARDED_BY(on_executor_);
  dispatch::ExecutorTurns turns_ ABSL_GUARDED_BY(on_executor_);
  std::vector<EventWait> event_waits_ ABSL_GUARDED_BY(on_executor_);
  std::vector<CancelRequest> cancels_ ABSL_GUARDED_BY(on_executor_);  // Not begun.
  StreamCancel cancel_ ABSL_GUARDED_BY(on_executor_);
  bool stops_kernels_ ABSL_GUARDED_BY(on_executor_) = false;
  // Has what dropped tasks came after; null while there is nothing of it.
  std::unique_ptr<Task> left_over_ ABSL_GUARDED_BY(on_executor_);
  std::chrono::steady_clock::time_point ask_after_ ABSL_GUARDED_BY(on_executor_);
  uint64_t last_issued_seq_ ABSL_GUARDED_BY(on_executor_) = 0;
  uint64_t last_marked_ ABSL_GUARDED_BY(on_executor_) = 0;
  uint64_t retired_ ABSL_GUARDED_BY(on_executor_) = 0;
  uint64_t retired_seq_ ABSL_GUARDED_BY(on_executor_) = 0;
  int64_t answers_ ABSL_GUARDED_BY(on_executor_) = 0;  // Answers in the batch to waiting callers.

  std::atomic<uint64_t> appended_{0};
  std::atomic<uint64_t> issued_{0};
  std::atomic<uint64_t> delivered_{0};
  std::atomic<int64_t> under_way_since_{0};  // Nanoseconds since 1970.
  std::atomic<uint64_t> delivered_seq_{0};
  std::atomic<bool> finished_{false};
  std::atomic<size_t> event_wait_count_{0};
  std::thread thread_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_EXECUTOR_H_
