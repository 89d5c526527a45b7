// Connecting to unix sockets whose owner matters.
#ifndef WARPLINE_TRANSPORT_UNIX_CONNECT_H_
#define WARPLINE_TRANSPORT_UNIX_CONNECT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/unique_fd.h"

namespace warpline {

// A connection to the socket at `path`, non-blocking. It has an abstract name of its own, where one
// is to be had, by which a listener can tell it from others of the same user. With `listener_uid`
// only to one whose listener ran as that user when it began to listen, as the kernel tells:
// PERMISSION_DENIED for another. UNAVAILABLE when nobody listens there. Does not block.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path, std::optional<uint32_t> listener_uid);

// The same for the socket with an abstract name, of packets (SOCK_SEQPACKET).
absl::StatusOr<UniqueFd> ConnectAbstract(absl::string_view name,
                                         std::optional<uint32_t> listener_uid);

// A non-blocking socket that listens at an abstract name for connections of packets. UNAVAILABLE,
// naming it, when the name is taken or too long.
absl::StatusOr<UniqueFd> ListenAbstract(absl::string_view name, int backlog);

// The user whose process listens at the other end of a connected unix socket, as the kernel noted
// when it began to listen; of one that was accepted, the user who connected. UNAVAILABLE where the
// kernel does not say.
absl::StatusOr<uint32_t> ListenerOf(int fd);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_UNIX_CONNECT_H_
