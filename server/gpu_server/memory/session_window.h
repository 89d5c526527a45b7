// The host window of a guarded session (server/gpu_server/children/workers/host_window.h): the
// staging memory that its client asks for, which client, worker and device share as they share
// segments elsewhere (host_segments.h). The session takes it when it first asks, and has it until
// its end, through all of its workers.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_WINDOW_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_WINDOW_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "memory/quota.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/host_window.h"
#include "server/gpu_server/children/workers/worker_link.h"
#include "server/gpu_server/memory/host_segments.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// What happens to the worker is told as HostSegments is.
class SessionWindow {
 public:
  // Both are borrowed.
  SessionWindow(HostWindowSource* source, WorkerLink* worker) : source_(source), worker_(worker) {}

  // The window, of `bytes`, counts against `quota` from when it is asked for. Before that, once.
  void SetTenantQuota(std::shared_ptr<Quota> quota, uint64_t bytes) RUNS_ON(control_loop) {
    tenant_quota_ = std::move(quota);
    quota_bytes_ = bytes;
  }
  // Answers a request for staging memory once the worker has the window: with its file, whose size
  // is the window's, however much was asked for. kInvalidValue for a place that is none, or for
  // what cannot be asked of a window; kOutOfMemory, with a reason, where there is no window or no
  // quota left for it, and without one where the session has its window.
  void Request(const warpline_internal::HostMemoryRequest& request, HostSegments::Answer answer)
      RUNS_ON(control_loop);
  // Whether an answer of the worker's is due to it and not to the segments.
  bool Awaits(uint64_t id) const RUNS_ON(control_loop) { return due_ != 0 && due_ == id; }
  // OK, or why the session cannot go on with the worker.
  absl::Status OnDone(const warpline_internal::MemoryDone& done) RUNS_ON(control_loop);

  void Suspend() RUNS_ON(control_loop) { suspended_ = true; }
  void Abandon() RUNS_ON(control_loop) { AnswerWith(CudaResult::kLaunchFailed); }
  void MapAgain() RUNS_ON(control_loop);
  // Nothing is answered any more, and the memory goes back to the system.
  void End() RUNS_ON(control_loop);

  uint64_t bytes() const RUNS_ON(control_loop) { return window_.has_value() ? window_->bytes : 0; }

 private:
  void SendShow(bool with_file) RUNS_ON(control_loop);
  // Whoever waits gets this answer, and nothing is sent any more.
  void AnswerWith(CudaResult result) RUNS_ON(control_loop);
  void Empty() RUNS_ON(control_loop);

  HostWindowSource* const source_;
  WorkerLink* const worker_;
  std::shared_ptr<Quota> tenant_quota_ ABSL_GUARDED_BY(control_loop);  // Null for no bound.
  uint64_t quota_bytes_ ABSL_GUARDED_BY(control_loop) = 0;
  Reservation charge_ ABSL_GUARDED_BY(control_loop);
  bool suspended_ ABSL_GUARDED_BY(control_loop) = false;
  std::optional<HostWindow> window_ ABSL_GUARDED_BY(control_loop);
  uint64_t va_ ABSL_GUARDED_BY(control_loop) = 0;  // By which commands name it.
  // The message to the worker whose answer is due; 0 for none.
  uint64_t due_ ABSL_GUARDED_BY(control_loop) = 0;
  uint64_t last_id_ ABSL_GUARDED_BY(control_loop) = 0;
  HostSegments::Answer answer_ ABSL_GUARDED_BY(control_loop);  // Null when nobody waits.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_WINDOW_H_
