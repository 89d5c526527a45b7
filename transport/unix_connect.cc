#include "transport/unix_connect.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

struct AbstractAddress {
  sockaddr_un address = {};
  socklen_t bytes = 0;

  // False, with errno, for a name that is empty or too long.
  bool Set(absl::string_view name) {
    address.sun_family = AF_UNIX;
    if (name.empty() || name.size() + 1 > sizeof(address.sun_path)) {
      errno = EINVAL;
      return false;
    }
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return true;
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

void NameIt(int fd) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) return;
  AbstractAddress name;
  if (!name.Set(absl::StrCat("warpline-", absl::Hex(number, absl::kZeroPad16)))) return;
  (void)bind(fd, name.get(), name.bytes);
}

// `where` is for the message.
absl::Status CheckListener(int fd, absl::string_view where, std::optional<uint32_t> listener_uid) {
  if (!listener_uid.has_value()) return absl::OkStatus();
  const auto listener = ListenerOf(fd);
  if (listener.ok() && *listener == *listener_uid) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "who listens on ", where, " is ",
      listener.ok() ? absl::StrCat("user ", *listener) : "unknown", ", not user ", *listener_uid));
}

}  // namespace

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path,
                                     std::optional<uint32_t> listener_uid) {
  sockaddr_un address = {};
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError("no path of a unix socket");
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.valid()) NameIt(fd.get());
  if (!fd.valid() ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", path, ": ", std::strerror(errno)));
  }
  const absl::Status is_listener = CheckListener(fd.get(), path, listener_uid);
  if (!is_listener.ok()) return is_listener;
  return fd;
}

absl::StatusOr<UniqueFd> ConnectAbstract(absl::string_view name,
                                         std::optional<uint32_t> listener_uid) {
  AbstractAddress address;
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid() || !address.Set(name) || connect(fd.get(), address.get(), address.bytes) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to @", name, ": ", std::strerror(errno)));
  }
  const absl::Status is_listener = CheckListener(fd.get(), absl::StrCat("@", name), listener_uid);
  if (!is_listener.ok()) return is_listener;
  return fd;
}

absl::StatusOr<UniqueFd> ListenAbstract(absl::string_view name, int backlog) {
  AbstractAddress address;
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid() || !address.Set(name) || bind(fd.get(), address.get(), address.bytes) != 0 ||
      listen(fd.get(), backlog) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen at @", name, ": ", std::strerror(errno)));
  }
  return fd;
}

absl::StatusOr<uint32_t> ListenerOf(int fd) {
  ucred listener = {};
  socklen_t size = sizeof(listener);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0) {
    return absl::UnavailableError("the kernel does not say who listens");
  }
  return listener.uid;
}

}  // namespace warpline
