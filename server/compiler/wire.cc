#include "server/compiler/wire.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "absl/strings/str_cat.h"
#include "common/packets/descriptors.h"

namespace warpline::compiler {
namespace {

constexpr size_t kMostFds = 2;

}  // namespace

absl::Status SendRecord(int socket, const void* record, size_t bytes, absl::Span<const int> fds) {
  if (fds.size() > kMostFds) return absl::InvalidArgumentError("too many descriptors");
  const ssize_t sent = SendWithFds(socket, {static_cast<const char*>(record), bytes}, fds);
  if (sent < 0) return absl::UnavailableError(absl::StrCat("sendmsg, ", errno));
  return absl::OkStatus();
}

absl::Status ReceiveRecord(int socket, void* record, size_t bytes, std::vector<UniqueFd>* fds) {
  int flags = 0;
  const ssize_t got = ReceiveWithFds(socket, record, bytes, 0, fds, &flags);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return absl::NotFoundError("no record");
  if (got < 0) return absl::UnavailableError(absl::StrCat("recvmsg, ", errno));
  if (got == 0) return absl::UnavailableError("the peer has closed");
  const bool is_whole = static_cast<size_t>(got) == bytes && fds->size() <= kMostFds;
  if (!is_whole || (flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    fds->clear();
    return absl::InvalidArgumentError("a record of another size");
  }
  return absl::OkStatus();
}

}  // namespace warpline::compiler
