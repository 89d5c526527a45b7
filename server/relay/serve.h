// A relay: the process in which the server's end of a session's own connections lives: over UCX, or
// over TCP with TLS.
//
// UCX and OpenSSL parse what strangers send, and UCX is not made for hostile peers. So they live
// here: in a jail, without a device and without the server's private key. A relay has one
// connection to the server, and passes frames on as any client could send them. An attacker that
// takes a relay over has what its session's client has, and the port that it listens at.
#ifndef WARPLINE_SERVER_RELAY_SERVE_H_
#define WARPLINE_SERVER_RELAY_SERVE_H_

#include "absl/status/status.h"

namespace warpline::relay {

// Does what the server asks for at the other end of `socket` (proto/relay.proto), and returns when
// either end of the connection has gone. Called while the process has one thread.
absl::Status Serve(int socket);

}  // namespace warpline::relay

#endif  // WARPLINE_SERVER_RELAY_SERVE_H_
