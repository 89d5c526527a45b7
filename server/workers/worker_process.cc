#include "server/workers/worker_process.h"

#include <fcntl.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/jail/profiles.h"
#include "server/process/packet_socket.h"

namespace warpline::server {
namespace {

// A dying process lets go of its life line first, closes its socket later, and can be reaped last,
// which takes a second with a GPU context. The client hears of the death after this time, with the
// signal if it is known by then.
constexpr absl::Duration kExitDetail = absl::Milliseconds(20);

// A worker that sends without end has this many packets of each turn of the loop. What it has
// beyond makes the socket readable again.
constexpr int kPacketsATurn = 16;

}  // namespace

WorkerProcess::Spawned WorkerProcess::Spawn(const WorkerStart& start) {
  Spawned spawned = {nullptr, UniqueFd(), start.prepare, nullptr};
  if (start.jailer != nullptr) {
    std::vector<int> ordinals = {start.prepare.ordinal()};
    ordinals.insert(ordinals.end(), start.prepare.more_ordinals().begin(),
                    start.prepare.more_ordinals().end());
    const char* const profile = ordinals.size() > 1 ? jail::kPeersProfile : jail::kWorkerProfile;
    auto cell = start.jailer->NewCell(profile, ordinals);
    if (!cell.ok()) {
      spawned.process = cell.status();
      return spawned;
    }
    spawned.cell = *std::move(cell);
    *spawned.prepare.mutable_jail() = spawned.cell->plan();
  }
  spawned.process = start.launcher->Launch(ProcessRole::kWorker, start.program, &spawned.socket);
  if (!spawned.process.ok() || spawned.cell == nullptr) return spawned;
  const absl::Status confined = spawned.cell->Confine((*spawned.process)->pid());
  if (!confined.ok()) spawned.process = confined;
  return spawned;
}

void WorkerProcess::Start(WorkerStart start) {
  spawner_->Post([self = shared_from_this(), start = std::move(start)] {
    // Posted functions must be copyable, and processes are not.
    auto spawned = std::make_shared<Spawned>(Spawn(start));
    self->control_->Post([self, spawned] {
      control_loop.AssertOnLoop();
      self->OnSpawned(std::move(*spawned));
    });
  });
}

void WorkerProcess::OnSpawned(Spawned spawned) {
  cell_ = std::move(spawned.cell);
  if (!spawned.process.ok()) {
    Died(std::string(spawned.process.status().message()));
    Gone();
    return;
  }
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
  if (killed_) {
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

void WorkerProcess::Prepare(const warpline_internal::PrepareWorker& prepare) {
  warpline_internal::ToWorker message;
  *message.mutable_prepare() = prepare;
  auto line = LifeLine::Create();
  if (!line.ok()) return Died(line.status().ToString());
  SendOrDie(message, {(*line)->fd()});
  // The call holds no reference, so it may find this object gone.
  life_watch_ = deaths_->Watch(*std::move(line), [control = control_, weak = weak_from_this()] {
    control->Post([weak] {
      control_loop.AssertOnLoop();
      if (const auto self = weak.lock()) self->OnLifeEnded();
    });
  });
}

void WorkerProcess::OnLifeEnded() {
  life_watch_ = 0;
  if (!gone_) Died("");
}

void WorkerProcess::SendOrDie(const warpline_internal::ToWorker& message,
                              absl::Span<const int> fds) {
  const absl::Status sent = Send(message, fds);
  if (!sent.ok()) Died(absl::IsUnavailable(sent) ? "" : sent.ToString());
}

void WorkerProcess::Open(warpline_internal::OpenWorker open, std::shared_ptr<WorkerRings> rings,
                         const SessionFiles& files) {
  if (!prepared_) {
    if (gone_ || dying_ || killed_) return;
    pending_open_ = [this, open = std::move(open), rings = std::move(rings), files] {
      control_loop.AssertOnLoop();
      Open(open, rings, files);
    };
    return;
  }
  session_ = open.session();
  opened_due_ = true;
  warpline_internal::ToWorker message;
  *message.mutable_open() = std::move(open);
  std::vector<int> fds;
  if (rings != nullptr) {
    fds = rings->child_fds();
    fds.push_back(files.journal);
    if (files.board >= 0) fds.push_back(files.board);
    if (files.variables >= 0) fds.push_back(files.variables);
    if (files.compiler >= 0) fds.push_back(files.compiler);
  }
  SendOrDie(message, fds);
  if (rings != nullptr) rings->CloseChildFds();
}

absl::Status WorkerProcess::Send(warpline_internal::ToWorker message, absl::Span<const int> fds) {
  if (process_ == nullptr || dying_ || killed_) return absl::UnavailableError("no worker");
  message.set_session(session_);
  return SendPacket(socket_.get(), message, fds);
}

void WorkerProcess::OnPacket() {
  const auto self = shared_from_this();
  for (int packets = 0; packets < kPacketsATurn && !killed_ && !dying_; ++packets) {
    warpline_internal::FromWorker message;
    std::vector<UniqueFd> fds;
    const absl::Status received = ReceivePacket(socket_.get(), &message, &fds);
    if (absl::IsNotFound(received)) return;
    if (absl::IsUnavailable(received)) return Died("");
    if (!received.ok()) return Died(absl::StrCat("bad message: ", received.ToString()));
    if (message.session() != session_) return Died("bad message: of another session");
    if (message.has_opened()) {
      if (!std::exchange(opened_due_, false)) return Died("bad message: opened out of turn");
      events_->OnWorkerOpened(message.opened());
    } else if (message.has_memory_done()) {
      events_->OnMemoryDone(message.memory_done());
    } else if (message.has_prepared()) {
      if (std::exchange(said_prepared_, true)) return Died("bad message: prepared twice");
      OnPrepared(message.prepared());
    } else if (message.has_saved()) {
      events_->OnVariablesSaved(message.saved());
    } else if (message.has_host_done()) {
      events_->OnHostDone(message.host_done());
    } else if (message.has_read_done()) {
      events_->OnReadDone(message.read_done());
    } else if (message.has_charge()) {
      events_->OnCharge(message.charge());
      // It waits for the answer, so nothing else is due from it. Others have their turn before the
      // next of one that does not wait.
      return;
    } else if (message.has_uncharge()) {
      events_->OnUncharge(message.uncharge());
    } else if (message.has_find_module()) {
      events_->OnFindModule(message.find_module());
    } else if (message.has_keep_module() && fds.size() == 1) {
      events_->OnKeepModule(message.keep_module(), std::move(fds[0]));
    } else if (message.has_module_loaded()) {
      events_->OnModuleLoaded(message.module_loaded());
    } else if (message.has_ended()) {
      // The process hosts no other session. Its log says more than its own account could be trusted
      // for.
      return Died("the protocol was broken");
    } else {
      return Died("bad message: unknown kind");
    }
  }
}

void WorkerProcess::OnPrepared(const warpline_internal::WorkerOpened& prepared) {
  prepared_ = prepared.error() == 0;
  if (cell_ != nullptr) cell_->OnClosed(prepared.jail());
  if (!prepared_) pending_open_ = nullptr;
  events_->OnWorkerPrepared(prepared);
  if (pending_open_) std::exchange(pending_open_, nullptr)();
}

void WorkerProcess::Kill() {
  killed_ = true;
  control_->Remove(socket_watch_);
  control_->Remove(report_timer_);
  socket_watch_ = report_timer_ = 0;
  if (process_ != nullptr) process_->Kill();
}

// An empty `why` means that the process ends by itself; how will be known soon.
void WorkerProcess::Died(const std::string& why) {
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

void WorkerProcess::ReportDeath() {
  if (reported_ || killed_) return;
  reported_ = true;
  events_->OnWorkerDied(why_.empty() ? "it ended" : why_);
}

void WorkerProcess::OnExit() {
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

void WorkerProcess::Gone() {
  if (gone_) return;
  gone_ = true;
  control_->Remove(exit_watch_);
  control_->Remove(socket_watch_);
  deaths_->Remove(life_watch_);
  exit_watch_ = socket_watch_ = life_watch_ = 0;
  cell_.reset();
  events_->OnWorkerGone();
}

}  // namespace warpline::server
