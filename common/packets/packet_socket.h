// One protobuf message a packet over a SOCK_SEQPACKET unix socket, with descriptors attached.
//
// A server talks in this way to the processes that it starts (proto/worker.proto), and to clients
// on its host with which it shares memory. A worker runs tenant code beside it, so what arrives is
// bounded and checked like any other input.
#ifndef WARPLINE_COMMON_PACKETS_PACKET_SOCKET_H_
#define WARPLINE_COMMON_PACKETS_PACKET_SOCKET_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "google/protobuf/message_lite.h"

namespace warpline {

// The bounds of one packet. Linux allows 253 descriptors a message.
inline constexpr size_t kMaxPacketBytes = 64u << 10;
inline constexpr size_t kMaxPacketFds = 200;

// Makes a connected pair of sockets, close-on-exec and blocking.
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> PacketSocketPair();

// Sends `message` and copies of `fds` (borrowed) as one packet. Blocks while the socket is full,
// unless `fd` is non-blocking. Thread-safe: packets of concurrent senders do not mix.
// INVALID_ARGUMENT when the message or the number of descriptors is out of bounds, UNAVAILABLE when
// the peer is gone or a non-blocking socket is full. Never raises SIGPIPE.
absl::Status SendPacket(int fd, const google::protobuf::MessageLite& message,
                        absl::Span<const int> fds);

// The same, but returns false when a non-blocking socket is full, and nothing was sent.
absl::StatusOr<bool> TrySendPacket(int fd, const google::protobuf::MessageLite& message,
                                   absl::Span<const int> fds);

// Receives one packet into `*message`, and replaces `*fds` by the descriptors that came with it,
// close-on-exec. When `fds` is null, and on any error, the descriptors that came along are closed.
// Blocks until there is a packet, unless `fd` is non-blocking. UNAVAILABLE at the end of the stream
// ("peer closed"), NOT_FOUND when a non-blocking socket has no packet, INVALID_ARGUMENT when the
// packet is not a message of this type or is too large, RESOURCE_EXHAUSTED when this process has no
// free descriptors; then there is the message all the same, without any, unless the system is short
// of more than that, for which the message is empty.
absl::Status ReceivePacket(int fd, google::protobuf::MessageLite* message,
                           std::vector<UniqueFd>* fds);

}  // namespace warpline

#endif  // WARPLINE_COMMON_PACKETS_PACKET_SOCKET_H_
