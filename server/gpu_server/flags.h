// The command line of warpline-server.
#ifndef WARPLINE_SERVER_GPU_SERVER_FLAGS_H_
#define WARPLINE_SERVER_GPU_SERVER_FLAGS_H_

#include "absl/status/statusor.h"
#include "server/gpu_server/server_options.h"

namespace warpline::server {

// What the flags say, after the command line has been parsed. Otherwise the first thing that is
// wrong with them, by the flag's name: INVALID_ARGUMENT; PERMISSION_DENIED for an address that
// other hosts could reach without TLS; NOT_FOUND for a credential's file that cannot be read.
// Nothing is started, opened or listened on.
absl::StatusOr<ServerOptions> ServerOptionsFromFlags();

// --check_config: look at the flags, and do nothing else.
bool OnlyChecksConfig();

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_FLAGS_H_
