// Limits what a worker may do once it executes a tenant's commands.
#ifndef WARPLINE_SERVER_WORKER_HOST_SANDBOX_H_
#define WARPLINE_SERVER_WORKER_HOST_SANDBOX_H_

#include "absl/status/status.h"

namespace warpline::worker {

// From now on no thread of this process can start a process or a program, or look into another
// process: such system calls fail with EPERM. Threads can still be started. Call it once the device
// is open, because a driver may run a helper until then. INTERNAL when the kernel refuses.
absl::Status EnterSandbox();

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_SANDBOX_H_
