// An IP address and a port, in text and as the system takes them.
#ifndef WARPLINE_TRANSPORT_TCP_SOCKET_ADDRESS_H_
#define WARPLINE_TRANSPORT_TCP_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline {

class SocketAddress {
 public:
  // "10.0.0.1:14701" or "[fd00::1]:14701". INVALID_ARGUMENT for what is neither; names are not
  // looked up.
  static absl::StatusOr<SocketAddress> Parse(absl::string_view text);
  // INVALID_ARGUMENT when `ip` is no IP address.
  static absl::StatusOr<SocketAddress> Of(const std::string& ip, uint16_t port);
  // Takes an address as the system has it. INVALID_ARGUMENT for another family than IPv4 and IPv6.
  static absl::StatusOr<SocketAddress> Of(const sockaddr& address, socklen_t size);
  // The address of this host, without a port, from which packets to `ip` leave. UNAVAILABLE where
  // no route leads there.
  static absl::StatusOr<SocketAddress> Towards(const std::string& ip);
  // Where a socket listens, or what it is connected from.
  static absl::StatusOr<SocketAddress> OfSocket(int fd);

  int family() const { return storage_.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  // As Parse() takes it.
  std::string ToString() const;
  // The IP address alone.
  std::string Ip() const;

 private:
  sockaddr_storage storage_ = {};
  socklen_t size_ = 0;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_TCP_SOCKET_ADDRESS_H_
