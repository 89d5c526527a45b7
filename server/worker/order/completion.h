// Knows what of a session is complete and what waits for it, and tells the client.
//
// Executors finish apart from each other, but the numbers of commands are one order: all_seq is the
// command up to which everything of the session is complete.
#ifndef WARPLINE_SERVER_WORKER_ORDER_COMPLETION_H_
#define WARPLINE_SERVER_WORKER_ORDER_COMPLETION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"
#include "common/progress.h"
#include "server/hostlink/handover/session_usage.h"
#include "server/worker/continuity/recorder.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/executor.h"
#include "server/worker/executors/executor_host.h"

namespace warpline::worker {

// Thread-safe, except for what runs on the decoder's thread.
class Completion : public ExecutorReports {
 public:
  // All are borrowed; `recorder` may be null. `log` has the kinds of session_log.h. `progress`
  // hears of commands and waits that are complete, and of executors that are finished.
  struct Parts {
    ReplySink* sink = nullptr;
    Progress* progress = nullptr;
    PrintRelay* prints = nullptr;
    SharedUsage* usage = nullptr;
    Recorder* recorder = nullptr;
    LogBudget* log = nullptr;
    // Called with a sticky error, before anybody hears of it, on any thread. May be empty.
    std::function<void()> on_fault;
  };
  explicit Completion(Parts parts) : parts_(std::move(parts)) {}

  // Adds an executor to those that count.
  void AddExecutor(std::shared_ptr<Executor> executor) RUNS_ON(decoder_thread);
  // Takes out the executors whose stream is destroyed and complete.
  std::vector<std::shared_ptr<Executor>> TakeFinishedExecutors() RUNS_ON(decoder_thread);
  // Ends the threads of all executors, and forgets the executors and all waits. Nothing is decoded
  // afterwards.
  void StopExecutors() RUNS_ON(decoder_thread);

  // Says that everything up to `seq` has been decoded and given to its executors, and that
  // `retired` commands of it were complete at once. The decoder calls the two in this order, and
  // between them the executors get their tasks, so that the last report says that all is done.
  void SetDecoded(uint64_t seq) RUNS_ON(decoder_thread);
  void AfterDecoded(uint64_t retired) RUNS_ON(decoder_thread);
  // Says that everything up to `seq` was complete in a former worker.
  void ResumeAfter(uint64_t seq) RUNS_ON(decoder_thread);

  // Runs `done` once everything that was given to all executors, or to the streams of a device, so
  // far is complete.
  void WhenAllRetired(std::function<void()> done) RUNS_ON(decoder_thread);
  void WhenDeviceRetired(uint32_t device, std::function<void()> done) RUNS_ON(decoder_thread);

  uint64_t retired_count() const { return retired_count_.load(); }
  int waiting() const { return watch_count_.load(); }
  // Returns whether everything that the executors were given is complete and answered.
  bool Idle();
  // Returns the earliest time since which an executor has had work on the device without any of it
  // becoming complete; InfiniteFuture() without such work. Any thread may call it.
  absl::Time StalledSince();

  // Implements ExecutorReports.
  CudaResult fault() const override { return fault_.load(std::memory_order_acquire); }
  void Fail(uint64_t seq, CommandId id, CudaResult result) override {
    FailBecause(seq, id, result, {});
  }
  // The same with a reason in words for the client.
  void FailBecause(uint64_t seq, CommandId id, CudaResult result, std::string_view why);
  // With an error that no command has caused. The client is told before anything becomes complete
  // because of it, which waits where the client does not read.
  void FailUnasked(CudaResult result, std::string_view why);
  void OnRetired(Executor* executor, uint64_t count, std::string* batch) override;
  void AfterRetired() override;
  void OnFinished() override { parts_.progress->Notify(); }

 private:
  // Runs `done` once every executor has delivered the ticket noted beside it.
  struct Watch {
    std::vector<std::pair<std::shared_ptr<Executor>, uint64_t>> executors;
    std::function<void()> done;
  };

  void WhenRetired(const std::function<bool(const Executor&)>& wanted, std::function<void()> done)
      RUNS_ON(decoder_thread);
  // Everything fails from now on. Returns false if it did already.
  bool SetFault(CudaResult result);
  void TellFault(uint64_t seq, CommandId id, CudaResult result, std::string_view why);
  void RunWatches();
  // Returns the command up to which everything is complete and its replies are sent, or are about
  // to be sent in the batch of `reporter`.
  uint64_t AllSeq(const Executor* reporter);
  // Returns false when as much has been reported already.
  bool RaiseReported(uint64_t all);
  // Says in the journal that nothing is in flight, if `all`, the last AllSeq(), means that.
  void PublishIfIdle(uint64_t all);

  const Parts parts_;
  std::atomic<CudaResult> fault_{CudaResult::kSuccess};
  std::atomic<uint64_t> decoded_seq_{0};
  std::atomic<uint64_t> retired_count_{0};
  std::atomic<uint64_t> reported_seq_{0};  // The largest all_seq reported, or about to be.
  std::atomic<int> watch_count_{0};

  // Acquired before the locks of executors and of the sink.
  Mutex mu_;
  std::vector<std::shared_ptr<Executor>> executors_ ABSL_GUARDED_BY(mu_);
  std::vector<Watch> watches_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_ORDER_COMPLETION_H_
