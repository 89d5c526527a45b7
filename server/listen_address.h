// Which addresses a server without TLS may listen on.
#ifndef WARPLINE_SERVER_LISTEN_ADDRESS_H_
#define WARPLINE_SERVER_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace warpline {

// OK for "unix:/path" and for loopback: "localhost:PORT", "127.x.y.z:PORT", "[::1]:PORT".
// INVALID_ARGUMENT when `address` has no such form, PERMISSION_DENIED, saying what to do, when
// other hosts could reach it.
absl::Status CheckLocalAddress(const std::string& address);

// True for a peer on this host, as gRPC names peers ("ipv4:127.0.0.1:52044", "unix:...").
bool IsLocalPeer(const std::string& peer);

}  // namespace warpline

#endif  // WARPLINE_SERVER_LISTEN_ADDRESS_H_
