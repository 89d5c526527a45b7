// The resources of a server that its sessions divide: each takes a part while it lives.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_RESOURCES_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_RESOURCES_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "memory/quota.h"
#include "server/gpu_server/memory/share_book.h"
#include "server/gpu_server/session/task_shares.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// Outlives the sessions.
struct SessionResources {
  // Host memory that sessions share with their clients, all together.
  const std::shared_ptr<Quota> host_memory;
  TaskShares tasks ABSL_GUARDED_BY(control_loop);
  // Memory and events that sessions offer to others.
  ShareBook offers ABSL_GUARDED_BY(control_loop) = {};
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_RESOURCES_H_
