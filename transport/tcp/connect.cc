#include "transport/tcp/connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "transport/tcp/socket_address.h"

namespace warpline {
namespace {

constexpr size_t kMostPlaces = 8;
// The longest name of a host in the domain name system.
constexpr size_t kMostNameBytes = 253;
// An idle connection is asked for a sign of life after this.
constexpr int kIdleSeconds = 5;
// So often who connects looks whether it is still wanted.
constexpr int kLookMs = 50;

absl::Status Lost(const char* what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

void SetOption(int fd, int level, int name, int value) {
  // Without it the connection is slower, or its end is noticed later.
  (void)setsockopt(fd, level, name, &value, sizeof(value));
}

// Returns the addresses of a place: those that the host's name has, or its own.
absl::StatusOr<std::vector<SocketAddress>> LookUp(const std::string& place) {
  const auto address = SocketAddress::Parse(place);
  if (address.ok()) return std::vector<SocketAddress>{*address};
  const size_t colon = place.rfind(':');
  // A name has neither further colons nor brackets.
  uint32_t number = 0;
  if (colon == std::string::npos || colon == 0 || colon > kMostNameBytes ||
      place.find_first_of("[]:") != colon || !absl::SimpleAtoi(place.substr(colon + 1), &number) ||
      number == 0 || number > UINT16_MAX) {
    return address.status();
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host = place.substr(0, colon), port = place.substr(colon + 1);
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const auto one = SocketAddress::Of(*at->ai_addr, at->ai_addrlen);
    if (one.ok() && addresses.size() < kMostPlaces) addresses.push_back(*one);
  }
  return addresses;
}

absl::StatusOr<UniqueFd> ConnectTo(const SocketAddress& address, absl::Time until,
                                   const std::function<bool()>& given_up) {
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Lost("no socket", errno);
  if (connect(fd.get(), address.get(), address.size()) == 0) return fd;
  if (errno != EINPROGRESS) return Lost("cannot connect", errno);
  while (PollSocket(fd.get(), POLLOUT, std::min(PollMilliseconds(until), kLookMs)) == 0) {
    if (absl::Now() >= until || (given_up != nullptr && given_up())) {
      return absl::UnavailableError(absl::StrCat("nobody answers at ", address.ToString()));
    }
  }
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return Lost("cannot connect", error);
  return fd;
}

}  // namespace

short PollSocket(int fd, short events, int timeout_ms) {
  pollfd polled = {.fd = fd, .events = events, .revents = 0};
  if (poll(&polled, 1, timeout_ms) <= 0) return 0;
  return polled.revents & (POLLERR | POLLHUP | POLLNVAL) ? events : polled.revents;
}

int PollMilliseconds(absl::Time until) {
  const absl::Duration left = std::max(until - absl::Now(), absl::ZeroDuration());
  return static_cast<int>(
      absl::ToInt64Milliseconds(std::min(absl::Ceil(left, absl::Milliseconds(1)), absl::Hours(1))));
}

void ExpectSignsOfLife(int fd, int seconds) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
}

absl::StatusOr<UniqueFd> ConnectTcp(absl::string_view places, absl::Time until,
                                    const std::function<bool()>& given_up) {
  const std::vector<std::string> all = absl::StrSplit(places, ',');
  if (all.size() > kMostPlaces) return absl::InvalidArgumentError("too many places to connect to");
  absl::Status why = absl::UnavailableError("a host without an address");
  for (size_t i = 0; i < all.size(); ++i) {
    const auto addresses = LookUp(all[i]);
    if (!addresses.ok()) why = addresses.status();
    const size_t count = addresses.ok() ? addresses->size() : 0;
    for (size_t j = 0; j < count; ++j) {
      if (given_up != nullptr && given_up()) return why;
      const absl::Time now = absl::Now();
      // The later places have one address each, as far as is known.
      const auto left = static_cast<double>(count - j + all.size() - i - 1);
      auto fd = ConnectTo((*addresses)[j], now + (until - now) / left, given_up);
      if (fd.ok()) return fd;
      why = fd.status();
    }
  }
  return why;
}

}  // namespace warpline
