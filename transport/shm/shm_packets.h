// What goes over the socket beside the rings: the answer to who connects, with the descriptors of
// the rings, and each end's last word. Private to transport/shm.
#ifndef WARPLINE_TRANSPORT_SHM_SHM_PACKETS_H_
#define WARPLINE_TRANSPORT_SHM_SHM_PACKETS_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/shm_ring.h"

namespace warpline::shm_internal {

// The rings of a connection, as its client has them.
struct ConnectionRings {
  RingDescriptors to_server;
  RingDescriptors to_client;
};

// Sends a status in one packet. Of its payloads it has the refusal (proto/refusal.h). What finds no
// room is lost: the socket carries nothing else.
void SendStatus(int socket, const absl::Status& status);
// OK, with the rings.
void SendTaken(int socket, const ConnectionRings& rings);

// What has come, without waiting. The socket's peer may send anything: INVALID_ARGUMENT for what is
// no status, UNAVAILABLE when it is gone. Nothing yet: no value.
struct Received {
  absl::Status status;  // The peer's.
  std::optional<ConnectionRings> rings;
};
absl::StatusOr<std::optional<Received>> Receive(int socket);
// The same, but waits: UNAVAILABLE when nothing has come until then.
absl::StatusOr<Received> Await(int socket, absl::Time until);

}  // namespace warpline::shm_internal

#endif  // WARPLINE_TRANSPORT_SHM_SHM_PACKETS_H_
