#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "transport/link_channel.h"
#include "transport/tls/tls_address.h"
#include "transport/tls/tls_end.h"
#include "transport/transport.h"

namespace warpline {
namespace {

absl::StatusOr<std::unique_ptr<Channel>> DialTls(const DialTarget& target, ChannelHandler* handler,
                                                 const ChannelOptions& options,
                                                 absl::Duration deadline) {
  const auto places = PlacesOf(target.address);
  if (!places.has_value()) return absl::InvalidArgumentError("no address of a relay");
  auto end = TlsEnd::Connect(*places, target.secret, absl::Now() + deadline);
  if (!end.ok()) return end.status();
  return std::make_unique<LinkChannel>(kTlsTransport.scheme.data(), *std::move(end), handler,
                                       options);
}

}  // namespace

ClientEnd TlsClientEnd() { return {.transport = kTlsTransport, .dial = &DialTls}; }

}  // namespace warpline
