#include "transport/bulk/bulk_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/tcp/connect.h"
#include "transport/tls/tls_address.h"
#include "transport/tls/tls_connect.h"

namespace warpline {
namespace {

// What goes through memory of our own at a time where the kernel does not reach the other.
constexpr size_t kBounce = 64u << 10;
// For another thread to receive what this one may not.
constexpr int kOthersTurnMs = 1;
// A peer that is silent for so many seconds is given up.
constexpr int kMostSilence = 10;

absl::Status Lost(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

BulkSocket::BulkSocket(UniqueFd fd, Unreachable unreachable)
    : fd_(std::move(fd)), unreachable_(unreachable) {
  ExpectSignsOfLife(fd_.get(), kMostSilence);
}

BulkSocket::BulkSocket(std::unique_ptr<TlsStream> stream, Unreachable unreachable)
    : stream_(std::move(stream)), unreachable_(unreachable) {}

absl::StatusOr<std::unique_ptr<BulkSocket>> BulkSocket::Connect(
    const std::string& endpoint, std::string_view secret, uint32_t slot, absl::Time until,
    Unreachable unreachable, const std::function<bool()>& given_up) {
  if (const auto places = PlacesOf(endpoint); places.has_value()) {
    auto stream = ConnectTls(*places, secret, until, given_up);
    if (!stream.ok()) return stream.status();
    const absl::Status greeted = SayHello(stream->get(), slot);
    if (!greeted.ok()) return greeted;
    return std::make_unique<BulkSocket>(*std::move(stream), unreachable);
  }
  auto fd = ConnectTcp(endpoint, until, given_up);
  if (!fd.ok()) return fd.status();
  const int flags = fcntl(fd->get(), F_GETFL);
  if (fcntl(fd->get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return Lost("no socket");
  auto socket = std::make_unique<BulkSocket>(*std::move(fd), unreachable);
  const absl::Status greeted = socket->SendHello(secret, slot);
  if (!greeted.ok()) return greeted;
  return socket;
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
  if (stream_ != nullptr) return SendEncrypted(head, bytes, receive);
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
  AwaitRoom(receive);
  return absl::OkStatus();
}

absl::Status BulkSocket::SendEncrypted(std::string_view* head, std::string_view* bytes,
                                       const std::function<bool()>& receive) {
  const char* from = bytes->data();
  size_t count = bytes->size();
  // The head goes with the first bytes. Memory that a handler of faults provides is not touched
  // under the stream's lock, for the handler may want the connection.
  if (!head->empty() || unreachable_ == Unreachable::kTouch) {
    if (out_ == nullptr) out_ = std::make_unique<char[]>(TlsStream::kBatch);
    const size_t of_bytes = std::min(bytes->size(), TlsStream::kBatch - head->size());
    std::copy(head->begin(), head->end(), out_.get());
    std::copy_n(bytes->begin(), of_bytes, out_.get() + head->size());
    from = out_.get();
    count = head->size() + of_bytes;
  }
  const auto taken = stream_->Write(from, count);
  if (!taken.ok()) return taken.status();
  const size_t of_head = std::min(*taken, head->size());
  head->remove_prefix(of_head);
  bytes->remove_prefix(*taken - of_head);
  const bool last = head->empty() && bytes->empty();
  while (*taken == 0 || last) {
    const auto flushed = stream_->Flush();
    if (!flushed.ok()) return flushed.status();
    if (*flushed) break;
    AwaitRoom(receive);
  }
  return absl::OkStatus();
}

void BulkSocket::AwaitRoom(const std::function<bool()>& receive) {
  if (receive == nullptr) {
    (void)PollSocket(fd(), POLLOUT, -1);
    return;
  }
  const bool came = stream_ != nullptr && stream_->HasRead();
  if ((PollSocket(fd(), POLLOUT | POLLIN, came ? 0 : -1) & POLLOUT) == 0 && !receive()) {
    (void)PollSocket(fd(), POLLOUT, kOthersTurnMs);
  }
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

absl::Status BulkSocket::ReceiveDecrypted(void* to, size_t bytes) {
  const bool touches = unreachable_ == Unreachable::kTouch;
  if (touches && in_ == nullptr) in_ = std::make_unique<char[]>(TlsStream::kBatch);
  for (size_t done = 0; done < bytes;) {
    char* const target = static_cast<char*>(to) + done;
    const size_t most = touches ? std::min(bytes - done, TlsStream::kBatch) : bytes - done;
    const auto got = stream_->Read(touches ? in_.get() : target, most);
    if (!got.ok()) return got.status();
    if (touches) std::memcpy(target, in_.get(), *got);
    done += *got;
    if (*got == 0) (void)PollSocket(fd(), POLLIN, -1);
  }
  return absl::OkStatus();
}

absl::Status BulkSocket::Receive(void* to, size_t bytes) {
  if (stream_ != nullptr) return ReceiveDecrypted(to, bytes);
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
    if (stream_ != nullptr && stream_->HasRead()) return true;
    if (PollSocket(fd(), POLLIN, PollMilliseconds(until)) != 0) return true;
    if (absl::Now() >= until) return false;
  }
}

void BulkSocket::Shut() { (void)shutdown(fd(), SHUT_RDWR); }

}  // namespace warpline
