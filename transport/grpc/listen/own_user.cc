#include "transport/grpc/listen/own_user.h"

#include <sys/socket.h>
#include <unistd.h>

#include "common/process_status.h"

namespace warpline::grpc_internal {
namespace {

// Longer lines of processes are a circle of reused numbers.
constexpr int kMostGenerations = 1024;

// Negative where it cannot be told.
pid_t ParentOf(pid_t pid) {
  const auto status = ReadProcessStatus(pid);
  return status.has_value() ? status->parent : -1;
}

}  // namespace

bool MayDescendFrom(pid_t pid, pid_t ancestor) {
  for (int i = 0; i < kMostGenerations; ++i) {
    if (pid == ancestor || pid < 0) return true;
    if (pid <= 1) return false;
    pid = ParentOf(pid);
  }
  return true;
}

bool IsOwnUser(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  if (peer.uid == 0 && geteuid() != 0) return true;
  if (peer.uid != geteuid()) return false;
  // A process in this one's own namespace has a number; one outside of it was not started here.
  if (peer.pid == 0) return true;
  return peer.pid == getpid() || !MayDescendFrom(peer.pid, getpid());
}

}  // namespace warpline::grpc_internal
