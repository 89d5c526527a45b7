// Finds the other addresses of a server on this host: before the session is opened, its name for
// shared memory at a loopback address; afterwards what the server names, such a name, or, for a
// session that came over the loopback interface, its unix socket.
#ifndef WARPLINE_CLIENT_STUB_SESSION_OPENING_OTHER_ADDRESS_H_
#define WARPLINE_CLIENT_STUB_SESSION_OPENING_OTHER_ADDRESS_H_

#include <optional>
#include <string>

#include "client_stub/session/connection/dialer.h"
#include "client_stub/session/handshake/handshake.h"

namespace warpline::stub {

// Returns the address at which to open a session that would be opened at `endpoint`, without TLS;
// none where nobody listens there who may be the server.
std::optional<DialTarget> DirectAddress(const std::string& endpoint);

// Returns the address to which a session that was opened at `endpoint` should move; none where it
// should stay. Connects to see whether the server that named the address is there.
std::optional<DialTarget> OtherAddress(const Welcomed& welcomed, const std::string& endpoint);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_OPENING_OTHER_ADDRESS_H_
