// The executor of a stream: launches, copies, memsets, records and waits.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_STREAM_EXECUTOR_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_STREAM_EXECUTOR_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/loop/loop_affinity.h"
#include "server/worker/executors/executor.h"
#include "server/worker/executors/library_calls.h"

namespace warpline::worker {

class StreamExecutor : public Executor {
 public:
  StreamExecutor(const ExecutorHost* host, Kind kind, uint64_t stream)
      : Executor(host, kind, stream) {}
  ~StreamExecutor() override { Stop(); }

 protected:
  Step Issue(Task& task) RUNS_ON(on_executor_) override;
  bool IsQuick(const Task& task) const override;
  bool HasBegun(const Task& task) const RUNS_ON(on_executor_) override;
  void Drop(const Task& task) RUNS_ON(on_executor_) override;
  bool CanStopKernels() const RUNS_ON(on_executor_) override { return stop_number_ != 0; }
  bool StopKernels(bool stop) RUNS_ON(on_executor_) override;
  bool IsHeld() RUNS_ON(on_executor_) override;
  void Finish() RUNS_ON(on_executor_) override;

 private:
  // Declares a function for each command of this executor in the table.
#define WARPLINE_DO(Command) Step Do(const cmd::Command& command, Task& task) RUNS_ON(on_executor_);
  WARPLINE_EXECUTOR_STREAM(WARPLINE_DO)
#undef WARPLINE_DO
  // The decoder sends other commands elsewhere.
  template <typename Command>
  Step Do(const Command&, Task&) {
    static_assert(FindCommand(CommandTraits<Command>::kId).executor != ExecutorKind::kStream);
    return Step::kDone;
  }

  void Check(const Task& task, CudaResult result) RUNS_ON(on_executor_);
  // Launches the task's kernel, with `params` as its parameter buffer.
  void Launch(const Task& task, const device::LaunchConfig& config, std::string_view params)
      RUNS_ON(on_executor_);
  // Makes the stream wait for a record of another executor.
  void WaitFor(const Task& task, std::shared_ptr<worker::EventRecord> record) RUNS_ON(on_executor_);
  Step RecordMark(Task& task) RUNS_ON(on_executor_);
  // Makes a stream of a device, in a partition unless that is null; it counts for the session.
  CudaResult MakeStream(uint32_t device, uint32_t flags, const Partition* partition,
                        device::StreamId* stream) RUNS_ON(on_executor_);
  // Ends one.
  void EndStream(uint32_t device, device::StreamId stream) RUNS_ON(on_executor_);
  bool OpenStream() RUNS_ON(on_executor_);
  // Sets the stream's priority, which may be any number.
  void SetPriority(int32_t priority) RUNS_ON(on_executor_);
  // Brings the tail to the device: copy(buffer) issues the copy from a staging buffer.
  template <typename Copy>
  Step CopyIn(Task& task, Copy copy) RUNS_ON(on_executor_);
  // Sends `total` bytes back: copy(buffer, offset, &bytes) issues the piece at `offset`, which is
  // at most kStagingBytes long, and sets its length.
  template <typename Copy>
  Step CopyOut(Task& task, uint64_t total, Copy copy) RUNS_ON(on_executor_);
  // These do the same for code in other files.
  Step CopyInBy(Task& task, const std::function<CudaResult(void*)>& copy) RUNS_ON(on_executor_);
  Step CopyOutBy(Task& task, uint64_t total,
                 const std::function<CudaResult(void*, uint64_t, size_t*)>& copy)
      RUNS_ON(on_executor_);
  // Takes stop_number_ when the stream's first kernel is launched.
  void TakeStopNumber() RUNS_ON(on_executor_);
  // Answers with an error after what is under way.
  void AnswerInOrder(const Task& task, CudaResult result) RUNS_ON(on_executor_);
  // For launches over several devices: gives a stream of `device` that comes after everything that
  // was issued since `issuing_to_` was set. Work that is issued there from now on
  // counts as this executor's once the executor has gone back to its own device.
  CudaResult GoTo(uint32_t device, device::Context** context, device::StreamId* stream)
      RUNS_ON(on_executor_);
  CudaResult GoTo(uint32_t device) RUNS_ON(on_executor_);
  CudaResult StreamOn(uint32_t device, device::StreamId* stream) RUNS_ON(on_executor_);
  // Take and give the buffers of StagingPool.
  void* TakeStaging(CudaResult* result) RUNS_ON(on_executor_);
  void GiveStaging(void* buffer) RUNS_ON(on_executor_);

  CudaResult open_result_ ABSL_GUARDED_BY(on_executor_) = CudaResult::kNotReady;
  uint32_t flags_ ABSL_GUARDED_BY(on_executor_) = 0;
  std::shared_ptr<Partition> partition_ ABSL_GUARDED_BY(on_executor_);  // Null for none.
  int priority_ ABSL_GUARDED_BY(on_executor_) = 0;
  // Bytes of the CopyFromDevice or CopyBoxFromDevice at the front.
  uint64_t copied_ ABSL_GUARDED_BY(on_executor_) = 0;
  size_t staged_ ABSL_GUARDED_BY(on_executor_) = 0;  // Staging buffers that this executor holds.
  uint32_t issuing_to_ ABSL_GUARDED_BY(on_executor_) = 0;
  // The number by which the stream's kernels are stopped (device::KernelStops), once it has any; 0
  // for none.
  uint32_t stop_number_ ABSL_GUARDED_BY(on_executor_) = 0;
  // Records of other streams for which the stream was told to wait.
  std::vector<std::shared_ptr<worker::EventRecord>> held_by_ ABSL_GUARDED_BY(on_executor_);
  bool asked_for_number_ ABSL_GUARDED_BY(on_executor_) = false;
  // The parameters of the last launch with an added one, kept for their memory.
  std::string with_added_ ABSL_GUARDED_BY(on_executor_);
  std::optional<LibraryCallIssue> library_call_ ABSL_GUARDED_BY(on_executor_);
  // The operations of libraries' calls that the stream has and that are not known to be complete.
  uint64_t library_launches_ ABSL_GUARDED_BY(on_executor_) = 0;
  std::map<uint32_t, device::StreamId> side_streams_
      ABSL_GUARDED_BY(on_executor_);  // By device, made when first needed.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_STREAM_EXECUTOR_H_
