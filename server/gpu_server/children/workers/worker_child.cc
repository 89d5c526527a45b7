#include "server/gpu_server/children/workers/worker_child.h"

#include <fcntl.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/packets/packet_socket.h"
#include "server/hostlink/process/liveness_lock.h"
#include "server/jail/profiles.h"

namespace warpline::server {
namespace {

// A dying process lets go of its liveness lock first, closes its socket later, and can be reaped
// last, which takes a second with a GPU context. The client hears of the death after this time,
// with the signal if it is known by then.
constexpr absl::Duration kExitDetail = absl::Milliseconds(20);

// A worker that sends without end has this many packets of each turn of the loop. What it has
// beyond makes the socket readable again.
constexpr int kPacketsATurn = 16;

jail::CellRequest CellRequestFor(const WorkerStart& start) {
  jail::CellRequest request;
  request.ordinals = {start.prepare.ordinal()};
  request.ordinals.insert(request.ordinals.end(), start.prepare.more_ordinals().begin(),
                          start.prepare.more_ordinals().end());
  request.profile = request.ordinals.size() > 1 ? jail::kPeersProfile : jail::kWorkerProfile;
  if (start.mps.has_value()) {
    request.profile = jail::kMpsWorkerProfile;
    request.same_user = start.mps->cell.get();
    request.folders = start.mps->folders;
  }
  return request;
}

ChildOptions ProgramFor(const WorkerStart& start) {
  ChildOptions program = start.program;
  if (start.mps.has_value()) {
    program.environment.insert(program.environment.end(), start.mps->environment.begin(),
                               start.mps->environment.end());
  }
  return program;
}

}  // namespace

WorkerChild::Spawned WorkerChild::Spawn(const WorkerStart& start) {
  Spawned spawned = {nullptr, UniqueFd(), start.prepare, nullptr};
  spawned.prepare.set_mps(start.mps.has_value());
  if (start.jailer != nullptr) {
    auto cell = start.jailer->NewCell(CellRequestFor(start));
    if (!cell.ok()) {
      spawned.process = cell.status();
      return spawned;
    }
    spawned.cell = *std::move(cell);
    *spawned.prepare.mutable_jail() = spawned.cell->plan();
  }
  spawned.process =
      start.launcher->Launch(ProcessRole::kWorker, ProgramFor(start), &spawned.socket);
  if (!spawned.process.ok() || spawned.cell == nullptr) return spawned;
  const absl::Status confined = spawned.cell->Confine((*spawned.process)->pid());
  if (!confined.ok()) spawned.process = confined;
  return spawned;
}

void WorkerChild::Start(WorkerStart start) {
  spawner_->Post([self = shared_from_this(), start = std::move(start)] {
    // Posted functions must be copyable, and processes are not.
    auto spawned = std::make_shared<Spawned>(Spawn(start));
    self->control_->Post([self, spawned] {
      control_loop.AssertOnLoop();
      self->OnSpawned(std::move(*spawned));
    });
  });
}

void WorkerChild::Refuse(const std::string& why) {
  const auto self = shared_from_this();
  Died(why);
  Gone();
}

void WorkerChild::OnSpawned(Spawned spawned) {
  cell_ = std::move(spawned.cell);
  if (!spawned.process.ok()) return Refuse(std::string(spawned.process.status().message()));
  process_ = *std::move(spawned.process);
  socket_ = std::move(spawned.socket);
  exit_watch_ = control_->Watch(process_->exit_fd(), [this] {
    control_loop.AssertOnLoop();
    OnExit();
  });
  if (exit_watch_ == 0) {
    Died("cannot be watched");
    process_->Kill();
    process_->Reap();
    Gone();
    return;
  }
  if (killed_ || dying_) {
    process_->Kill();
    return;
  }
  // A worker that does not read must not hold up the loop.
  fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  socket_watch_ = control_->Watch(socket_.get(), [this] {
    control_loop.AssertOnLoop();
    OnPacket();
  });
  Prepare(spawned.prepare);
}

void WorkerChild::Prepare(const warpline_internal::PrepareWorker& prepare) {
  warpline_internal::ToWorker message;
  *message.mutable_prepare() = prepare;
  auto liveness = LivenessLock::Create();
  if (!liveness.ok()) return Died(liveness.status().ToString());
  if (const absl::Status sent = Send(message, {(*liveness)->fd()}); !sent.ok()) {
    Died(absl::IsUnavailable(sent) ? "" : sent.ToString());
  }
  // The call holds no reference, so it may find this object gone.
  life_watch_ = deaths_->Watch(*std::move(liveness), [control = control_, weak = weak_from_this()] {
    control->Post([weak] {
      control_loop.AssertOnLoop();
      if (const auto self = weak.lock()) self->OnLifeEnded();
    });
  });
}

void WorkerChild::OnLifeEnded() {
  life_watch_ = 0;
  if (!gone_) Died("");
}

absl::Status WorkerChild::Send(const warpline_internal::ToWorker& message,
                               absl::Span<const int> fds) {
  const auto sent = TrySend(message, fds);
  if (!sent.ok()) return sent.status();
  return *sent ? absl::OkStatus() : absl::UnavailableError("the socket is full");
}

absl::StatusOr<bool> WorkerChild::TrySend(const warpline_internal::ToWorker& message,
                                          absl::Span<const int> fds) {
  if (process_ == nullptr || dying_ || killed_) return absl::UnavailableError("no worker");
  return TrySendPacket(socket_.get(), message, fds);
}

void WorkerChild::OnPacket() {
  const auto self = shared_from_this();
  for (int packets = 0; packets < kPacketsATurn && !killed_ && !dying_; ++packets) {
    warpline_internal::FromWorker message;
    std::vector<UniqueFd> fds;
    const absl::Status received = ReceivePacket(socket_.get(), &message, &fds);
    if (absl::IsNotFound(received)) return;
    if (absl::IsUnavailable(received)) return Died("");
    // What has come without its descriptors for want of room is refused, or left out.
    const bool cut = absl::IsResourceExhausted(received) &&
                     message.kind_case() != warpline_internal::FromWorker::KIND_NOT_SET;
    if (!received.ok() && !cut) return Died(absl::StrCat("bad message: ", received.ToString()));
    if (message.has_prepared() && message.session() == 0) {
      if (std::exchange(said_prepared_, true)) return Died("bad message: prepared twice");
      OnPrepared(message.prepared());
    } else if (!events_->OnMessage(message, std::move(fds))) {
      return;
    }
  }
}

void WorkerChild::OnPrepared(const warpline_internal::WorkerOpened& prepared) {
  prepared_ = prepared.error() == 0;
  if (cell_ != nullptr) cell_->OnClosed(prepared.jail());
  events_->OnPrepared(prepared);
}

void WorkerChild::Kill() {
  killed_ = true;
  control_->Remove(socket_watch_);
  control_->Remove(report_timer_);
  socket_watch_ = report_timer_ = 0;
  if (process_ != nullptr) process_->Kill();
}

void WorkerChild::Died(const std::string& why) {
  if (dying_ || killed_) return;
  dying_ = true;
  why_ = why;
  control_->Remove(socket_watch_);
  socket_watch_ = 0;
  if (!why.empty()) {
    if (process_ != nullptr) process_->Kill();
    ReportDeath();
    return;
  }
  report_timer_ = control_->RunAfter(kExitDetail, [self = shared_from_this()] {
    control_loop.AssertOnLoop();
    // A worker that lives on without its socket is of no use any more.
    self->process_->Kill();
    self->ReportDeath();
  });
}

void WorkerChild::ReportDeath() {
  if (reported_ || killed_) return;
  reported_ = true;
  events_->OnDied(why_.empty() ? "it ended" : why_);
}

void WorkerChild::OnExit() {
  const auto self = shared_from_this();
  const auto exit = process_->TryReap();
  if (!exit.has_value()) return;
  if (why_.empty()) why_ = exit->Describe();
  dying_ = true;
  control_->Remove(report_timer_);
  report_timer_ = 0;
  ReportDeath();
  Gone();
}

void WorkerChild::Gone() {
  if (gone_) return;
  gone_ = true;
  control_->Remove(exit_watch_);
  control_->Remove(socket_watch_);
  deaths_->Remove(life_watch_);
  exit_watch_ = socket_watch_ = life_watch_ = 0;
  cell_.reset();
  events_->OnGone();
}

}  // namespace warpline::server
