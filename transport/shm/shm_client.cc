#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/link_channel.h"
#include "transport/shm/shm_address.h"
#include "transport/shm/shm_end.h"
#include "transport/shm/shm_packets.h"
#include "transport/transport.h"
#include "transport/unix_connect.h"

namespace warpline {
namespace {

using shm_internal::ShmEnd;

absl::StatusOr<std::unique_ptr<Channel>> DialShm(const DialTarget& target, ChannelHandler* handler,
                                                 const ChannelOptions& options,
                                                 absl::Duration deadline) {
  const absl::Time until = absl::Now() + deadline;
  const auto name = ShmName(target.address);
  if (!name.ok()) return name.status();
  auto socket = ConnectAbstract(*name, target.listener_uid);
  if (!socket.ok()) return socket.status();
  auto answer = shm_internal::Await(socket->get(), until);
  if (!answer.ok()) return answer.status();
  if (!answer->status.ok()) return answer->status;
  if (!answer->rings.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(target.address, " gives no rings"));
  }
  auto end = ShmEnd::Create(*std::move(socket), std::move(answer->rings->to_server),
                            std::move(answer->rings->to_client));
  if (!end.ok()) return end.status();
  return std::make_unique<LinkChannel>(kShmTransport.scheme.data(), *std::move(end), handler,
                                       options);
}

}  // namespace

ClientEnd ShmClientEnd() { return {.transport = kShmTransport, .dial = &DialShm}; }

}  // namespace warpline
