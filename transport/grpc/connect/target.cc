#include "transport/grpc/connect/target.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace warpline::grpc_internal {
namespace {

absl::Status BadTarget(absl::string_view address) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address, "\" is not an address: expected host:port or unix:/path"));
}

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

std::string Uri(const sockaddr* address, int port) {
  char text[INET6_ADDRSTRLEN];
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", port);
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
  // A link-local address means nothing without its interface.
  const std::string zone = v6->sin6_scope_id ? absl::StrCat("%25", v6->sin6_scope_id) : "";
  return absl::StrCat("ipv6:%5B", text, zone, "%5D:", port);
}

SocketAddress InternetAddress(const sockaddr* address, socklen_t size, int port) {
  SocketAddress copy;
  copy.size = size;
  std::memcpy(&copy.storage, address, size);
  const in_port_t wire_port = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&copy.storage)->sin_port = wire_port;
  } else {
    reinterpret_cast<sockaddr_in6*>(&copy.storage)->sin6_port = wire_port;
  }
  return copy;
}

SocketAddress UnixAddress(absl::string_view path) {
  SocketAddress address;
  auto* const to = reinterpret_cast<sockaddr_un*>(&address.storage);
  to->sun_family = AF_UNIX;
  std::memcpy(to->sun_path, path.data(), path.size());
  address.size = sizeof(sockaddr_un);
  return address;
}

}  // namespace

absl::StatusOr<ResolvedTarget> ResolveTarget(absl::string_view address) {
  ResolvedTarget target;
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) {
    absl::ConsumePrefix(&path, "//");
    if (!absl::StartsWith(path, "/") || path.size() >= sizeof(sockaddr_un::sun_path)) {
      return absl::InvalidArgumentError(absl::StrCat("\"", address,
                                                     "\" needs an absolute path shorter than ",
                                                     sizeof(sockaddr_un::sun_path), " characters"));
    }
    target.uris.push_back(absl::StrCat("unix:", path));
    target.addresses.push_back(UnixAddress(path));
    target.authority = "localhost";
    target.local = true;
    return target;
  }

  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return BadTarget(address);
  }
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) return BadTarget(address);
  } else if (absl::StrContains(host, ':')) {
    return BadTarget(address);
  }
  target.host = std::string(host);
  target.authority = std::string(address);

  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(target.host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot look up \"", host, "\": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  target.local = true;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    std::string uri = Uri(entry->ai_addr, port);
    if (std::find(target.uris.begin(), target.uris.end(), uri) != target.uris.end()) continue;
    target.uris.push_back(std::move(uri));
    target.addresses.push_back(InternetAddress(entry->ai_addr, entry->ai_addrlen, port));
    target.local &= IsLoopback(entry->ai_addr);
  }
  if (target.uris.empty()) {
    return absl::UnavailableError(absl::StrCat("\"", host, "\" has no IP address"));
  }
  return target;
}

}  // namespace warpline::grpc_internal
