#include "server/gpu_server/children/launcher/supervised_launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/packets/packet_socket.h"
#include "proto/supervisor.pb.h"

namespace warpline::supervisor {
namespace {

using warpline_internal::FromSupervisor;
using warpline_internal::SpawnProcess;
using warpline_internal::ToSupervisor;

enum LauncherLine : size_t { kDiedLine, kLauncherLineCount };
constexpr LogKind kLauncherLines[kLauncherLineCount] = {{"supervisors_died", 10, absl::Minutes(1)}};

// What becomes of a process whose supervisor is no more.
constexpr ChildExit kWithSupervisor = {.by_signal = true, .value = SIGKILL};

class SupervisedProcess final : public RunningProcess {
 public:
  // `told` is where the supervisor says how the process ended.
  SupervisedProcess(pid_t pid, UniqueFd pid_fd, UniqueFd told)
      : pid_(pid), pid_fd_(std::move(pid_fd)), told_(std::move(told)) {
    fcntl(told_.get(), F_SETFL, O_NONBLOCK);
  }
  ~SupervisedProcess() override {
    if (exit_.has_value()) return;
    Kill();
    Reap();
  }

  pid_t pid() const override { return pid_; }
  int exit_fd() const override { return told_.get(); }

  void Kill() override {
    // Not by its number, which may be another's once the supervisor has reaped it.
    if (!exit_.has_value()) syscall(SYS_pidfd_send_signal, pid_fd_.get(), SIGKILL, nullptr, 0);
  }

  std::optional<ChildExit> TryReap() override {
    if (exit_.has_value()) return exit_;
    FromSupervisor message;
    const absl::Status received = ReceivePacket(told_.get(), &message, nullptr);
    if (absl::IsNotFound(received)) return std::nullopt;
    exit_ = received.ok() && message.has_exited()
                ? ChildExit{message.exited().by_signal(), message.exited().value()}
                : kWithSupervisor;
    return exit_;
  }

  ChildExit Reap() override {
    while (!TryReap().has_value()) {
      pollfd entry = {told_.get(), POLLIN, 0};
      poll(&entry, 1, -1);
    }
    return *exit_;
  }

 private:
  const pid_t pid_;
  const UniqueFd pid_fd_;
  const UniqueFd told_;
  std::optional<ChildExit> exit_;
};

ToSupervisor RequestFor(ProcessRole role, const ChildOptions& options) {
  ToSupervisor message;
  SpawnProcess* const spawn = message.mutable_spawn();
  spawn->set_role(SpecOf(role).name);
  spawn->set_path(options.path);
  for (const std::string& arg : options.args) spawn->add_args(arg);
  for (const auto& [name, value] : options.environment) {
    auto* const variable = spawn->add_environment();
    variable->set_name(name);
    variable->set_value(value);
  }
  spawn->set_same_addresses(options.same_addresses);
  return message;
}

// UNAVAILABLE when there is no supervisor behind `supervisor` any more.
absl::StatusOr<std::unique_ptr<RunningProcess>> Ask(int supervisor, const ToSupervisor& request,
                                                    UniqueFd* socket) {
  auto own = PacketSocketPair();
  if (!own.ok()) return own.status();
  auto told = PacketSocketPair();
  if (!told.ok()) return told.status();
  const int fds[] = {own->second.get(), told->second.get()};
  const absl::Status sent = SendPacket(supervisor, request, fds);
  if (!sent.ok()) return sent;
  // From here on the end of the supervisor, or of the process, is the end of its sockets.
  own->second = UniqueFd();
  told->second = UniqueFd();
  FromSupervisor answer;
  std::vector<UniqueFd> received;
  const absl::Status status = ReceivePacket(told->first.get(), &answer, &received);
  if (!status.ok()) return status;
  const auto& spawned = answer.spawned();
  if (spawned.code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(spawned.code()), spawned.message());
  }
  if (!answer.has_spawned() || received.size() != 1) {
    return absl::InternalError("the supervisor says nothing of the process");
  }
  *socket = std::move(own->first);
  return std::make_unique<SupervisedProcess>(spawned.pid(), std::move(received[0]),
                                             std::move(told->first));
}

}  // namespace

SupervisedLauncher::SupervisedLauncher(ChildOptions program)
    : program_(std::move(program)), log_(kLauncherLines) {}

absl::StatusOr<std::unique_ptr<SupervisedLauncher>> SupervisedLauncher::Create(
    ChildOptions program) {
  auto connection = Connect(program);
  if (!connection.ok()) return connection.status();
  std::unique_ptr<SupervisedLauncher> launcher(new SupervisedLauncher(std::move(program)));
  MutexLock lock(&launcher->mu_);
  launcher->connection_ = *std::move(connection);
  return launcher;
}

absl::StatusOr<std::shared_ptr<SupervisedLauncher::Connection>> SupervisedLauncher::Connect(
    const ChildOptions& program) {
  auto connection = std::make_shared<Connection>();
  auto process = ChildProcess::Start(program, &connection->socket);
  if (!process.ok()) return process.status();
  connection->process = *std::move(process);
  return connection;
}

std::shared_ptr<SupervisedLauncher::Connection> SupervisedLauncher::current() const {
  MutexLock lock(&mu_);
  return connection_;
}

pid_t SupervisedLauncher::supervisor_pid() const { return current()->process->pid(); }

absl::Status SupervisedLauncher::Replace(const std::shared_ptr<Connection>& lost) {
  MutexLock lock(&mu_);
  if (connection_ != lost) return absl::OkStatus();
  if (const LogPermit permit = log_.Ask(kDiedLine)) {
    permit.Warning("the supervisor of workers and keepers died pid=", lost->process->pid());
  }
  auto connection = Connect(program_);
  if (!connection.ok()) return connection.status();
  connection_ = *std::move(connection);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RunningProcess>> SupervisedLauncher::Launch(
    ProcessRole role, const ChildOptions& options, UniqueFd* socket) {
  const ToSupervisor request = RequestFor(role, options);
  const auto connection = current();
  auto process = Ask(connection->socket.get(), request, socket);
  if (!absl::IsUnavailable(process.status())) return process;
  const absl::Status replaced = Replace(connection);
  if (!replaced.ok()) return replaced;
  return Ask(current()->socket.get(), request, socket);
}

}  // namespace warpline::supervisor
