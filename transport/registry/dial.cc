#include "transport/registry/dial.h"

#include "absl/strings/str_cat.h"
#include "transport/registry/by_scheme.h"

namespace warpline {

#define TRANSPORT(name) ClientEnd name##ClientEnd();
#define CLIENT_TRANSPORT(name) TRANSPORT(name)
#include "transport/registry/transports.inc"
#undef TRANSPORT
#undef CLIENT_TRANSPORT

absl::StatusOr<std::unique_ptr<Channel>> Dial(const DialTarget& target, ChannelHandler* handler,
                                              const ChannelOptions& options,
                                              absl::Duration deadline) {
  static const ClientEnd ends[] = {
#define TRANSPORT(name) name##ClientEnd(),
#define CLIENT_TRANSPORT(name) TRANSPORT(name)
#include "transport/registry/transports.inc"
#undef TRANSPORT
#undef CLIENT_TRANSPORT
  };
  return DialAmong(ends, target, handler, options, deadline);
}

absl::StatusOr<std::unique_ptr<Channel>> DialAmong(absl::Span<const ClientEnd> ends,
                                                   const DialTarget& target,
                                                   ChannelHandler* handler,
                                                   const ChannelOptions& options,
                                                   absl::Duration deadline) {
  const ClientEnd* const end = EndFor(ends, target.address);
  if (end == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", target.address, "\" is no transport's address"));
  }
  if (!target.tls.empty() && !end->transport.can.Has(TransportCapability::kTls)) {
    return absl::UnauthenticatedError(
        absl::StrCat(target.address, " is not encrypted: connect without TLS or elsewhere"));
  }
  if (target.listener_uid.has_value() &&
      !end->transport.can.Has(TransportCapability::kListenerUid)) {
    return absl::PermissionDeniedError(
        absl::StrCat("nothing says who listens on ", target.address));
  }
  return end->dial(target, handler, options, deadline);
}

}  // namespace warpline
