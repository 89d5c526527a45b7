// Descriptors that go over a unix socket with the bytes of one message (SCM_RIGHTS).
// Thread-safe.
#ifndef WARPLINE_COMMON_PACKETS_DESCRIPTORS_H_
#define WARPLINE_COMMON_PACKETS_DESCRIPTORS_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/unique_fd.h"

namespace warpline {

// Linux's SCM_MAX_FD: the most that a peer can attach to a message, whatever we allow ourselves.
inline constexpr size_t kKernelMaxFds = 253;

// Sends `bytes` and copies of `fds` (borrowed, at most kKernelMaxFds) as one message. Returns what
// sendmsg() does, with errno; it is repeated when a signal interrupts it, and raises no SIGPIPE.
// `flags` are more of sendmsg()'s.
ssize_t SendWithFds(int socket, std::string_view bytes, absl::Span<const int> fds, int flags = 0);

// Receives one message of at most `bytes` bytes into `buffer`, and replaces `*fds` by the
// descriptors that came with it, close-on-exec. There is room for all that the kernel passes on, so
// that none is left in it. Returns what recvmsg() does, with errno; it is repeated when a signal
// interrupts it. `flags` are more of recvmsg()'s, and `*got_flags` are the message's, such as
// MSG_TRUNC.
ssize_t ReceiveWithFds(int socket, void* buffer, size_t bytes, int flags,
                       std::vector<UniqueFd>* fds, int* got_flags);

}  // namespace warpline

#endif  // WARPLINE_COMMON_PACKETS_DESCRIPTORS_H_
