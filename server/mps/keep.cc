#include "server/mps/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "common/packets/packet_socket.h"
#include "common/unique_fd.h"
#include "proto/mps.pb.h"
#include "server/jail/jail.h"
#include "server/mps/daemon.h"

namespace warpline::mps {
namespace {

using warpline_internal::MpsPrepared;
using warpline_internal::PrepareMps;

// The jail has the process killed with its parent, and then nobody would end what the daemon has
// started.
absl::Status CloseJail(const PrepareMps& order, MpsPrepared* prepared) {
  if (!order.has_jail()) return absl::OkStatus();
  jail::Jail jail(order.jail());
  absl::Status status = jail.CloseBeforeDriver();
  if (status.ok()) status = jail.CloseBeforeTenants();
  *prepared->mutable_jail() = jail.report();
  prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
  return status;
}

// A descriptor that is readable when a child has ended.
absl::StatusOr<UniqueFd> WatchChildren() {
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  if (sigprocmask(SIG_BLOCK, &children, nullptr) != 0) {
    return absl::ErrnoToStatus(errno, "sigprocmask");
  }
  UniqueFd fd(signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "signalfd");
  return fd;
}

// Returns OK when the server has closed `socket` or `parent` is at its end, and otherwise that the
// daemon has ended.
absl::Status WaitForEnd(int socket, int parent, int children, Daemon* daemon) {
  while (!daemon->Ended()) {
    pollfd entries[] = {{socket, POLLIN, 0}, {parent, POLLIN, 0}, {children, POLLIN, 0}};
    if (poll(entries, 3, -1) < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "poll");
    signalfd_siginfo seen;
    while (read(children, &seen, sizeof(seen)) > 0) {
    }
    // The server has nothing more to say.
    if (entries[0].revents != 0 || entries[1].revents != 0) return absl::OkStatus();
  }
  return absl::UnavailableError("the daemon has ended");
}

absl::Status Serve(int socket, int parent, const PrepareMps& order) {
  MpsPrepared prepared;
  auto children = WatchChildren();
  absl::Status status = children.status();
  if (status.ok()) status = CloseJail(order, &prepared);
  DaemonOptions options;
  options.control = order.control();
  options.folder = order.folder();
  if (order.start_timeout_ms() != 0) {
    options.start_timeout = absl::Milliseconds(order.start_timeout_ms());
  }
  Daemon daemon(std::move(options));
  if (status.ok()) status = daemon.Start();
  // Before there is anything of a tenant, so that it is known who that process is.
  if (status.ok()) prepared.set_server(daemon.StartServer(getuid()));
  if (!status.ok()) prepared.set_error(std::string(status.message()));
  const absl::Status sent = SendPacket(socket, prepared, {});
  if (!status.ok()) return status;
  return sent.ok() ? WaitForEnd(socket, parent, children->get(), &daemon) : absl::OkStatus();
}

}  // namespace

absl::Status Keep(int socket) {
  PrepareMps order;
  const absl::Status received = ReceivePacket(socket, &order, nullptr);
  if (!received.ok()) return received;
  int life[2];
  if (pipe2(life, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  UniqueFd parent(life[0]);
  UniqueFd own(life[1]);
  const pid_t second = fork();
  if (second < 0) return absl::ErrnoToStatus(errno, "fork");
  if (second == 0) {
    own = UniqueFd();
    return Serve(socket, parent.get(), order);
  }
  // So that the end of the second process is the end of the socket.
  close(socket);
  parent = UniqueFd();
  int status = 0;
  while (waitpid(second, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::UnavailableError("the process that keeps the daemon has failed");
}

}  // namespace warpline::mps
