#include "client_stub/session/memory/host_memory_link.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cstring>

#include "common/log/log.h"
#include "proto/session.pb.h"
#include "transport/unix_connect.h"

namespace warpline::stub {
namespace {

using warpline_internal::HostMemoryAnswer;
using warpline_internal::HostMemoryRequest;

// This is longer than another worker takes to take over.
constexpr timeval kTimeout = {.tv_sec = 90, .tv_usec = 0};
// Connecting and sending wait only for who does not take what comes.
constexpr timeval kSendTimeout = {.tv_sec = 5, .tv_usec = 0};
constexpr size_t kMaxAnswer = 1024;

bool Receive(int socket, HostMemoryAnswer* answer, UniqueFd* fd) {
  char bytes[kMaxAnswer];
  iovec part = {bytes, sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 1) return false;
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  if (rights != nullptr && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
      rights->cmsg_len == CMSG_LEN(sizeof(int))) {
    int number;
    std::memcpy(&number, CMSG_DATA(rights), sizeof(number));
    *fd = UniqueFd(number);
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return false;
  return answer->ParseFromArray(bytes + 1, static_cast<int>(got) - 1);
}

}  // namespace

bool HostMemoryLink::Connect() {
  if (tried_) return socket_.valid();
  tried_ = true;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name_.empty() || name_.size() + 1 > sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path + 1, name_.data(), name_.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return false;
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof(kSendTimeout));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) return false;
  const auto listener = ListenerOf(socket.get());
  const absl::Status is_server =
      listener.ok() ? server_.Check("the socket for host memory", *listener) : listener.status();
  if (!is_server.ok()) {
    LogWarning("no host memory is shared with the server: ", is_server.message());
    return false;
  }
  socket_ = std::move(socket);
  return true;
}

CudaResult HostMemoryLink::Request(HostSharing what, uint64_t va, uint64_t bytes, UniqueFd* fd,
                                   std::string* why) {
  HostMemoryRequest request;
  request.set_va(va);
  request.set_bytes(bytes);
  request.set_give_back(what == HostSharing::kGiveBack);
  request.set_outlives(what == HostSharing::kTakeForProgram);
  request.set_staging(what == HostSharing::kTakeForStaging);
  return Ask(std::move(request), fd, why);
}

UniqueFd HostMemoryLink::RequestBoard() {
  HostMemoryRequest request;
  request.set_board(true);
  UniqueFd fd;
  std::string why;
  return Ask(std::move(request), &fd, &why) == CudaResult::kSuccess ? std::move(fd) : UniqueFd();
}

CudaResult HostMemoryLink::Ask(HostMemoryRequest request, UniqueFd* fd, std::string* why) {
  request.set_session(session_);
  request.set_secret(secret_);
  std::string packet(1, '\0');
  if (!request.AppendToString(&packet)) return CudaResult::kInvalidValue;
  MutexLock lock(&mu_);
  if (broken_ || !Connect()) return CudaResult::kNotSupported;
  HostMemoryAnswer answer;
  ssize_t sent;
  do {
    sent = send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent != static_cast<ssize_t>(packet.size()) || !Receive(socket_.get(), &answer, fd)) {
    // Later answers would not belong to their requests any more. The connection stays, for memory
    // that outlives the session lives as long as that.
    broken_ = true;
    return CudaResult::kNotSupported;
  }
  *why = answer.message();
  return static_cast<CudaResult>(answer.error());
}

}  // namespace warpline::stub
