#include "transport/tcp/socket_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"

namespace warpline {

absl::StatusOr<SocketAddress> SocketAddress::Of(const std::string& ip, uint16_t port) {
  SocketAddress address;
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, ip.c_str(), &v4.sin_addr) == 1) {
    std::memcpy(&address.storage_, &v4, sizeof(v4));
    address.size_ = sizeof(v4);
    return address;
  }
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (inet_pton(AF_INET6, ip.c_str(), &v6.sin6_addr) == 1) {
    std::memcpy(&address.storage_, &v6, sizeof(v6));
    address.size_ = sizeof(v6);
    return address;
  }
  return absl::InvalidArgumentError("no IP address");
}

absl::StatusOr<SocketAddress> SocketAddress::Parse(absl::string_view text) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  if (colon != absl::string_view::npos && absl::SimpleAtoi(text.substr(colon + 1), &port) &&
      port > 0 && port <= UINT16_MAX) {
    absl::string_view ip = text.substr(0, colon);
    const bool bracketed = ip.size() >= 2 && ip.front() == '[' && ip.back() == ']';
    if (bracketed) ip = ip.substr(1, ip.size() - 2);
    auto address = Of(std::string(ip), static_cast<uint16_t>(port));
    if (address.ok() && (address->family() == AF_INET6) == bracketed) return address;
  }
  return absl::InvalidArgumentError("no address of a socket");
}

absl::StatusOr<SocketAddress> SocketAddress::Of(const sockaddr& from, socklen_t size) {
  SocketAddress address;
  const bool known = (from.sa_family == AF_INET && size == sizeof(sockaddr_in)) ||
                     (from.sa_family == AF_INET6 && size == sizeof(sockaddr_in6));
  if (!known) return absl::InvalidArgumentError("no IP address");
  std::memcpy(&address.storage_, &from, size);
  address.size_ = size;
  return address;
}

absl::StatusOr<SocketAddress> SocketAddress::Towards(const std::string& ip) {
  const auto target = Of(ip, /*port=*/9);  // Nothing is sent there.
  if (!target.ok()) return target;
  const UniqueFd fd(socket(target->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), target->get(), target->size()) != 0) {
    return absl::UnavailableError(absl::StrCat("no way to ", ip, ": ", std::strerror(errno)));
  }
  return OfSocket(fd.get());
}

absl::StatusOr<SocketAddress> SocketAddress::OfSocket(int fd) {
  SocketAddress address;
  address.size_ = sizeof(address.storage_);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage_), &address.size_) != 0) {
    return absl::InternalError(absl::StrCat("no address of a socket: ", std::strerror(errno)));
  }
  return address;
}

std::string SocketAddress::Ip() const {
  char text[INET6_ADDRSTRLEN] = "";
  sockaddr_in v4;
  sockaddr_in6 v6;
  std::memcpy(&v4, &storage_, sizeof(v4));
  std::memcpy(&v6, &storage_, sizeof(v6));
  const bool is_v4 = family() == AF_INET;
  const void* const ip = is_v4 ? static_cast<const void*>(&v4.sin_addr) : &v6.sin6_addr;
  inet_ntop(family(), ip, text, sizeof(text));
  return text;
}

std::string SocketAddress::ToString() const {
  // The port lies at the same place in both.
  sockaddr_in address;
  std::memcpy(&address, &storage_, sizeof(address));
  const uint16_t port = ntohs(address.sin_port);
  return family() == AF_INET ? absl::StrCat(Ip(), ":", port) : absl::StrCat("[", Ip(), "]:", port);
}

}  // namespace warpline
