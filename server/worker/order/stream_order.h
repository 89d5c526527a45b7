// A session's streams with their executors, and the order in which commands of different executors
// reach the device.
//
// An executor keeps the order of its own stream. Between executors, CUDA does not ask for a total
// order. A device's legacy stream and its blocking streams come after each other. An event's wait
// comes after the record that was the latest, a launch after its module, and everything after a
// StreamBarrier. Which of these rules holds for a command depends on the column `after` of its row
// (proto/calls.toml) and on its stream; it becomes prerequisites of the task.
#ifndef WARPLINE_SERVER_WORKER_ORDER_STREAM_ORDER_H_
#define WARPLINE_SERVER_WORKER_ORDER_STREAM_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "proto/commands.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/executor.h"
#include "server/worker/executors/executor_host.h"
#include "server/worker/executors/task.h"
#include "server/worker/executors/task_engine.h"
#include "server/worker/order/completion.h"

namespace warpline::worker {

// Up to which ticket of a stream the tasks of some executor come after it already. An executor
// keeps its order, so what one of its tasks waits for, those after it need not name again: what
// waits is as much as what was appended, however many streams there are.
struct Named {
  uint64_t issued = 0;
  uint64_t complete = 0;
  uint64_t data = 0;
};

// A stream as the decoder knows it.
struct Stream {
  // Shared, because records of events and tasks of other executors keep it.
  std::shared_ptr<Executor> executor ABSL_GUARDED_BY(decoder_thread);
  // True when the stream comes after no StreamBarriers but those of streams that are like it.
  bool ignores_barriers ABSL_GUARDED_BY(decoder_thread) = false;
  // The number of the latest StreamBarrier that it comes after: first among streams that do not
  // ignore barriers, then among those that do.
  std::array<uint64_t, 2> barriers_seen ABSL_GUARDED_BY(decoder_thread){};
  // The latest ticket of work, which neither making nor destroying the stream is.
  uint64_t work_ticket ABSL_GUARDED_BY(decoder_thread) = 0;
  // The latest ticket that sends data to the client, or comes after data of another stream.
  uint64_t data_ticket ABSL_GUARDED_BY(decoder_thread) = 0;
  // How far the control executor and the legacy stream of its device come after this stream, and
  // how far it comes after that legacy stream.
  Named by_control ABSL_GUARDED_BY(decoder_thread);
  Named by_legacy ABSL_GUARDED_BY(decoder_thread);
  Named of_legacy ABSL_GUARDED_BY(decoder_thread);
};

// Completion::StopExecutors() stops the executors that it opened.
class StreamOrder {
 public:
  // Both are borrowed.
  StreamOrder(const ExecutorHost* host, Completion* completion);

  // Opens the control executor and the devices' legacy streams. Returns false when the system has
  // no threads.
  bool Start() RUNS_ON(decoder_thread);

  // Returns null when no stream has this handle.
  Stream* Find(uint64_t handle) RUNS_ON(decoder_thread);
  Stream* legacy(uint32_t device) RUNS_ON(decoder_thread) { return legacy_[device]; }
  // Returns null when the system has no thread for it. `handle` must be new.
  Stream* Open(Executor::Kind kind, uint64_t handle) RUNS_ON(decoder_thread);
  // Frees the handle; the stream's work keeps its place in the order.
  void Close(uint64_t handle) RUNS_ON(decoder_thread);
  // The number of streams with a handle.
  size_t handles() const RUNS_ON(decoder_thread) { return streams_.size(); }
  // The number of streams with a thread, after ending those that are closed and complete.
  size_t Threads() RUNS_ON(decoder_thread);
  // Whether a closed stream has no work left, so that its thread ends soon.
  bool AnyEndsSoon() const RUNS_ON(decoder_thread);

  // The ticket that the control executor's next task gets.
  uint64_t NextControlTicket() const RUNS_ON(decoder_thread) { return control_->appended() + 1; }

  // These give a task to its executor, after what its row of the table and its stream's kind ask
  // for.
  template <typename Command>
  void ToStream(Stream* stream, Task&& task) RUNS_ON(decoder_thread) {
    static_assert(InfoOf<Command>().executor == ExecutorKind::kStream);
    AddPrerequisites(InfoOf<Command>().after, stream, &task);
    Enqueue(stream, std::move(task));
  }
  // Gives its first task to a stream that was just opened. It comes after no work of other streams,
  // not even after barriers, because those are waits on the stream.
  template <typename Command>
  void ToNewStream(Stream* stream, Task task) RUNS_ON(decoder_thread) {
    static_assert(InfoOf<Command>().executor == ExecutorKind::kStream);
    AddPrerequisites(InfoOf<Command>().after, stream, &task);
    stream->executor->Append(std::move(task));
  }
  template <typename Command>
  void ToControl(Task&& task) RUNS_ON(decoder_thread) {
    static_assert(InfoOf<Command>().executor == ExecutorKind::kControl);
    AddPrerequisites(InfoOf<Command>().after, nullptr, &task);
    control_->Append(std::move(task));
  }
  // Returns false when there is no linker executor yet and the system has no thread for one.
  template <typename Command>
  [[nodiscard]] bool ToLinker(Task&& task) RUNS_ON(decoder_thread) {
    static_assert(InfoOf<Command>().executor == ExecutorKind::kLinker);
    if (!OpenLinker()) return false;
    linker_->Append(std::move(task));
    return true;
  }

  // Makes `task`, the control executor's next, come after the completion of all work of streams.
  // Sessions that share a device need that for code that goes: nothing may still use it, because
  // memory of another session can come in its place. Does nothing on other devices.
  void AfterAllIsComplete(Task* task) RUNS_ON(decoder_thread);

  // How many tasks streams were given for each engine, as executors ask for their turns, since this
  // was called last.
  EngineCounts TakeGiven() RUNS_ON(decoder_thread) { return std::exchange(given_, {}); }

  // Notes that what `stream` was given last sends data to the client.
  void SendsData(Stream* stream) RUNS_ON(decoder_thread) {
    stream->data_ticket = stream->executor->appended();
  }
  // Notes that `record`, which `stream` was given last, is a StreamBarrier.
  void AddBarrier(Stream* stream, std::shared_ptr<EventRecord> record) RUNS_ON(decoder_thread);

  // Hands everything to the executors' threads, but for an adopted executor (Executor::IssueHere):
  // the one for which alone there has been something several times in a row.
  void Flush() RUNS_ON(decoder_thread);
  // Looks after the adopted executor, if there is one; returns whether anything is under way there.
  bool LookAfterAdopted() RUNS_ON(decoder_thread) {
    return adopted_ != nullptr && adopted_->LookHere();
  }
  // No executor is adopted any more. Called before the decoder sleeps.
  void GiveBackAdopted() RUNS_ON(decoder_thread);
  // Hands everything to the executors' threads, and gives back an adopted executor.
  void FlushToThreads() RUNS_ON(decoder_thread);
  // Forgets closed streams that are complete.
  void ForgetFinished() RUNS_ON(decoder_thread);

 private:
  struct Barriers {
    std::shared_ptr<EventRecord> latest;
    uint64_t count = 0;
  };

  template <typename Command>
  static constexpr const CommandInfo& InfoOf() {
    return FindCommand(CommandTraits<Command>::kId);
  }
  bool OpenLinker() RUNS_ON(decoder_thread);
  // For how many executors there is something, and one of them.
  int CountAppended(const std::shared_ptr<Executor>** last) RUNS_ON(decoder_thread);
  template <typename Visit>
  void ForEachStream(Visit visit) RUNS_ON(decoder_thread);
  // `stream` is null for a task of the control executor.
  void AddPrerequisites(After after, Stream* stream, Task* task) RUNS_ON(decoder_thread);
  void AfterEvents(Stream* stream, Task* task) RUNS_ON(decoder_thread);
  void AfterObjects(Task* task) RUNS_ON(decoder_thread);
  // Makes `task`, the control executor's next, come after what streams have had appended.
  void AfterAllStreams(Task* task) RUNS_ON(decoder_thread);
  void Enqueue(Stream* stream, Task&& task) RUNS_ON(decoder_thread);
  // Makes `task`, the next of `stream`, come after all of `other`, as far as those before it, which
  // `named` knows of, do not already.
  static void AfterStream(Stream* stream, const Stream& other, Named* named, Task* task)
      RUNS_ON(decoder_thread);
  // Makes `task`, the next of `stream`, come after what `other` had appended up to `ticket`, as far
  // as there is data for the client.
  static void ComesAfterData(Stream* stream, const std::shared_ptr<Executor>& other,
                             uint64_t ticket, Task* task) RUNS_ON(decoder_thread);
  // Makes `task` come after the latest of these barriers, unless the stream already does.
  static void ComesAfterBarrier(Stream* stream, size_t kind, const Barriers& barriers, Task* task)
      RUNS_ON(decoder_thread);

  const ExecutorHost* const host_;
  Completion* const completion_;
  EngineCounts given_ ABSL_GUARDED_BY(decoder_thread){};
  absl::flat_hash_map<uint64_t, std::unique_ptr<Stream>> streams_ ABSL_GUARDED_BY(decoder_thread);
  // Closed streams whose work still has its place in the order.
  std::vector<std::unique_ptr<Stream>> leaving_ ABSL_GUARDED_BY(decoder_thread);
  std::vector<Stream*> legacy_ ABSL_GUARDED_BY(decoder_thread);  // By device.
  // The StreamBarriers of streams that come after all barriers, then those of streams that ignore
  // the former.
  std::array<Barriers, 2> barriers_ ABSL_GUARDED_BY(decoder_thread);
  std::shared_ptr<Executor> control_ ABSL_GUARDED_BY(decoder_thread);
  std::shared_ptr<Executor> linker_ ABSL_GUARDED_BY(decoder_thread);  // Opened with the first link.
  std::shared_ptr<Executor> adopted_ ABSL_GUARDED_BY(decoder_thread);  // Null for none.
  // The executor that was last the only one, and how often it was again since.
  Executor* alone_ ABSL_GUARDED_BY(decoder_thread) = nullptr;  // Only compared with another.
  int alone_times_ ABSL_GUARDED_BY(decoder_thread) = 0;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_ORDER_STREAM_ORDER_H_
