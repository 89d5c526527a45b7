// The worker's end of its control socket: serves what the server asks of the process and of its
// sessions (proto/worker.proto).
#ifndef WARPLINE_SERVER_WORKER_HOST_CONTROL_SOCKET_H_
#define WARPLINE_SERVER_WORKER_HOST_CONTROL_SOCKET_H_

#include "absl/status/status.h"
#include "server/worker/host/host_process.h"

namespace warpline::worker {

// Serves until the server closes the socket behind `fd` (borrowed) or sends something that is no
// request. Runs on the calling thread, which must live as long as the process. A request for a
// session that does not exist is answered with kIllegalState.
void ServeControlSocket(int fd, HostProcess* process);

// Logs why a session is over, and tells the server that it is: DEADLINE_EXCEEDED for kernels that
// do not end, otherwise for a protocol that was broken. Thread-safe.
void SendSessionEnded(int fd, uint64_t session, const absl::Status& why);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_CONTROL_SOCKET_H_
