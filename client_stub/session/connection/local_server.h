// Which sockets of this host the client takes for its server's.
//
// A welcome may say that the server is on the client's host, and where else it listens there. That
// proves nothing: the server had the host's boot id from the client's hello, and at the path or
// name may be somebody else. So the kernel is asked who listens. Taken for the server are this
// process's own user, root, and the user who listens at the address that this process was given, to
// whom it sends everything anyway. All of it holds only where that address is this host's. Who owns
// the folder of a socket says nothing, since the server chose the path.
//
//   const LocalServer server("127.0.0.1:14000");
//   const auto uid = ListenerOf(fd);
//   if (uid.ok() && server.Check("its socket for host memory", *uid).ok()) ...
#ifndef WARPLINE_CLIENT_STUB_SESSION_CONNECTION_LOCAL_SERVER_H_
#define WARPLINE_CLIENT_STUB_SESSION_CONNECTION_LOCAL_SERVER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace warpline::stub {

// Thread-safe.
class LocalServer {
 public:
  // `endpoint` is the address at which the session was opened: host:port or unix:/path.
  explicit LocalServer(std::string endpoint) : endpoint_(std::move(endpoint)) {}

  // Whether user `uid`, who listens at `where` (for the message), is the server. PERMISSION_DENIED,
  // in words for people, when it is not or that cannot be told: in a user namespace, users from
  // outside of it have one number for all. Asks the kernel, and may look up the endpoint's name.
  absl::Status Check(const std::string& where, uint32_t uid) const;

  // The same for who listens at a path: it must be absolute, and name a socket of that user's or of
  // root's.
  absl::Status CheckSocket(const std::string& path, uint32_t uid) const;

 private:
  const std::string endpoint_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_CONNECTION_LOCAL_SERVER_H_
