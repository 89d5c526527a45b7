// Listens on addresses of every transport.
#ifndef WARPLINE_TRANSPORT_REGISTRY_LISTEN_H_
#define WARPLINE_TRANSPORT_REGISTRY_LISTEN_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "transport/listener.h"
#include "transport/transport.h"

namespace warpline {

// As ServerEnd::check, of the transport that the address belongs to. Where that has no TLS, `tls`
// counts for nothing.
absl::Status CheckAddress(const std::string& address, bool tls);

// One listener for addresses of all transports. Each transport has the bounds of `options` by
// itself. Start() returns INVALID_ARGUMENT for an address of no transport, and where methods are
// given and no address answers them.
std::unique_ptr<Listener> MakeListener(ListenerOptions options);

// The same among `ends`, borrowed, in place of those that are registered.
absl::Status CheckAddressAmong(absl::Span<const ServerEnd> ends, const std::string& address,
                               bool tls);
std::unique_ptr<Listener> MakeListenerAmong(absl::Span<const ServerEnd> ends,
                                            ListenerOptions options);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_REGISTRY_LISTEN_H_
