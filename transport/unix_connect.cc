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

void NameIt(int fd) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) return;
  const std::string name = absl::StrCat("warpline-", absl::Hex(number, absl::kZeroPad16));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  (void)bind(fd, reinterpret_cast<const sockaddr*>(&address), size);
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
  if (!listener_uid.has_value()) return fd;
  const auto listener = ListenerOf(fd.get());
  if (!listener.ok() || *listener != *listener_uid) {
    return absl::PermissionDeniedError(
        absl::StrCat("who listens on ", path, " is ",
                     listener.ok() ? absl::StrCat("user ", *listener) : "unknown", ", not user ",
                     *listener_uid));
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
