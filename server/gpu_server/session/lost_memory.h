// What is left of a session that has lost its worker, for its client to read.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_LOST_MEMORY_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_LOST_MEMORY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "proto/session.pb.h"
#include "server/gpu_server/children/workers/memory_reader.h"
#include "server/gpu_server/children/workers/recovery.h"
#include "server/gpu_server/session/session_client.h"
#include "server/gpu_server/session/session_holdings.h"
#include "server/gpu_server/session/session_lines.h"
#include "server/gpu_server/session/session_worker.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// gone() is true at its end.
class LostMemory : private MemoryReaderHost {
 public:
  // The parts of its session that it uses. The functions are called on the control loop.
  struct Parts {
    SessionWorker* worker = nullptr;
    SessionHoldings* holdings = nullptr;
    SessionClient* client = nullptr;
    SessionLines* lines = nullptr;
    // Those of Paging::Parts.
    std::function<void(std::function<void()>)> await_room;
    std::function<void()> stop_waiting;
    // The reader is gone.
    std::function<void()> gone;
  };

  explicit LostMemory(Parts parts) : parts_(std::move(parts)) {}

  // The session could not go on after `recovery`, which others may still be in: nothing is started
  // that would delay them.
  void GiveWay(std::weak_ptr<Recovery> recovery) RUNS_ON(control_loop) {
    recovery_ = std::move(recovery);
  }
  // Answered to the client, in order. The session has failed.
  void Read(const warpline_internal::ReadBack& request) RUNS_ON(control_loop);
  // The worker that was lost is gone.
  void OnFormerGone() RUNS_ON(control_loop);
  void Stop() RUNS_ON(control_loop);
  bool gone() const RUNS_ON(control_loop) { return reader_ == nullptr || reader_->gone(); }

 private:
  // MemoryReaderHost.
  std::shared_ptr<Worker> TakeReader(WorkerEvents* events) override RUNS_ON(control_loop);
  void MapForReader(std::function<void(CudaResult)> done) override RUNS_ON(control_loop);
  void OnReadAnswered(warpline_internal::ReadBackDone done, std::string data) override
      RUNS_ON(control_loop);
  void OnMemoryDone(const warpline_internal::MemoryDone& done) override RUNS_ON(control_loop);
  void OnReaderGone() override RUNS_ON(control_loop) { parts_.gone(); }
  LogPermit AskForReaderLine() override RUNS_ON(control_loop) {
    return parts_.lines->Ask(kReaderLine);
  }

  const Parts parts_;
  std::weak_ptr<Recovery> recovery_ ABSL_GUARDED_BY(control_loop);
  std::shared_ptr<MemoryReader> reader_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_LOST_MEMORY_H_
