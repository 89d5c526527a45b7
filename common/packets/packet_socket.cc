#include "common/packets/packet_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/packets/descriptors.h"

namespace warpline {
namespace {

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
  const auto sent = TrySendPacket(fd, message, fds);
  if (!sent.ok()) return sent.status();
  return *sent ? absl::OkStatus() : absl::UnavailableError("sendmsg: the socket is full");
}

absl::StatusOr<bool> TrySendPacket(int fd, const google::protobuf::MessageLite& message,
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

  if (SendWithFds(fd, body, fds) >= 0) return true;
  if (errno == EAGAIN) return false;
  return ErrnoStatus("sendmsg");
}

absl::Status ReceivePacket(int fd, google::protobuf::MessageLite* message,
                           std::vector<UniqueFd>* fds) {
  if (fds != nullptr) fds->clear();
  message->Clear();
  thread_local const std::unique_ptr<char[]> buffer(new char[kMaxPacketBytes + 1]);
  std::vector<UniqueFd> received;
  int flags = 0;
  const ssize_t got = ReceiveWithFds(fd, buffer.get(), kMaxPacketBytes + 1, 0, &received, &flags);
  if (got < 0) {
    if (errno == EAGAIN) return absl::NotFoundError("no packet");
    return ErrnoStatus("recvmsg");
  }
  if (got == 0) return absl::UnavailableError("peer closed");
  if ((flags & MSG_TRUNC) != 0 || received.size() > kMaxPacketFds) {
    return absl::InvalidArgumentError("packet too large");
  }
  if (!message->ParseFromArray(buffer.get() + 1, static_cast<int>(got) - 1)) {
    return absl::InvalidArgumentError("packet is not the expected message");
  }
  // There is room for everything that the kernel passes on, so it dropped some for want of free
  // descriptor numbers.
  if ((flags & MSG_CTRUNC) != 0) {
    return absl::ResourceExhaustedError("no free descriptors for those of a packet");
  }
  if (fds != nullptr) *fds = std::move(received);
  return absl::OkStatus();
}

}  // namespace warpline
