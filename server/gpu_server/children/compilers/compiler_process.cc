#include "server/gpu_server/children/compilers/compiler_process.h"

#include <fcntl.h>

#include <utility>

#include "common/packets/packet_socket.h"
#include "server/jail/profiles.h"

namespace warpline::server {
namespace {

constexpr size_t kMostTextBytes = 512;

}  // namespace

CompilerProcess::Spawned CompilerProcess::Spawn(const CompilerOptions& options) {
  Spawned spawned = {nullptr, UniqueFd(), nullptr};
  if (options.jailer != nullptr) {
    auto cell = options.jailer->NewCell(jail::kCompilerProfile, {});
    if (!cell.ok()) {
      spawned.process = cell.status();
      return spawned;
    }
    spawned.cell = *std::move(cell);
  }
  spawned.process =
      options.launcher->Launch(ProcessRole::kCompiler, options.program, &spawned.socket);
  if (!spawned.process.ok() || spawned.cell == nullptr) return spawned;
  const absl::Status confined = spawned.cell->Confine((*spawned.process)->pid());
  if (!confined.ok()) spawned.process = confined;
  return spawned;
}

void CompilerProcess::Start(const CompilerOptions& options, Events events) {
  events_ = std::move(events);
  warpline_internal::PrepareCompiler prepare;
  prepare.set_compiles(options.compiles);
  prepare.set_library(options.library);
  prepare.set_cache_bytes(options.cache_bytes);
  spawner_->Post([self = shared_from_this(), options, prepare] {
    // Posted functions must be copyable, and processes are not.
    auto spawned = std::make_shared<Spawned>(Spawn(options));
    self->control_->Post([self, spawned, prepare] {
      control_loop.AssertOnLoop();
      self->OnSpawned(std::move(*spawned), prepare);
    });
  });
}

void CompilerProcess::OnSpawned(Spawned spawned, warpline_internal::PrepareCompiler prepare) {
  cell_ = std::move(spawned.cell);
  if (!spawned.process.ok()) return Over(std::string(spawned.process.status().message()));
  process_ = *std::move(spawned.process);
  socket_ = std::move(spawned.socket);
  if (over_) return End();
  // One that does not read must not hold up the loop.
  fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  socket_watch_ = control_->Watch(socket_.get(), [self = shared_from_this()] {
    control_loop.AssertOnLoop();
    self->OnPacket();
  });
  if (socket_watch_ == 0) return Over("it cannot be watched");
  warpline_internal::ToCompiler order;
  *order.mutable_prepare() = std::move(prepare);
  if (cell_ != nullptr) *order.mutable_prepare()->mutable_jail() = cell_->plan();
  const absl::Status sent = SendPacket(socket_.get(), order, {});
  if (!sent.ok()) Over(std::string(sent.message()));
}

void CompilerProcess::OnPacket() {
  const auto self = shared_from_this();
  if (over_) return;
  warpline_internal::FromCompiler message;
  const absl::Status received = ReceivePacket(socket_.get(), &message, nullptr);
  if (absl::IsNotFound(received)) return;
  if (!received.ok()) return Over("it has ended");
  if (!message.has_prepared() || ready_) return Over("it says what is not due");
  const auto& prepared = message.prepared();
  if (cell_ != nullptr) cell_->OnClosed(prepared.jail());
  if (!prepared.error().empty()) return Over(prepared.error().substr(0, kMostTextBytes));
  ready_ = true;
  if (events_.ready) {
    events_.ready(prepared.library_version().substr(0, kMostTextBytes),
                  prepared.no_library().substr(0, kMostTextBytes));
  }
  for (UniqueFd& socket : std::exchange(waiting_, {})) AddWorker(std::move(socket));
}

void CompilerProcess::AddWorker(UniqueFd socket) {
  if (over_) return;
  if (!ready_) return waiting_.push_back(std::move(socket));
  warpline_internal::ToCompiler message;
  message.mutable_add_worker();
  const int fd = socket.get();
  // The worker finds nobody at the other end of a socket that is not taken.
  (void)SendPacket(socket_.get(), message, {&fd, 1});
}

void CompilerProcess::Over(const std::string& why) {
  const auto self = shared_from_this();
  const auto over = std::move(events_.over);
  End();
  if (over) over(why);
}

void CompilerProcess::End() {
  over_ = true;
  events_ = {};
  waiting_.clear();
  if (socket_watch_ != 0) control_->Remove(std::exchange(socket_watch_, 0));
  if (process_ == nullptr) return;
  process_->Kill();
  // Its end may take a moment, which the loop does not wait for. The cell stays until then.
  spawner_->Post([process = std::shared_ptr<RunningProcess>(std::move(process_)),
                  cell = std::shared_ptr<jail::Cell>(std::move(cell_))] { process->Reap(); });
}

}  // namespace warpline::server
