#include "client_stub/session/connection/local_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/unique_fd.h"
#include "transport/unix_connect.h"

namespace warpline::stub {
namespace {

constexpr char kUnix[] = "unix:";
constexpr char kListening[] = "0A";  // TCP_LISTEN, as /proc/net/tcp has it.

struct HostPort {
  std::string host;
  std::string port;
};

std::optional<HostPort> Split(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  HostPort parts = {endpoint.substr(0, colon), endpoint.substr(colon + 1)};
  if (absl::StartsWith(parts.host, "[") && absl::EndsWith(parts.host, "]")) {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  }
  return parts;
}

// The part of an address that names a host.
std::string HostBytes(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return {reinterpret_cast<const char*>(&v4.sin_addr), sizeof(v4.sin_addr)};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return {reinterpret_cast<const char*>(&v6.sin6_addr), sizeof(v6.sin6_addr)};
}

// Whether what is sent to the address stays on this host: then it comes from the same address.
// Nothing is sent.
bool IsOwnAddress(const addrinfo& info) {
  const UniqueFd fd(socket(info.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  if (!fd.valid() || connect(fd.get(), info.ai_addr, info.ai_addrlen) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return false;
  }
  sockaddr_storage target = {};
  std::memcpy(&target, info.ai_addr, info.ai_addrlen);
  return own.ss_family == target.ss_family && HostBytes(own) == HostBytes(target);
}

// Whether every address of the endpoint is this host's.
bool IsOnThisHost(const std::string& endpoint) {
  if (absl::StartsWith(endpoint, kUnix)) return true;
  const auto parts = Split(endpoint);
  if (!parts.has_value()) return false;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(parts->host.c_str(), parts->port.c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  for (const addrinfo* info = all.get(); info != nullptr; info = info->ai_next) {
    if (!IsOwnAddress(*info)) return false;
  }
  return all != nullptr;
}

// Looks for who listens at the port in a table of the kernel's, in which listening sockets come
// first: `*uid` becomes the user found last, and `*one` false when there are several.
void AddListeners(const char* table, uint32_t port, std::optional<uint32_t>* uid, bool* one) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // The names of the columns.
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string number;
    std::string local;
    std::string remote;
    std::string state;
    std::string queues;
    std::string timer;
    std::string retransmitted;
    uint32_t user = 0;
    if (!(words >> number >> local >> remote >> state >> queues >> timer >> retransmitted >>
          user)) {
      return;
    }
    if (state != kListening) return;
    uint32_t local_port = 0;
    if (!absl::SimpleHexAtoi(local.substr(local.rfind(':') + 1), &local_port)) return;
    if (local_port != port) continue;
    *one = *one && (!uid->has_value() || **uid == user);
    *uid = user;
  }
}

// Who listens at the endpoint; none where nobody does, or several users at different addresses of
// its port.
std::optional<uint32_t> ListenerAt(const std::string& endpoint) {
  std::optional<uint32_t> uid;
  if (absl::StartsWith(endpoint, kUnix)) {
    const std::string path(absl::StripPrefix(endpoint, kUnix));
    const auto connected = ConnectUnix(path, std::nullopt);
    const auto listener = connected.ok() ? ListenerOf(connected->get()) : connected.status();
    if (listener.ok()) uid = *listener;
    return uid;
  }
  const auto parts = Split(endpoint);
  uint32_t port = 0;
  bool one = true;
  if (!parts.has_value() || !absl::SimpleAtoi(parts->port, &port)) return std::nullopt;
  AddListeners("/proc/net/tcp", port, &uid, &one);
  AddListeners("/proc/net/tcp6", port, &uid, &one);
  return one ? uid : std::nullopt;
}

// Whether the number stands for all users that have none in this process's user namespace.
bool StandsForMany(uint32_t uid) {
  uint32_t overflow = 65534;
  std::ifstream("/proc/sys/kernel/overflowuid") >> overflow;
  if (uid != overflow) return false;
  // Where every number is mapped, it is a user like others.
  uint64_t inside = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  std::ifstream map("/proc/self/uid_map");
  return !(map >> inside >> outside >> count) || count < UINT32_MAX;
}

}  // namespace

absl::Status LocalServer::Check(const std::string& where, uint32_t uid) const {
  if (!IsOnThisHost(endpoint_)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the server names ", where, ", but ", endpoint_, " is not on this host"));
  }
  if (StandsForMany(uid)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "who listens at ", where, " cannot be told: the user has no number in this container"));
  }
  if (uid == 0 || uid == geteuid() || ListenerAt(endpoint_) == uid) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("who listens at ", where, " is user ", uid,
                   ", who is neither this program's, nor root, nor the one at ", endpoint_));
}

absl::Status LocalServer::CheckSocket(const std::string& path, uint32_t uid) const {
  struct stat about = {};
  if (!absl::StartsWith(path, "/") || lstat(path.c_str(), &about) != 0 ||
      !S_ISSOCK(about.st_mode)) {
    return absl::PermissionDeniedError(
        absl::StrCat("what the server names is not a socket's path: ", path));
  }
  if (about.st_uid != uid && about.st_uid != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the socket ", path, " is of user ", about.st_uid, ", and user ", uid, " listens there"));
  }
  return Check(path, uid);
}

}  // namespace warpline::stub
