// What a transport is made of: a way to dial servers (its client's end), a way to listen for
// clients (its server's end), and a word that says what else it can do. The ends are registered in
// transport/registry, by which client and server find them; they are apart so that a client does
// not link what serves.
#ifndef WARPLINE_TRANSPORT_TRANSPORT_H_
#define WARPLINE_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/enum_set.h"
#include "common/serving/tls_files.h"
#include "transport/channel.h"
#include "transport/listener.h"

namespace warpline {

// What a transport may do besides carrying frames. Whoever needs one of these asks first, and
// refuses where it is missing.
enum class TransportCapability : uint32_t {
  kTls = 1u << 0,          // Encrypts, and both ends present certificates.
  kMethods = 1u << 1,      // Its listeners answer ListenerOptions::methods and of their health.
  kListenerUid = 1u << 2,  // Can insist on the user who listens: DialTarget::listener_uid.
  kSecret = 1u << 3,       // Takes whoever shows a secret: DialTarget::secret.
};

using TransportCapabilities = EnumSet<TransportCapability>;

struct Transport {
  // Addresses "SCHEME://..." are this transport's. Those of one transport, whose scheme is empty,
  // are all that have nobody else's.
  std::string_view scheme;
  TransportCapabilities can;
};

// Which server to dial.
struct DialTarget {
  std::string address;
  // Where TLS takes its keys and certificates from; plain text where it does not apply to the
  // address (WantsTls()).
  TlsFiles tls = {};
  // The user that whoever listens there must be, for what nobody else may pose as.
  std::optional<uint32_t> listener_uid = std::nullopt;
  // What the listener wants to see first, where it takes one client alone.
  std::string secret = {};
  // Which ways the transport takes, in its own words, where there are several: see
  // transport/ucx/ucx_transports.h. Empty for those that it always has.
  std::string via = {};
};

// The client's end of a transport.
struct ClientEnd {
  Transport transport;
  // Connects, opens a session and waits until the server's acceptor has taken it. Blocks.
  // INVALID_ARGUMENT for an address that is none; UNAVAILABLE when no server answered within
  // `deadline`; UNAUTHENTICATED, with what to do, when TLS is the reason; PERMISSION_DENIED for
  // another listener than the target's. A refusal by the acceptor comes back as its own status,
  // typed reason (proto/refusal.h) included. The handler is borrowed and must outlive the channel.
  absl::StatusOr<std::unique_ptr<Channel>> (*dial)(const DialTarget& target,
                                                   ChannelHandler* handler,
                                                   const ChannelOptions& options,
                                                   absl::Duration deadline);
};

// The server's end of a transport.
struct ServerEnd {
  Transport transport;
  // Whether Listener::Start() may get this address: INVALID_ARGUMENT when it has no form of this
  // transport's; PERMISSION_DENIED, saying what to do, when other hosts could reach it without TLS.
  absl::Status (*check)(const std::string& address, bool tls);
  std::unique_ptr<Listener> (*make)(ListenerOptions options);
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_TRANSPORT_H_
