// Keeps an MPS daemon in a jail for as long as the server wants it.
//
// Two processes do this. The first one is what the supervisor has started, and may kill; it waits
// for the second, and that is all. The second one closes a jail around itself, starts the daemon in
// it and ends it, with all that it has started, when the server closes its socket or the first
// process is gone, however that ended. So nothing is left behind when the server, the supervisor or
// the first process is killed.
#ifndef WARPLINE_SERVER_MPS_KEEP_H_
#define WARPLINE_SERVER_MPS_KEEP_H_

#include "absl/status/status.h"

namespace warpline::mps {

// Receives the server's orders on `socket` and returns when the daemon is gone: OK where the server
// wanted that, otherwise why. The calling process has one thread. In the second process it returns,
// too, for which nothing is left to do then but to end.
absl::Status Keep(int socket);

}  // namespace warpline::mps

#endif  // WARPLINE_SERVER_MPS_KEEP_H_
