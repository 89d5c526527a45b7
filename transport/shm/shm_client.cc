#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "transport/link_channel.h"
#include "transport/shm/shm_address.h"
#include "transport/shm/shm_connect.h"
#include "transport/transport.h"
#include "transport/unix_connect.h"

namespace warpline {
namespace {

absl::StatusOr<std::unique_ptr<Channel>> DialShm(const DialTarget& target, ChannelHandler* handler,
                                                 const ChannelOptions& options,
                                                 absl::Duration deadline) {
  const absl::Time until = absl::Now() + deadline;
  const auto name = ShmName(target.address);
  if (!name.ok()) return name.status();
  auto socket = ConnectAbstract(*name, target.listener_uid);
  if (!socket.ok()) return socket.status();
  auto end = ShmConnectOn(*std::move(socket), until);
  if (!end.ok()) return end.status();
  return std::make_unique<LinkChannel>(kShmTransport.scheme.data(), *std::move(end), handler,
                                       options);
}

}  // namespace

ClientEnd ShmClientEnd() { return {.transport = kShmTransport, .dial = &DialShm}; }

}  // namespace warpline
