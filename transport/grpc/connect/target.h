// Turns a dialled address into addresses that gRPC need not look up. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_CONNECT_TARGET_H_
#define WARPLINE_TRANSPORT_GRPC_CONNECT_TARGET_H_

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline::grpc_internal {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
};

struct ResolvedTarget {
  // gRPC target URIs, to be tried in this order: "ipv4:127.0.0.1:80", "unix:/path".
  std::vector<std::string> uris;
  // The same for connect(2).
  std::vector<SocketAddress> addresses;
  // The host as the caller wrote it, for certificates; empty for unix sockets.
  std::string host;
  // What HTTP/2 calls the authority.
  std::string authority;
  // Every address is this machine's: a proxy has no business in between.
  bool local = false;
};

// Accepts "host:port", "[ipv6]:port" and "unix:/path". INVALID_ARGUMENT for other forms,
// UNAVAILABLE when the name is unknown. Blocks in getaddrinfo.
absl::StatusOr<ResolvedTarget> ResolveTarget(absl::string_view address);

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_CONNECT_TARGET_H_
