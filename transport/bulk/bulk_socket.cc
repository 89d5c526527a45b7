#include "transport/bulk/bulk_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/bulk/socket_address.h"

namespace warpline {
namespace {

// What goes through memory of our own at a time where the kernel does not reach the other.
constexpr size_t kBounce = 64u << 10;
// A host that has gone silent is given up after this.
constexpr int kSilenceSeconds = 10;
// So often who connects looks whether it is still wanted.
constexpr int kLookMs = 50;
// For another thread to receive what this one may not.
constexpr int kOthersTurnMs = 1;

absl::Status Lost(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

void SetOption(int fd, int level, int name, int value) {
  // Without it the connection is slower, or its end is noticed later.
  (void)setsockopt(fd, level, name, &value, sizeof(value));
}

// The events that came, of POLLIN and POLLOUT.
short Poll(int fd, short events, int timeout_ms) {
  pollfd polled = {.fd = fd, .events = events, .revents = 0};
  // An error or an end is found by whoever sends or receives next.
  if (poll(&polled, 1, timeout_ms) <= 0) return 0;
  return polled.revents & (POLLERR | POLLHUP | POLLNVAL) ? events : polled.revents;
}

int MillisecondsUntil(absl::Time until) {
  const absl::Duration left = std::max(until - absl::Now(), absl::ZeroDuration());
  return static_cast<int>(
      absl::ToInt64Milliseconds(std::min(absl::Ceil(left, absl::Milliseconds(1)), absl::Hours(1))));
}

}  // namespace

BulkSocket::BulkSocket(UniqueFd fd, Unreachable unreachable)
    : fd_(std::move(fd)), unreachable_(unreachable) {
  SetOption(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceSeconds * 1000);
  SetOption(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd_.get(), IPPROTO_TCP, TCP_KEEPIDLE, kSilenceSeconds / 2);
  SetOption(fd_.get(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
}

absl::StatusOr<std::unique_ptr<BulkSocket>> BulkSocket::Connect(
    const std::string& endpoint, absl::Time until, Unreachable unreachable,
    const std::function<bool()>& given_up) {
  const auto address = SocketAddress::Parse(endpoint);
  if (!address.ok()) return address.status();
  UniqueFd fd(socket(address->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Lost("no socket");
  if (connect(fd.get(), address->get(), address->size()) != 0) {
    if (errno != EINPROGRESS) return Lost("cannot connect");
    while (Poll(fd.get(), POLLOUT, std::min(MillisecondsUntil(until), kLookMs)) == 0) {
      if (absl::Now() >= until || (given_up != nullptr && given_up())) {
        return absl::UnavailableError(absl::StrCat("nobody answers at ", endpoint));
      }
    }
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
      errno = error;
      return Lost("cannot connect");
    }
  }
  const int flags = fcntl(fd.get(), F_GETFL);
  if (fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return Lost("no socket");
  return std::make_unique<BulkSocket>(std::move(fd), unreachable);
}

absl::Status BulkSocket::SendHello(std::string_view secret, uint32_t slot) {
  if (secret.size() != kBulkSecretBytes) {
    return absl::InvalidArgumentError("a bulk connection needs a secret of 16 bytes");
  }
  BulkSocketHello hello = {.secret = {}, .slot = slot, .zero = 0};
  std::memcpy(hello.secret, secret.data(), secret.size());
  std::string_view head(reinterpret_cast<const char*>(&hello), sizeof(hello));
  std::string_view none;
  while (!head.empty()) {
    const absl::Status sent = SendSome(&head, &none, nullptr);
    if (!sent.ok()) return sent;
  }
  return absl::OkStatus();
}

absl::Status BulkSocket::Send(uint32_t kind, std::string_view head, std::string_view bytes,
                              const std::function<bool()>& receive) {
  constexpr size_t kMostHead = 1024;
  char begin[sizeof(BulkFrameHeader) + kMostHead];
  if (head.size() > kMostHead) return absl::InvalidArgumentError("too long a frame");
  const BulkFrameHeader header = {kind, static_cast<uint32_t>(head.size() + bytes.size())};
  std::memcpy(begin, &header, sizeof(header));
  std::copy(head.begin(), head.end(), begin + sizeof(header));
  head = std::string_view(begin, sizeof(header) + head.size());
  while (!head.empty() || !bytes.empty()) {
    const absl::Status sent = SendSome(&head, &bytes, receive);
    if (!sent.ok()) return sent;
  }
  return absl::OkStatus();
}

absl::Status BulkSocket::SendSome(std::string_view* head, std::string_view* bytes,
                                  const std::function<bool()>& receive) {
  iovec parts[2] = {{const_cast<char*>(head->data()), head->size()},
                    {const_cast<char*>(bytes->data()), bytes->size()}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) {
    const size_t of_head = std::min(static_cast<size_t>(sent), head->size());
    head->remove_prefix(of_head);
    bytes->remove_prefix(static_cast<size_t>(sent) - of_head);
    return absl::OkStatus();
  }
  if (errno == EINTR) return absl::OkStatus();
  if (errno == EFAULT && unreachable_ == Unreachable::kTouch && head->empty()) {
    return SendTouching(bytes, receive);
  }
  if (errno == EFAULT && unreachable_ == Unreachable::kTouch) {
    // The head goes alone, and the memory is met again.
    std::string_view none;
    return SendSome(head, &none, receive);
  }
  if (errno != EAGAIN) return Lost("the bulk connection cannot send");
  if (receive == nullptr) {
    (void)Poll(fd_.get(), POLLOUT, -1);
  } else if ((Poll(fd_.get(), POLLOUT | POLLIN, -1) & POLLOUT) == 0 && !receive()) {
    (void)Poll(fd_.get(), POLLOUT, kOthersTurnMs);
  }
  return absl::OkStatus();
}

absl::Status BulkSocket::SendTouching(std::string_view* bytes,
                                      const std::function<bool()>& receive) {
  const auto bounce = std::make_unique<char[]>(kBounce);
  const size_t count = std::min(bytes->size(), kBounce);
  std::memcpy(bounce.get(), bytes->data(), count);
  std::string_view none;
  for (std::string_view left(bounce.get(), count); !left.empty();) {
    const absl::Status sent = SendSome(&none, &left, receive);
    if (!sent.ok()) return sent;
  }
  bytes->remove_prefix(count);
  return absl::OkStatus();
}

absl::Status BulkSocket::Receive(void* to, size_t bytes) {
  std::unique_ptr<char[]> bounce;
  for (size_t done = 0; done < bytes;) {
    char* const target = static_cast<char*>(to) + done;
    const size_t count = bounce == nullptr ? bytes - done : std::min(bytes - done, kBounce);
    const ssize_t got =
        recv(fd_.get(), bounce == nullptr ? target : bounce.get(), count, MSG_WAITALL);
    if (got > 0) {
      if (bounce != nullptr) std::memcpy(target, bounce.get(), static_cast<size_t>(got));
      bounce = nullptr;
      done += static_cast<size_t>(got);
    } else if (got == 0) {
      return absl::UnavailableError("the bulk connection has ended");
    } else if (errno == EFAULT && unreachable_ == Unreachable::kTouch && bounce == nullptr) {
      bounce = std::make_unique<char[]>(kBounce);
    } else if (errno != EINTR) {
      return Lost("the bulk connection cannot receive");
    }
  }
  return absl::OkStatus();
}

bool BulkSocket::AwaitReadable(absl::Time until) {
  while (true) {
    if (Poll(fd_.get(), POLLIN, MillisecondsUntil(until)) != 0) return true;
    if (absl::Now() >= until) return false;
  }
}

void BulkSocket::Shut() { (void)shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace warpline
