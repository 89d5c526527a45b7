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
  fds->clear();
  iovec part = {record, bytes};
  // The kernel closes what there is no room for, and says so.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)];
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return absl::NotFoundError("no record");
  if (got < 0) return absl::UnavailableError(absl::StrCat("recvmsg, ", errno));
  CollectFds(header, fds);
  if (got == 0) return absl::UnavailableError("the peer has closed");
  if (static_cast<size_t>(got) != bytes || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    fds->clear();
    return absl::InvalidArgumentError("a record of another size");
  }
  return absl::OkStatus();
}

}  // namespace warpline::compiler
