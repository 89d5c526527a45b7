// Dials a server by the transport that its address belongs to.
//
//   auto channel = Dial({.address = "gpuhost:14000"}, &handler, ChannelOptions(),
//   absl::Seconds(5));
#ifndef WARPLINE_TRANSPORT_REGISTRY_DIAL_H_
#define WARPLINE_TRANSPORT_REGISTRY_DIAL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/channel.h"
#include "transport/transport.h"

namespace warpline {

// As ClientEnd::dial. UNAUTHENTICATED, too, where TLS is asked for, and PERMISSION_DENIED where a
// certain listener is, of a transport that has no such thing. Thread-safe.
absl::StatusOr<std::unique_ptr<Channel>> Dial(const DialTarget& target, ChannelHandler* handler,
                                              const ChannelOptions& options,
                                              absl::Duration deadline);

// The same among `ends` in place of those that are registered.
absl::StatusOr<std::unique_ptr<Channel>> DialAmong(absl::Span<const ClientEnd> ends,
                                                   const DialTarget& target,
                                                   ChannelHandler* handler,
                                                   const ChannelOptions& options,
                                                   absl::Duration deadline);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_REGISTRY_DIAL_H_
