// Sockets that listen as another user, for tests that run as root.
#ifndef WARPLINE_CLIENT_STUB_SESSION_TESTING_OTHER_USER_H_
#define WARPLINE_CLIENT_STUB_SESSION_TESTING_OTHER_USER_H_

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "common/unique_fd.h"

namespace warpline::stub {

inline constexpr uint32_t kOtherUser = 12345;

// The process is another user for as long as this lives. Only root may.
class AsUser {
 public:
  explicit AsUser(uint32_t uid) : changed_(geteuid() == 0 && uid != 0 && seteuid(uid) == 0) {}
  ~AsUser() {
    if (changed_ && seteuid(0) != 0) _exit(1);
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;

 private:
  const bool changed_;
};

// Whether this process can: within a user namespace, as in a sandbox, root may have nobody to be.
inline bool CanBeOthers() {
  for (const uint32_t uid : {kOtherUser, kOtherUser + 1}) {
    const AsUser as(uid);
    if (geteuid() != uid) return false;
  }
  return true;
}

// A socket that user `uid` made and at which it listens; invalid where that fails.
template <typename Address>
UniqueFd ListenAs(uint32_t uid, int type, const Address& address, socklen_t size) {
  const AsUser as(uid);
  const int family = reinterpret_cast<const sockaddr*>(&address)->sa_family;
  UniqueFd fd(socket(family, type | SOCK_CLOEXEC, 0));
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(fd.get(), 4) != 0) {
    return UniqueFd();
  }
  return fd;
}

inline UniqueFd ListenAtPath(uint32_t uid, const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return ListenAs(uid, SOCK_STREAM, address, sizeof(address));
}

// At an abstract name, for packets.
inline UniqueFd ListenAtName(uint32_t uid, const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return ListenAs(uid, SOCK_SEQPACKET, address,
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

// At 127.0.0.`host`; port 0 for any.
inline UniqueFd ListenAtPort(uint32_t uid, uint8_t host, uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl((127u << 24) | host);
  return ListenAs(uid, SOCK_STREAM, address, sizeof(address));
}

inline uint16_t PortOf(const UniqueFd& listener) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  return getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0
             ? ntohs(address.sin_port)
             : 0;
}

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_TESTING_OTHER_USER_H_
