// The way to a session's worker, whichever process that is at the moment.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_LINK_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_LINK_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/worker.pb.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  // Sends a message with descriptors (borrowed). The answer, if there is one, goes to the part that
  // it concerns. A worker that dies may never answer; then the next worker is asked again, or the
  // session ends. UNAVAILABLE when there is no worker and none is to come; otherwise the errors of
  // SendPacket().
  virtual absl::Status Send(const warpline_internal::ToWorker& message, absl::Span<const int> fds)
      RUNS_ON(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_LINK_H_
