#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "transport/link_channel.h"
#include "transport/transport.h"
#include "transport/ucx/ucx_address.h"
#include "transport/ucx/ucx_end.h"
#include "transport/ucx/ucx_transports.h"

namespace warpline {
namespace {

absl::StatusOr<std::unique_ptr<Channel>> DialUcx(const DialTarget& target, ChannelHandler* handler,
                                                 const ChannelOptions& options,
                                                 absl::Duration deadline) {
  const auto address = UcxAddress::Parse(target.address);
  if (!address.ok()) return address.status();
  const auto transports = UcxTransports::ParseTold(target.via);
  if (!transports.ok()) return transports.status();
  auto end = UcxEnd::Connect(*address, target.secret, absl::Now() + deadline, *transports);
  if (!end.ok()) return end.status();
  return std::make_unique<LinkChannel>(kUcxTransport.scheme.data(), *std::move(end), handler,
                                       options);
}

}  // namespace

ClientEnd UcxClientEnd() { return {.transport = kUcxTransport, .dial = &DialUcx}; }

}  // namespace warpline
