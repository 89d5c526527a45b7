// The client's end of a session over gRPC.
//
// It runs inside somebody else's process: no signal reaches its threads, nothing of gRPC is printed
// but its errors (common/log/log.h), and of the host's environment only an HTTP proxy for addresses
// that are not local has an effect. Names are resolved by getaddrinfo, so that GRPC_DNS_RESOLVER
// does not matter. What gRPC's API cannot keep out, since gRPC reads it as it starts:
// GRPC_POLL_STRATEGY (slower, not wrong), GRPC_ENABLE_FORK_SUPPORT, GRPC_EXPERIMENTS, and with TLS
// GRPC_SSL_CIPHER_SUITES. GRPC_TRACE costs time, but its lines are dropped.
//
// The first dial starts gRPC, which then stays until the process ends.
#ifndef WARPLINE_TRANSPORT_GRPC_GRPC_CLIENT_H_
#define WARPLINE_TRANSPORT_GRPC_GRPC_CLIENT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/channel.h"
#include "transport/grpc/connect/grpc_target.h"

namespace warpline {

// Connects, opens the session's stream and waits until the server's acceptor has taken it. Blocks.
// INVALID_ARGUMENT for a target of no known form. UNAVAILABLE, with what was last seen, when no
// server answered within `deadline`; looking up a host's name may take longer. UNAUTHENTICATED, as
// soon as it is known and with what to do, when TLS is the reason. PERMISSION_DENIED for a listener
// that is another user. A refusal by the acceptor comes back as its own status. The handler is
// borrowed and must outlive the channel.
absl::StatusOr<std::unique_ptr<Channel>> DialGrpc(const GrpcTarget& target, ChannelHandler* handler,
                                                  const ChannelOptions& options,
                                                  absl::Duration deadline);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_GRPC_CLIENT_H_
