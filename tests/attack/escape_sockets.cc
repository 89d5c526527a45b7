// Attempts to talk to somebody: by sockets, by handing on descriptors, by System V IPC.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "common/unique_fd.h"
#include "tests/attack/escape.h"

namespace warpline::attack {
namespace {

using jail::Layer;
using jail::LayerSet;

constexpr LayerSet kCalls = Layer::kSystemCalls;
constexpr LayerSet kNetwork = LayerSet(Layer::kNamespaces) | kCalls;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Result ConnectTcp(const Targets& t) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Judge(false);
  const sockaddr_in address = Loopback(t.tcp_port);
  return Judge(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
               0);
}
Result SendUdp(const Targets& t) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Judge(false);
  const sockaddr_in address = Loopback(t.udp_port);
  return Judge(sendto(fd.get(), "out", 3, 0, reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)) == 3);
}

// Connects to a unix socket, by path or, with `abstract`, by name.
UniqueFd ConnectUnix(const std::string& name, bool abstract) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return UniqueFd();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  char* const at = address.sun_path + (abstract ? 1 : 0);
  const size_t bytes = name.copy(at, sizeof(address.sun_path) - 2);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + bytes + 1);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return UniqueFd();
  }
  return fd;
}
Result ConnectPath(const Targets& t) { return Judge(ConnectUnix(t.unix_socket, false).valid()); }
Result ConnectAbstract(const Targets& t) {
  return Judge(ConnectUnix(t.abstract_socket, true).valid());
}

// Hands one of its own descriptors, as that of a chunk would be, to whoever listens.
Result HandOnDescriptor(const Targets& t) {
  const UniqueFd fd = ConnectUnix(t.unix_socket, false);
  if (!fd.valid()) return Judge(false);
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int own = 0;
  memcpy(CMSG_DATA(header), &own, sizeof(own));
  return Judge(sendmsg(fd.get(), &message, 0) == 1);
}

Result Listen(const Targets&) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Judge(false);
  const sockaddr_in address = Loopback(0);
  return Judge(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
               listen(fd.get(), 1) == 0);
}

template <int kFamily, int kType, int kProtocol>
Result MakeSocket(const Targets&) {
  const UniqueFd fd(socket(kFamily, kType | SOCK_CLOEXEC, kProtocol));
  return Judge(fd.valid());
}
Result MakeSocketPair(const Targets&) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return Judge(false);
  close(ends[0]);
  close(ends[1]);
  return Judge(true);
}

Result AttachSharedMemory(const Targets& t) {
  const int id = shmget(t.ipc_key, 0, 0);
  if (id < 0) return Judge(false);
  void* const at = shmat(id, nullptr, 0);
  const bool attached = at != reinterpret_cast<void*>(-1);
  const Result result = Judge(attached);
  if (attached) shmdt(at);
  return result;
}
Result MakeMessageQueue(const Targets&) {
  const int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  const Result result = Judge(id >= 0);
  if (id >= 0) msgctl(id, IPC_RMID, nullptr);
  return result;
}

constexpr int kAfAlg = 38, kAfVsock = 40;

constexpr Attempt kAttempts[] = {
    {"connect_by_tcp", kNetwork | Layer::kFiles, &ConnectTcp},
    {"listen_on_tcp", kCalls | Layer::kFiles, &Listen},
    {"send_by_udp", kNetwork, &SendUdp},
    {"connect_to_socket_file", kCalls, &ConnectPath},
    {"connect_to_abstract_socket", kNetwork | Layer::kFiles, &ConnectAbstract},
    {"hand_on_a_descriptor", kCalls, &HandOnDescriptor},
    {"make_a_socket_pair", kCalls, &MakeSocketPair},
    {"make_a_netlink_socket", kCalls, &MakeSocket<AF_NETLINK, SOCK_RAW, 0>},
    {"make_a_packet_socket", kCalls | Layer::kCapabilities | Layer::kIdentity,
     &MakeSocket<AF_PACKET, SOCK_RAW, 0>},
    {"make_a_raw_socket", kCalls | Layer::kCapabilities | Layer::kIdentity,
     &MakeSocket<AF_INET, SOCK_RAW, IPPROTO_ICMP>},
    {"make_a_vsock_socket", kCalls, &MakeSocket<kAfVsock, SOCK_STREAM, 0>},
    {"make_a_crypto_socket", kCalls, &MakeSocket<kAfAlg, SOCK_SEQPACKET, 0>},
    {"attach_shared_memory", kNetwork, &AttachSharedMemory},
    {"make_a_message_queue", kCalls, &MakeMessageQueue},
};

}  // namespace

absl::Span<const Attempt> SocketAttempts() { return kAttempts; }

}  // namespace warpline::attack
