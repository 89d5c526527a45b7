#include "transport/testing/delay_line.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace warpline {
namespace {

constexpr size_t kReadSize = 256 << 10;

bool Transient(int error) {
  // ENOTCONN while the connection to the target is being made.
  return error == EAGAIN || error == EINTR || error == ENOTCONN || error == EINPROGRESS;
}

}  // namespace

bool DelayLine::Receive(absl::Time due) {
  std::string bytes(kReadSize, '\0');
  const ssize_t got = recv(from_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0) return Transient(errno);
  bytes.resize(got);
  bytes.shrink_to_fit();
  ended_ = got == 0;
  bytes_ += got;
  chunks_.push_back({due, std::move(bytes)});
  return true;
}

bool DelayLine::Deliver(absl::Time now) {
  blocked_ = false;
  while (!chunks_.empty() && chunks_.front().due <= now) {
    const std::string& bytes = chunks_.front().bytes;
    if (bytes.empty()) {
      shutdown(to_, SHUT_WR);
    } else {
      const ssize_t sent =
          send(to_, bytes.data() + written_, bytes.size() - written_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && !Transient(errno)) return false;
      if (sent > 0) written_ += sent;
      if (written_ < bytes.size()) {
        blocked_ = true;
        return true;
      }
    }
    bytes_ -= bytes.size();
    written_ = 0;
    chunks_.pop_front();
  }
  return true;
}

absl::Time DelayLine::NextDue() const {
  return chunks_.empty() || blocked_ ? absl::InfiniteFuture() : chunks_.front().due;
}

}  // namespace warpline
