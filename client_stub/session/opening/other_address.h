// The other address of a server on this host, for a session that came by the loopback interface.
#ifndef WARPLINE_CLIENT_STUB_SESSION_OPENING_OTHER_ADDRESS_H_
#define WARPLINE_CLIENT_STUB_SESSION_OPENING_OTHER_ADDRESS_H_

#include <optional>
#include <string>

#include "client_stub/session/connection/dialer.h"
#include "client_stub/session/handshake/handshake.h"

namespace warpline::stub {

// Where a session that was opened at `endpoint` had better go on; none where it stays. Connects to
// see whether the server that said so is there.
std::optional<DialTarget> OtherAddress(const Welcomed& welcomed, const std::string& endpoint);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_OPENING_OTHER_ADDRESS_H_
