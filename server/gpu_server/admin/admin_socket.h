// Where the server listens for its operator: a unix socket that its own user and root may connect.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SOCKET_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SOCKET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpline::server {

// What --admin_socket takes: "auto", "none", or an absolute path.
absl::Status CheckAdminSocket(const std::string& chosen);

// The socket's path; empty for "none". "auto" is admin.sock in $RUNTIME_DIRECTORY, which a service
// has for itself; otherwise admin-NAME.sock in the first of $XDG_RUNTIME_DIR/warpline, for root
// /run/warpline, and /tmp/warpline-UID that can be written to. `name` keeps apart the servers of
// one user. A folder is made; PERMISSION_DENIED when it is somebody else's or others may write to
// it, since they could then put a socket of theirs in place of this one.
absl::StatusOr<std::string> AdminSocketPath(const std::string& chosen, const std::string& name);

// Makes `folder` for this user alone where it is missing. Errors as above.
absl::Status MakeOwnFolder(const std::string& folder);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SOCKET_H_
