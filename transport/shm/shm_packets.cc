#include "transport/shm/shm_packets.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/packets/descriptors.h"
#include "common/unique_fd.h"
#include "transport/status_packet.h"

namespace warpline::shm_internal {
namespace {

constexpr size_t kFds = 6;

std::optional<ConnectionRings> RingsOf(std::vector<UniqueFd> fds) {
  if (fds.size() != kFds) return std::nullopt;
  return ConnectionRings{{std::move(fds[0]), std::move(fds[1]), std::move(fds[2])},
                         {std::move(fds[3]), std::move(fds[4]), std::move(fds[5])}};
}

}  // namespace

void SendStatus(int socket, const absl::Status& status) {
  (void)SendWithFds(socket, EncodeStatus(status), {}, MSG_DONTWAIT);
}

void SendTaken(int socket, const ConnectionRings& rings) {
  const RingDescriptors& up = rings.to_server;
  const RingDescriptors& down = rings.to_client;
  const int fds[kFds] = {up.memory.get(),   up.readable.get(),   up.writable.get(),
                         down.memory.get(), down.readable.get(), down.writable.get()};
  (void)SendWithFds(socket, EncodeStatus(absl::OkStatus()), fds, MSG_DONTWAIT);
}

absl::StatusOr<std::optional<Received>> Receive(int socket) {
  char bytes[kMaxStatusPacket];
  std::vector<UniqueFd> fds;
  int flags = 0;
  const ssize_t got = ReceiveWithFds(socket, bytes, sizeof(bytes), MSG_DONTWAIT, &fds, &flags);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (got <= 0) return absl::UnavailableError("connection lost");
  Received received;
  const bool too_many = fds.size() > kFds;
  received.rings = RingsOf(std::move(fds));
  if (too_many || (flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      !DecodeStatus({bytes, static_cast<size_t>(got)}, &received.status)) {
    return absl::InvalidArgumentError("the peer's last word is no status");
  }
  return received;
}

absl::StatusOr<Received> Await(int socket, absl::Time until) {
  while (true) {
    absl::StatusOr<std::optional<Received>> received = Receive(socket);
    if (!received.ok()) return received.status();
    if (received->has_value()) return **std::move(received);
    const absl::Duration left = until - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError("the server did not answer in time");
    }
    const timespec timeout = absl::ToTimespec(left);
    pollfd entry = {.fd = socket, .events = POLLIN, .revents = 0};
    ppoll(&entry, 1, &timeout, nullptr);
  }
}

}  // namespace warpline::shm_internal
