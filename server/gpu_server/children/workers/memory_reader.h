// Reads the memory of a session that has lost its worker, through a process that maps the memory
// and executes nothing.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_MEMORY_READER_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_MEMORY_READER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/log/log_budget.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/recovery.h"
#include "server/gpu_server/children/workers/worker.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// What the reader needs from its session.
class MemoryReaderHost {
 public:
  virtual ~MemoryReaderHost() = default;
  // Returns a worker that was opened as a reader and sends its events to `events`.
  virtual std::shared_ptr<Worker> TakeReader(WorkerEvents* events) RUNS_ON(control_loop) = 0;
  // Makes the reader's worker map everything that the session holds.
  virtual void MapForReader(std::function<void(CudaResult)> done) RUNS_ON(control_loop) = 0;
  virtual void OnReadAnswered(warpline_internal::ReadBackDone done, std::string data)
      RUNS_ON(control_loop) = 0;
  virtual void OnMemoryDone(const warpline_internal::MemoryDone& done) RUNS_ON(control_loop) = 0;
  virtual void OnReaderGone() RUNS_ON(control_loop) = 0;
  // Asks whether the log has room for a line of the reader.
  virtual LogPermit AskForReaderLine() RUNS_ON(control_loop) = 0;
};

// gone() must be true when it is destroyed.
class MemoryReader : public WorkerEvents, public std::enable_shared_from_this<MemoryReader> {
 public:
  // `host` is borrowed. Starting a worker delays those sessions that go on with another one after
  // `recovery`, so it waits until that is over, or a little (Recovery::WhenOver).
  MemoryReader(MemoryReaderHost* host, std::weak_ptr<Recovery> recovery)
      : host_(host), recovery_(std::move(recovery)) {}

  // Reads a range, which must be backed. OnReadAnswered() gives the answers in order. Nothing is
  // mapped before `former_gone`, because the worker that was lost may still use the memory.
  void Read(warpline_internal::ReadBack request, bool former_gone) RUNS_ON(control_loop);
  // Tells the reader that the worker that was lost is gone.
  void OnFormerGone() RUNS_ON(control_loop);
  void Stop() RUNS_ON(control_loop);
  bool gone() const RUNS_ON(control_loop) { return worker_ == nullptr || worker_gone_; }
  // The worker to which messages about the session's memory go.
  Worker* worker() const RUNS_ON(control_loop) { return worker_.get(); }

  // Implements WorkerEvents.
  void OnWorkerPrepared(const warpline_internal::WorkerOpened& prepared) override
      RUNS_ON(control_loop);
  void OnWorkerOpened(const warpline_internal::WorkerOpened& opened) override RUNS_ON(control_loop);
  void OnMemoryDone(const warpline_internal::MemoryDone& done) override RUNS_ON(control_loop);
  void OnReadDone(const warpline_internal::MemoryDone& done) override RUNS_ON(control_loop);
  void OnWorkerDied(const std::string& why) override RUNS_ON(control_loop);
  void OnWorkerGone() override RUNS_ON(control_loop);

 private:
  void Start() RUNS_ON(control_loop);
  void Next() RUNS_ON(control_loop);
  void Fail(CudaResult error) RUNS_ON(control_loop);
  void Answer(CudaResult error, std::string data) RUNS_ON(control_loop);

  MemoryReaderHost* const host_;
  std::weak_ptr<Recovery> recovery_ ABSL_GUARDED_BY(control_loop);
  std::deque<warpline_internal::ReadBack> queue_ ABSL_GUARDED_BY(control_loop);
  std::shared_ptr<Worker> worker_ ABSL_GUARDED_BY(control_loop);
  UniqueFd file_ ABSL_GUARDED_BY(control_loop);
  CudaResult failed_ ABSL_GUARDED_BY(control_loop) = CudaResult::kSuccess;
  bool waits_ ABSL_GUARDED_BY(control_loop) = false;  // For the recovery of others.
  bool ready_ ABSL_GUARDED_BY(control_loop) = false;
  bool busy_ ABSL_GUARDED_BY(control_loop) = false;
  bool worker_gone_ ABSL_GUARDED_BY(control_loop) = false;
  uint64_t read_id_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_MEMORY_READER_H_
