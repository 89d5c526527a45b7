// Reads the memory of a session that has lost its worker, through a process that maps it and
// executes nothing.
#ifndef WARPLINE_SERVER_WORKERS_MEMORY_READER_H_
#define WARPLINE_SERVER_WORKERS_MEMORY_READER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "common/cuda/cuda_result.h"
#include "common/log/log_budget.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "server/workers/worker_process.h"

namespace warpline::server {

// What the reader needs of its session. Called on the control loop.
class MemoryReaderHost {
 public:
  virtual ~MemoryReaderHost() = default;
  // A worker opened as reader, with its events going to `events`.
  virtual std::shared_ptr<WorkerProcess> TakeReader(WorkerEvents* events) = 0;
  // Has it map all that the session holds.
  virtual void MapForReader(std::function<void(CudaResult)> done) = 0;
  virtual void OnReadAnswered(warpline_internal::ReadBackDone done, std::string data) = 0;
  virtual void OnMemoryDone(const warpline_internal::MemoryDone& done) = 0;
  virtual void OnReaderGone() = 0;
  // Whether the log has room for a line of the reader.
  virtual LogPermit AskForReaderLine() = 0;
};

// Runs on the control loop. gone() must be true at its end.
class MemoryReader : public WorkerEvents, public std::enable_shared_from_this<MemoryReader> {
 public:
  // `host` is borrowed.
  explicit MemoryReader(MemoryReaderHost* host) : host_(host) {}

  // Answered by OnReadAnswered(), in order. The range is backed. Nothing is mapped before
  // `former_gone`: the worker that was lost may still use the memory.
  void Read(warpline_internal::ReadBack request, bool former_gone);
  // The worker that was lost is gone.
  void OnFormerGone();
  void Stop();
  bool gone() const { return worker_ == nullptr || worker_gone_; }
  // For messages of the session's memory.
  WorkerProcess* worker() const { return worker_.get(); }

  // WorkerEvents.
  void OnWorkerPrepared(const warpline_internal::WorkerOpened& prepared) override;
  void OnWorkerOpened(const warpline_internal::WorkerOpened& opened) override;
  void OnMemoryDone(const warpline_internal::MemoryDone& done) override;
  void OnReadDone(const warpline_internal::MemoryDone& done) override;
  void OnWorkerDied(const std::string& why) override;
  void OnWorkerGone() override;

 private:
  void Start();
  void Next();
  void Fail(CudaResult error);
  void Answer(CudaResult error, std::string data);

  MemoryReaderHost* const host_;
  std::deque<warpline_internal::ReadBack> queue_;
  std::shared_ptr<WorkerProcess> worker_;
  UniqueFd file_;
  CudaResult failed_ = CudaResult::kSuccess;
  bool ready_ = false;
  bool busy_ = false;
  bool worker_gone_ = false;
  uint64_t read_id_ = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_WORKERS_MEMORY_READER_H_
