#include "transport/grpc/listen/connection_book.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/unique_fd.h"
#include "transport/grpc/meter/metered_connections.h"
#include "transport/grpc/meter/socket_inode.h"

namespace warpline::grpc_internal {
namespace {

// Of a connection's other end.
struct End {
  std::string name;  // As gRPC has it, unescaped; empty when gRPC has none for it.
  std::string peer;
};

std::string Unescaped(const std::string& name) {
  return absl::StrReplaceAll(name, {{"%5B", "["}, {"%5D", "]"}});
}

End InternetEnd(int family, const void* address, in_port_t port) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, address, text, sizeof(text));
  if (family == AF_INET) {
    return {absl::StrCat("ipv4:", text, ":", ntohs(port)), absl::StrCat("ipv4:", text)};
  }
  in6_addr network;
  std::memcpy(&network, address, sizeof(network));
  std::fill(network.s6_addr + 8, network.s6_addr + 16, 0);
  char of_network[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, &network, of_network, sizeof(of_network));
  return {absl::StrCat("ipv6:[", text, "]:", ntohs(port)), absl::StrCat("ipv6:", of_network)};
}

// gRPC escapes what is not among these.
bool IsPlain(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ||
           c == '/';
  });
}

End UnixEnd(int fd, const sockaddr_un& address, socklen_t size) {
  ucred who = {};
  socklen_t who_size = sizeof(who);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_size) != 0) return {"", "unix"};
  End end = {"", absl::StrCat("uid=", who.uid)};
  const size_t length = size - std::min<size_t>(size, offsetof(sockaddr_un, sun_path));
  if (length <= 1) return end;
  const bool abstract = address.sun_path[0] == '\0';
  const std::string path(address.sun_path + (abstract ? 1 : 0),
                         abstract ? length - 1 : strnlen(address.sun_path, length));
  if (IsPlain(path)) end.name = absl::StrCat(abstract ? "unix-abstract:" : "unix:", path);
  return end;
}

End OtherEnd(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  if (address.ss_family == AF_UNIX) {
    return UnixEnd(fd, reinterpret_cast<const sockaddr_un&>(address), size);
  }
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return InternetEnd(AF_INET, &v4.sin_addr, v4.sin_port);
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  // As gRPC does it, so that a peer is the same whichever socket it came by.
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    return InternetEnd(AF_INET, v6.sin6_addr.s6_addr + 12, v6.sin6_port);
  }
  return InternetEnd(AF_INET6, &v6.sin6_addr, v6.sin6_port);
}

}  // namespace

std::string PeerOfOtherEnd(int fd) { return OtherEnd(fd).peer; }

std::string NameOfOtherEnd(int fd) {
  const End end = OtherEnd(fd);
  return end.name.empty() ? end.peer : end.name;
}

bool ConnectionBook::Add(int fd, bool* made_room) {
  *made_room = false;
  End end = OtherEnd(fd);
  MutexLock lock(&mu_);
  // A connection that was closed may have left its name to this one.
  if (const auto former = connections_.find(end.name);
      !end.name.empty() && former != connections_.end()) {
    Drop(former);
  }
  const bool nameless = end.name.empty();
  if (!MakeRoomFor(end.peer, nameless, made_room)) return false;
  const StrangerBook::Id id = ++last_id_;
  if (nameless) {
    // No name of gRPC's looks like this.
    end.name = absl::StrCat("#", id);
    ++nameless_[end.peer];
  } else if (const auto oldest = strangers_.Add(id, end.peer)) {
    ShutDown(*oldest);
    *made_room = true;
  }
  names_[id] = end.name;
  connections_[end.name] = {id, fd, SocketInode(fd), std::move(end.peer)};
  return true;
}

bool ConnectionBook::MakeRoomFor(const std::string& peer, bool nameless, bool* made_room) {
  const auto full = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return connections_.size() >= limits_.most;
  };
  const auto crowded = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto found = nameless_.find(peer);
    return nameless && found != nameless_.end() && found->second >= limits_.most_strange_of_peer;
  };
  if (full() || crowded() || strangers_.size() >= limits_.most_strange_of_peer) DropClosed();
  if (crowded()) return false;
  if (!full()) return true;
  const auto oldest = strangers_.TakeOldest();
  if (!oldest.has_value()) return false;
  ShutDown(*oldest);
  *made_room = true;
  return true;
}

// A descriptor that is no socket any more, or another one, was closed.
void ConnectionBook::DropClosed() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto next = std::next(it);
    if (SocketInode(it->second.fd) != it->second.inode) Drop(it);
    it = next;
  }
}

void ConnectionBook::Drop(Connections::iterator connection) {
  const StrangerBook::Id id = connection->second.id;
  strangers_.Remove(id);
  names_.erase(id);
  if (connection->first.front() == '#') {
    const auto peer = nameless_.find(connection->second.peer);
    if (--peer->second == 0) nameless_.erase(peer);
  }
  connections_.erase(connection);
}

void ConnectionBook::ShutDown(StrangerBook::Id id) {
  const auto connection = connections_.find(names_.at(id));
  // gRPC may close the descriptor at this moment, and another file get its number. A copy stays
  // what it is while it is looked at.
  const UniqueFd copy(fcntl(connection->second.fd, F_DUPFD_CLOEXEC, 0));
  if (copy.valid() && SocketInode(copy.get()) == connection->second.inode) {
    (void)shutdown(copy.get(), SHUT_RDWR);
  }
  Drop(connection);
}

std::string ConnectionBook::PeerOf(const std::string& name) const {
  MutexLock lock(&mu_);
  const auto found = connections_.find(Unescaped(name));
  return found == connections_.end() ? "" : found->second.peer;
}

void ConnectionBook::Admit(const std::string& name) {
  MutexLock lock(&mu_);
  const auto found = connections_.find(Unescaped(name));
  if (found == connections_.end()) return;
  if (++found->second.admitted == 1) AdmitConnection(found->second.fd, true);
  strangers_.Remove(found->second.id);
}

void ConnectionBook::Leave(const std::string& name) {
  MutexLock lock(&mu_);
  const auto found = connections_.find(Unescaped(name));
  if (found == connections_.end() || found->second.admitted == 0) return;
  if (--found->second.admitted > 0) return;
  AdmitConnection(found->second.fd, false);
  const auto oldest = strangers_.Add(found->second.id, found->second.peer);
  if (oldest.has_value()) ShutDown(*oldest);
}

void ConnectionBook::Touch(const std::string& name) {
  MutexLock lock(&mu_);
  const auto found = connections_.find(Unescaped(name));
  if (found != connections_.end()) strangers_.Touch(found->second.id);
}

size_t ConnectionBook::size() const {
  MutexLock lock(&mu_);
  return connections_.size();
}

}  // namespace warpline::grpc_internal
