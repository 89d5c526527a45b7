#include "server/gpu_server/children/mps_groups/mps_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/packets/packet_socket.h"
#include "proto/mps.pb.h"
#include "server/jail/profiles.h"

namespace warpline::server {
namespace {

constexpr size_t kMostTextBytes = 512;
// The process has its daemon quit first, and its clients a while to leave; or it waits for one that
// starts. That takes half a minute at most (server/mps/daemon.h).
constexpr absl::Duration kEndTimeout = absl::Seconds(40);

// Makes the group's folder, which only the daemon's user may enter.
absl::Status MakeFolder(const std::string& folder, uint32_t uid) {
  if (mkdir(folder.c_str(), 0700) != 0) return absl::ErrnoToStatus(errno, folder);
  if (uid != 0 && chown(folder.c_str(), uid, uid) != 0) return absl::ErrnoToStatus(errno, folder);
  return absl::OkStatus();
}

// The daemon makes its sockets in its folder, and starts the server program that lies beside it.
std::vector<warpline_internal::JailFolder> FoldersOf(const std::string& folder,
                                                     const std::string& control) {
  std::vector<warpline_internal::JailFolder> folders(2);
  folders[0].set_path(folder);
  folders[0].set_makes(true);
  folders[1].set_path(std::filesystem::path(control).parent_path());
  folders[1].set_executes(true);
  return folders;
}

}  // namespace

MpsProcess::Spawned MpsProcess::Spawn(const MpsOptions& options, int ordinal,
                                      const std::string& folder) {
  Spawned spawned = {nullptr, UniqueFd(), nullptr};
  if (options.jailer != nullptr) {
    auto cell = options.jailer->NewCell({.profile = jail::kMpsProfile,
                                         .ordinals = {ordinal},
                                         .folders = FoldersOf(folder, options.control)});
    if (!cell.ok()) {
      spawned.process = cell.status();
      return spawned;
    }
    spawned.cell = *std::move(cell);
  }
  const uint32_t uid = spawned.cell == nullptr ? 0 : spawned.cell->plan().uid();
  if (const absl::Status made = MakeFolder(folder, uid); !made.ok()) {
    spawned.process = made;
    return spawned;
  }
  spawned.process = options.launcher->Launch(ProcessRole::kMps, options.program, &spawned.socket);
  if (!spawned.process.ok() || spawned.cell == nullptr) return spawned;
  const absl::Status confined = spawned.cell->Confine((*spawned.process)->pid());
  if (!confined.ok()) spawned.process = confined;
  return spawned;
}

void MpsProcess::Start(const MpsOptions& options, int ordinal, std::string folder, Events events) {
  events_ = std::move(events);
  folder_ = std::move(folder);
  spawning_ = true;
  spawner_->Post([self = shared_from_this(), options, ordinal, place = folder_] {
    // Posted functions must be copyable, and processes are not.
    auto spawned = std::make_shared<Spawned>(Spawn(options, ordinal, place));
    self->control_->Post([self, spawned, options] {
      control_loop.AssertOnLoop();
      self->OnSpawned(std::move(*spawned), options);
    });
  });
}

void MpsProcess::OnSpawned(Spawned spawned, const MpsOptions& options) {
  spawning_ = false;
  cell_ = std::move(spawned.cell);
  if (!spawned.process.ok()) {
    Over(std::string(spawned.process.status().message()));
    return Gone();
  }
  process_ = *std::move(spawned.process);
  socket_ = std::move(spawned.socket);
  exit_watch_ = control_->Watch(process_->exit_fd(), [self = shared_from_this()] {
    control_loop.AssertOnLoop();
    self->OnExit();
  });
  if (exit_watch_ == 0) {
    process_->Kill();
    process_->Reap();
    process_ = nullptr;
    socket_ = UniqueFd();
    Over("it cannot be watched");
    return Gone();
  }
  // One that does not read must not hold up the loop.
  fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  socket_watch_ = control_->Watch(socket_.get(), [self = shared_from_this()] {
    control_loop.AssertOnLoop();
    self->OnPacket();
  });
  if (over_) return End();
  warpline_internal::PrepareMps order;
  order.set_control(options.control);
  order.set_folder(folder_);
  order.set_start_timeout_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(options.start_timeout)));
  if (cell_ != nullptr) *order.mutable_jail() = cell_->plan();
  const absl::Status sent = SendPacket(socket_.get(), order, {});
  if (!sent.ok()) Over(std::string(sent.message()));
}

void MpsProcess::OnPacket() {
  const auto self = shared_from_this();
  warpline_internal::MpsPrepared prepared;
  const absl::Status received = ReceivePacket(socket_.get(), &prepared, nullptr);
  if (absl::IsNotFound(received)) return;
  if (!received.ok()) {
    CloseSocket();
    Over("it has ended");
    return GoneIfNothingIsLeft();
  }
  if (over_) return;
  if (std::exchange(ready_, true)) return Over("it says what is not due");
  if (cell_ != nullptr) cell_->OnClosed(prepared.jail());
  if (!prepared.error().empty()) return Over(prepared.error().substr(0, kMostTextBytes));
  server_ = prepared.server();
  if (events_.ready) events_.ready();
}

void MpsProcess::Over(const std::string& why) {
  const auto self = shared_from_this();
  const auto over = std::exchange(events_.over, nullptr);
  End();
  if (over) over(why);
}

void MpsProcess::End() {
  over_ = true;
  events_.ready = nullptr;
  events_.over = nullptr;
  // Its own end is open for as long as anything of it is left.
  if (socket_.valid()) shutdown(socket_.get(), SHUT_WR);
  if (spawning_ || kill_timer_ != 0) return;
  kill_timer_ = control_->RunAfter(kEndTimeout, [self = shared_from_this()] {
    control_loop.AssertOnLoop();
    if (self->process_ != nullptr) self->process_->Kill();
    self->CloseSocket();
    self->GoneIfNothingIsLeft();
  });
}

void MpsProcess::CloseSocket() {
  control_->Remove(std::exchange(socket_watch_, 0));
  socket_ = UniqueFd();
}

void MpsProcess::OnExit() {
  const auto self = shared_from_this();
  const auto exit = process_->TryReap();
  if (!exit.has_value()) return;
  control_->Remove(std::exchange(exit_watch_, 0));
  process_ = nullptr;
  Over(absl::StrCat("it has ended: ", exit->Describe()));
  GoneIfNothingIsLeft();
}

void MpsProcess::GoneIfNothingIsLeft() {
  if (process_ == nullptr && !socket_.valid()) Gone();
}

void MpsProcess::Gone() {
  control_->Remove(std::exchange(kill_timer_, 0));
  spawner_->Post([self = shared_from_this(), folder = folder_,
                  cell = std::shared_ptr<jail::Cell>(std::move(cell_))]() mutable {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    cell.reset();
    self->control_->Post([self] {
      control_loop.AssertOnLoop();
      if (const auto gone = std::exchange(self->events_.gone, nullptr)) gone();
    });
  });
}

}  // namespace warpline::server
