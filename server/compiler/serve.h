// The life of a compiler's process, from the server's first word on.
#ifndef WARPLINE_SERVER_COMPILER_SERVE_H_
#define WARPLINE_SERVER_COMPILER_SERVE_H_

#include "absl/status/status.h"

namespace warpline::compiler {

// Speaks proto/compiler.proto on `socket` (borrowed): loads the compiler's library, closes the
// jail, and serves workers until the server closes its end. An error, which the server has been
// told, where the process is of no use. In a process with one thread.
absl::Status Serve(int socket);

}  // namespace warpline::compiler

#endif  // WARPLINE_SERVER_COMPILER_SERVE_H_
