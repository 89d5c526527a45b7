#include "server/supervisor/supervisor.h"

#include <errno.h>
#include <poll.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/packets/packet_socket.h"
#include "server/hostlink/process/process_roles.h"

namespace warpline::supervisor {

using warpline_internal::FromSupervisor;
using warpline_internal::SpawnProcess;
using warpline_internal::ToSupervisor;

namespace {

// The child's socket, and where its end is told.
constexpr size_t kSpawnFds = 2;

// INVALID_ARGUMENT for a role that is not started here.
absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const SpawnProcess& spawn, UniqueFd socket) {
  const auto role = RoleNamed(spawn.role());
  if (!role.has_value() || SpecOf(*role).started_by != ProcessRole::kSupervisor) {
    return absl::InvalidArgumentError(absl::StrCat("a supervisor starts no ", spawn.role()));
  }
  ChildOptions options;
  options.path = spawn.path();
  options.args = {spawn.args().begin(), spawn.args().end()};
  for (const auto& variable : spawn.environment()) {
    options.environment.emplace_back(variable.name(), variable.value());
  }
  options.same_addresses = spawn.same_addresses();
  return ChildProcess::StartWith(options, std::move(socket));
}

}  // namespace

Supervisor::~Supervisor() {
  // All at once: the kernel takes some of them down slowly.
  for (const Child& child : children_) child.process->Kill();
}

absl::Status Supervisor::Run() {
  while (true) {
    std::vector<pollfd> entries = {{socket_, POLLIN, 0}};
    for (const Child& child : children_) {
      entries.push_back({child.process->exit_fd(), POLLIN, 0});
    }
    if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) {
      return absl::ErrnoToStatus(errno, "poll");
    }
    ReapEnded();
    if (entries[0].revents == 0) continue;
    const absl::Status status = OnServer();
    if (absl::IsUnavailable(status)) return absl::OkStatus();
    if (!status.ok()) return status;
  }
}

absl::Status Supervisor::OnServer() {
  ToSupervisor message;
  std::vector<UniqueFd> fds;
  const absl::Status received = ReceivePacket(socket_, &message, &fds);
  // Whoever asked finds that nobody holds the other end of its sockets.
  if (absl::IsResourceExhausted(received)) return absl::OkStatus();
  if (!received.ok()) return received;
  if (message.has_spawn() && fds.size() == kSpawnFds) Spawn(message.spawn(), std::move(fds));
  return absl::OkStatus();
}

void Supervisor::Spawn(const SpawnProcess& spawn, std::vector<UniqueFd> fds) {
  Child child;
  child.told = std::move(fds[1]);
  auto process = Start(spawn, std::move(fds[0]));
  FromSupervisor answer;
  auto* const spawned = answer.mutable_spawned();
  if (!process.ok()) {
    spawned->set_code(static_cast<int>(process.status().code()));
    spawned->set_message(std::string(process.status().message()));
    (void)SendPacket(child.told.get(), answer, {});
    return;
  }
  child.process = *std::move(process);
  spawned->set_pid(child.process->pid());
  const int pid_fd = child.process->exit_fd();
  // Nobody is there to take it: then nobody needs the process.
  if (!SendPacket(child.told.get(), answer, {&pid_fd, 1}).ok()) return;
  children_.push_back(std::move(child));
}

void Supervisor::ReapEnded() {
  for (auto child = children_.begin(); child != children_.end();) {
    const auto exit = child->process->TryReap();
    if (!exit.has_value()) {
      ++child;
      continue;
    }
    FromSupervisor message;
    message.mutable_exited()->set_by_signal(exit->by_signal);
    message.mutable_exited()->set_value(exit->value);
    (void)SendPacket(child->told.get(), message, {});
    child = children_.erase(child);
  }
}

}  // namespace warpline::supervisor
