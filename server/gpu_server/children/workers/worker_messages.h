// What is said to a worker's process of a session, and what the process says of it.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_MESSAGES_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_MESSAGES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/worker.h"
#include "server/hostlink/handover/worker_rings.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// Hands a message of a session, with its descriptors, to `events`. True when the process may say
// more in this turn of the loop, false when others have their turn first. INVALID_ARGUMENT, with
// nothing handed on, for a message that is none of a session: its kind is not known, or is one that
// concerns the process or the session's life, which callers look for first.
absl::StatusOr<bool> HandOn(const warpline_internal::FromWorker& message, std::vector<UniqueFd> fds,
                            WorkerEvents* events) RUNS_ON(control_loop);

// The descriptors that come with OpenWorker, in its order; none without rings.
std::vector<int> OpeningFiles(const WorkerRings* rings, const SessionFiles& files);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_MESSAGES_H_
