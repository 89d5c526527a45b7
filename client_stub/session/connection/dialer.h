// How a session gets a channel to a server.
#ifndef WARPLINE_CLIENT_STUB_SESSION_CONNECTION_DIALER_H_
#define WARPLINE_CLIENT_STUB_SESSION_CONNECTION_DIALER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/channel.h"

namespace warpline::stub {

// An address. For the path of a unix socket that a server named, also the user that must listen
// there.
struct DialTarget {
  std::string endpoint;
  std::optional<uint32_t> listener_uid = std::nullopt;
  // The secret that the listener wants to see first, and the ways that the transport takes; see
  // transport/transport.h.
  std::string secret = {};
  std::string via = {};
  // It is good for one connection, and not to be dialled again.
  bool once = false;
  // Returns the address at which the other end answers, empty for none. Where it is set, a session
  // calls it before it leaves the connection that it has. Blocks, until given_up() at most.
  std::function<std::string(const std::function<bool()>& given_up)> find = nullptr;
};

// Opens a channel to the server at an address and returns it, or the reason why not, within the
// deadline. Blocks. Called for as long as the session lives, by several threads where it has bulk
// connections.
using Dialer = std::function<absl::StatusOr<std::unique_ptr<Channel>>(
    const DialTarget& target, ChannelHandler* handler, absl::Duration deadline)>;

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_CONNECTION_DIALER_H_
