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

// Returns the first address of the host's name.
absl::StatusOr<SocketAddress> LookUp(const std::string& place) {
  auto address = SocketAddress::Parse(place);
  if (address.ok()) return address;
  const size_t colon = place.rfind(':');
  // A name has neither further colons nor brackets.
  uint32_t number = 0;
  if (colon == std::string::npos || colon == 0 || colon > kMostNameBytes ||
      place.find_first_of("[]:") != colon || !absl::SimpleAtoi(place.substr(colon + 1), &number) ||
      number == 0 || number > UINT16_MAX) {
    return address;
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
  return SocketAddress::Of(*all->ai_addr, all->ai_addrlen);
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& place, absl::Time until,
                                   const std::function<bool()>& given_up) {
  const auto address = LookUp(place);
  if (!address.ok()) return address.status();
  UniqueFd fd(socket(address->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Lost("no socket", errno);
  if (connect(fd.get(), address->get(), address->size()) == 0) return fd;
  if (errno != EINPROGRESS) return Lost("cannot connect", errno);
  while (PollSocket(fd.get(), POLLOUT, std::min(PollMilliseconds(until), kLookMs)) == 0) {
    if (absl::Now() >= until || (given_up != nullptr && given_up())) {
      return absl::UnavailableError(absl::StrCat("nobody answers at ", place));
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
  absl::Status why;
  for (size_t i = 0; i < all.size(); ++i) {
    const absl::Time now = absl::Now();
    const auto left = static_cast<double>(all.size() - i);
    auto fd = ConnectTo(all[i], now + (until - now) / left, given_up);
    if (fd.ok()) return fd;
    why = fd.status();
    if (given_up != nullptr && given_up()) break;
  }
  return why;
}

}  // namespace warpline
