// Reads the memory of a session that has lost its worker, through a process that maps the memory
// and executes nothing.
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

// What the reader needs from its session. Called on the control loop.
class MemoryReaderHost {
 public:
  virtual ~MemoryReaderHost() = default;
  // Returns a worker that was opened as a reader and sends its events to `events`.
  virtual std::shared_ptr<WorkerProcess> TakeReader(WorkerEvents* events) = 0;
  // Makes the reader's worker map everything that the session holds.
  virtual void MapForReader(std::function<void(CudaResult)> done) = 0;
  virtual void OnReadAnswered(warpline_internal::ReadBackDone done, std::string data) = 0;
  virtual void OnMemoryDone(const warpline_internal::MemoryDone& done) = 0;
  virtual void OnReaderGone() = 0;
  // Asks whether the log has room for a line of the reader.
  virtual LogPermit AskForReaderLine() = 0;
};

// Runs on the control loop. gone() must be true when it is destroyed.
class MemoryReader : public WorkerEvents, public std::enable_shared_from_this<MemoryReader> {
 public:
  // `host` is borrowed.
  explicit MemoryReader(MemoryReaderHost* host) : host_(host) {}

  // Reads a range, which must be backed. OnReadAnswered() gives the answers in order. Nothing is
  // mapped before `former_gone`, because the worker that was lost may still use the memory.
  void Read(warpline_internal::ReadBack request, bool former_gone);
  // Tells the reader that the worker that was lost is gone.
  void OnFormerGone();
  void Stop();
  bool gone() const { return worker_ == nullptr || worker_gone_; }
  // The worker to which messages about the session's memory go.
  WorkerProcess* worker() const { return worker_.get(); }

  // Implements WorkerEvents.
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
