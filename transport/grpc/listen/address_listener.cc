#include "transport/grpc/listen/address_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "transport/grpc/listen/own_user.h"
#include "transport/grpc/meter/metered_connections.h"
#include "transport/loop_thread.h"

namespace warpline::grpc_internal {
namespace {

constexpr int kBacklog = 1024;
// The connections that come from the system before one is passed on, which costs far more.
constexpr int kAcceptedAtOnce = 64;
// While there are no descriptors, connections wait for this long.
constexpr int kStarvedMs = 50;

enum ListenerLine : size_t { kFullLine, kOtherUserLine, kListenerLineCount };
constexpr LogKind kListenerLines[kListenerLineCount] = {
    {"listener_full", 10, absl::Minutes(1)}, {"other_users_refused", 10, absl::Minutes(1)}};

absl::Status Cannot(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

UniqueFd NewSocket(int family) {
  return UniqueFd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void SetOption(int fd, int level, int name, int value) {
  (void)setsockopt(fd, level, name, &value, sizeof(value));
}

int PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
}

void SetPort(sockaddr* address, int port) {
  if (address->sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(static_cast<uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(static_cast<uint16_t>(port));
  }
}

}  // namespace

absl::Status AddressListener::Bind(const std::string& address) {
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) {
    absl::ConsumePrefix(&path, "//");  // "unix:///path" is the same.
    return BindUnix(std::string(path));
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Cannot(address, "it names no port");
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return BindHost(host, address.substr(colon + 1));
}

absl::Status AddressListener::BindUnix(const std::string& path) {
  const std::string name = absl::StrCat("unix:", path);
  sockaddr_un address = {};
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Cannot(name, "the path is too long");
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  struct stat info = {};
  if (lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) {
    const UniqueFd probe = NewSocket(AF_UNIX);
    if (connect(probe.get(), generic, sizeof(address)) == 0 || errno == EAGAIN) {
      return Cannot(name, "somebody listens there");
    }
    unlink(path.c_str());
  }
  UniqueFd fd = NewSocket(AF_UNIX);
  // The file gets the mode of the socket, so that there is no moment in which others may connect.
  if (own_user_only_ && fd.valid() && fchmod(fd.get(), 0600) != 0) {
    return Cannot(name, std::strerror(errno));
  }
  if (!fd.valid() || bind(fd.get(), generic, sizeof(address)) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return Cannot(name, std::strerror(errno));
  }
  socket_path_ = path;
  sockets_.push_back(std::move(fd));
  return absl::OkStatus();
}

absl::Status AddressListener::BindHost(const std::string& host, const std::string& port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  const std::string name = absl::StrCat(ipv6 ? "[" : "", host, ipv6 ? "]:" : ":", port);
  // getaddrinfo() would take 65537 for 1.
  int number = 0;
  if (!absl::SimpleAtoi(port, &number) || number < 0 || number > 65535) {
    return Cannot(name, "it names no port");
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list);
  if (error != 0) return Cannot(name, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(list, &freeaddrinfo);
  // A name may have addresses of which this host has only some: one is enough.
  std::string problem = "it has no address";
  for (addrinfo* info = list; info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    // All on the port that the first one got.
    if (port_ != 0) SetPort(info->ai_addr, port_);
    UniqueFd fd = NewSocket(info->ai_family);
    SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    // [::] takes connections over IPv4, too.
    if (info->ai_family == AF_INET6) SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (!fd.valid() || bind(fd.get(), info->ai_addr, info->ai_addrlen) != 0 ||
        listen(fd.get(), kBacklog) != 0) {
      problem = std::strerror(errno);
      continue;
    }
    if (port_ == 0) port_ = PortOf(fd.get());
    sockets_.push_back(std::move(fd));
  }
  return sockets_.empty() ? Cannot(name, problem) : absl::OkStatus();
}

AddressListener::AddressListener(const ConnectionLimits& limits)
    : limits_(limits), connections_(limits), log_(kListenerLines) {}

absl::Status AddressListener::Start(Take take) {
  take_ = std::move(take);
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) return absl::ResourceExhaustedError(std::strerror(errno));
  auto thread = TryStartLoopThread("wl-listen", [this] {
    const LoopScope scope(&on_listener_);
    Run();
  });
  if (!thread.ok()) return thread.status();
  thread_ = *std::move(thread);
  return absl::OkStatus();
}

void AddressListener::Stop() {
  if (thread_.joinable()) {
    (void)eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  if (!sockets_.empty() && !socket_path_.empty()) unlink(socket_path_.c_str());
  sockets_.clear();
}

void AddressListener::Run() {
  std::vector<pollfd> waited = {{stop_.get(), POLLIN, 0}};
  for (const UniqueFd& socket : sockets_) waited.push_back({socket.get(), POLLIN, 0});
  while (true) {
    if (poll(waited.data(), waited.size(), waiting_count_ == 0 ? -1 : 0) < 0) continue;
    if (waited[0].revents != 0) break;
    for (size_t i = 1; i < waited.size(); ++i) {
      if (waited[i].revents != 0) AcceptFrom(waited[i].fd);
    }
    if (waiting_count_ > 0) PassOnNext();
  }
  waiting_.clear();
  waiting_count_ = 0;
}

void AddressListener::AcceptFrom(int socket) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    UniqueFd fd(accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      // A connection that is gone already has left nothing.
      const bool starved =
          errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      pollfd stop = {stop_.get(), POLLIN, 0};
      if (starved && waiting_count_ == 0) poll(&stop, 1, kStarvedMs);
      return;
    }
    if (own_user_only_ && !IsOwnUser(fd.get())) {
      if (const LogPermit permit = log_.Ask(kOtherUserLine)) {
        permit.Warning("refusing another user's process at ", socket_path_);
      }
      continue;
    }
    std::deque<UniqueFd>& peers = waiting_[PeerOfOtherEnd(fd.get())];
    peers.push_back(std::move(fd));
    ++waiting_count_;
    if (peers.size() > limits_.most_strange_of_peer || waiting_count_ > limits_.most) DropOldest();
  }
}

void AddressListener::DropOldest() {
  const auto most = std::max_element(
      waiting_.begin(), waiting_.end(),
      [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); });
  most->second.pop_front();
  if (most->second.empty()) waiting_.erase(most);
  --waiting_count_;
  NoteFull(true, "closed a connection before its turn");
}

void AddressListener::PassOnNext() {
  auto next = waiting_.upper_bound(last_peer_);
  if (next == waiting_.end()) next = waiting_.begin();
  last_peer_ = next->first;
  UniqueFd fd = std::move(next->second.front());
  next->second.pop_front();
  if (next->second.empty()) waiting_.erase(next);
  --waiting_count_;
  PassOn(std::move(fd));
}

void AddressListener::PassOn(UniqueFd fd) {
  bool made_room = false;
  const bool taken = connections_.Add(fd.get(), &made_room);
  NoteFull(!taken || made_room,
           taken ? "closed the oldest connection that had no session" : "refused a connection");
  if (!taken || !MeterConnection(fd.get(), NameOfOtherEnd(fd.get()))) return;
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);  // Nothing on a unix socket.
  take_(fd.Release());
}

void AddressListener::NoteFull(bool full, const char* what) {
  if (full && !said_full_) {
    // A peer that closes one connection for each that it opens gets here every time.
    if (const LogPermit permit = log_.Ask(kFullLine)) {
      permit.Warning(what, ": there are connections=", connections_.size(), " at this address");
    }
  }
  said_full_ = full;
}

}  // namespace warpline::grpc_internal
