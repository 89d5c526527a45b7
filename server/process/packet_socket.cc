#include "server/process/packet_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

// Linux's SCM_MAX_FD is the most that a peer can attach, whatever we allow ourselves. Receiving
// with room for all of them leaves none behind in the kernel, and lets us close surplus ones.
constexpr size_t kKernelMaxFds = 253;

absl::Status ErrnoStatus(const char* what) {
  const int error = errno;
  const std::string text = absl::StrCat(what, ": ", strerror(error));
  switch (error) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case EAGAIN:
      return absl::UnavailableError(text);
    case EMFILE:
    case ENFILE:
    case ETOOMANYREFS:
    case ENOMEM:
    case ENOBUFS:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::InternalError(text);
  }
}

void CollectFds(const msghdr& header, std::vector<UniqueFd>* fds) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(const_cast<msghdr*>(&header), control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
      fds->emplace_back(fd);
    }
  }
}

}  // namespace

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> PacketSocketPair() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return ErrnoStatus("socketpair");
  }
  return std::make_pair(UniqueFd(pair[0]), UniqueFd(pair[1]));
}

absl::Status SendPacket(int fd, const google::protobuf::MessageLite& message,
                        absl::Span<const int> fds) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes > kMaxPacketBytes) {
    return absl::InvalidArgumentError(absl::StrCat("packet of ", bytes, " bytes"));
  }
  if (fds.size() > kMaxPacketFds) {
    return absl::InvalidArgumentError(absl::StrCat("packet with ", fds.size(), " descriptors"));
  }
  // The body has one leading byte: a message without fields is empty, and an empty packet would
  // read as end of stream.
  std::string body(1, '\0');
  if (!message.AppendToString(&body)) return absl::InvalidArgumentError("incomplete message");

  iovec iov = {body.data(), body.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPacketFds)];
  msghdr header = {};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    memset(control, 0, sizeof(control));
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t sent;
  do {
    sent = sendmsg(fd, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return ErrnoStatus("sendmsg");
  return absl::OkStatus();
}

absl::Status ReceivePacket(int fd, google::protobuf::MessageLite* message,
                           std::vector<UniqueFd>* fds) {
  if (fds != nullptr) fds->clear();
  thread_local const std::unique_ptr<char[]> buffer(new char[kMaxPacketBytes + 1]);
  iovec iov = {buffer.get(), kMaxPacketBytes + 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kKernelMaxFds)];
  msghdr header = {};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (errno == EAGAIN) return absl::NotFoundError("no packet");
    return ErrnoStatus("recvmsg");
  }
  std::vector<UniqueFd> received;
  CollectFds(header, &received);
  if (got == 0) return absl::UnavailableError("peer closed");
  // There is room for everything that the kernel passes on, so it dropped some for want of free
  // descriptor numbers.
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    return absl::ResourceExhaustedError("no free descriptors for those of a packet");
  }
  if ((header.msg_flags & MSG_TRUNC) != 0 || received.size() > kMaxPacketFds) {
    return absl::InvalidArgumentError("packet too large");
  }
  if (!message->ParseFromArray(buffer.get() + 1, static_cast<int>(got) - 1)) {
    return absl::InvalidArgumentError("packet is not the expected message");
  }
  if (fds != nullptr) *fds = std::move(received);
  return absl::OkStatus();
}

}  // namespace warpline
