#include "server/gpu_server/session/session_worker.h"

#include <algorithm>
#include <utility>

namespace warpline::server {

absl::Status SessionWorker::Start(WorkerDevice device, warpline_internal::OpenWorker open,
                                  uint64_t ring_bytes) {
  auto rings = WorkerRings::Create(ring_bytes);
  if (!rings.ok()) return rings.status();
  auto journal = JournalFile::Create();
  if (!journal.ok()) return journal.status();
  if (open.board_generation() > 0) {
    auto board = CreateBoard();
    if (!board.ok()) return board.status();
    board_ = *std::move(board);
  }
  rings_ = std::move(*rings);
  journal_ = std::move(*journal);
  device_ = std::move(device);
  open_ = std::move(open);
  auto first = open_;
  first.set_quiet(parts_.lines->quiet());
  return Take(std::move(first), -1);
}

absl::Status SessionWorker::StartWithout(WorkerDevice device, warpline_internal::OpenWorker open,
                                         uint64_t ring_bytes, std::unique_ptr<JournalFile> journal,
                                         uint64_t done, uint64_t board_generation) {
  auto rings = WorkerRings::CreateAfter(ring_bytes, done);
  if (!rings.ok()) return rings.status();
  if (open.board_generation() > 0) {
    auto board = CreateBoard();
    if (!board.ok()) return board.status();
    board_ = *std::move(board);
    open.set_board_generation(std::max(open.board_generation(), board_generation));
  }
  rings_ = std::move(*rings);
  journal_ = std::move(journal);
  device_ = std::move(device);
  open_ = std::move(open);
  return absl::OkStatus();
}

absl::Status SessionWorker::TakeWorker() {
  if (tier_ == Tier::kGuarded) {
    auto worker = parts_.children->guarded()->Take(device_, this);
    if (!worker.ok()) return worker.status();
    worker_ = *std::move(worker);
  } else {
    WorkerDevice device = device_;
    if (group_.has_value()) {
      device.mps = parts_.children->mps()->Join(
          *group_, {.sm_percent = sm_percent_, .failed = [journal = journal_] {
                      return (journal->flags() & kJournalFaulted) != 0;
                    }});
    }
    pooled_ = parts_.children->workers()->Take(device, this);
    worker_ = pooled_;
  }
  gone_ = false;
  leaving_ = false;
  return absl::OkStatus();
}

absl::Status SessionWorker::Take(warpline_internal::OpenWorker open, int variables_fd) {
  opened_ = false;
  if (const absl::Status taken = TakeWorker(); !taken.ok()) return taken;
  CompilerPool* const compilers = parts_.children->compilers();
  if (compilers != nullptr && open.guard() != 0) {
    compiler_ = compilers->Connect(tenant_);
    open.set_compiler(compiler_.socket.valid());
    open.set_compiler_gives_text(!compilers->compiles());
  }
  open.set_dispatch(dispatch_ != nullptr);
  worker_->Open(std::move(open), rings_,
                {journal_->fd(), board_.get(), variables_fd, compiler_.socket.get(),
                 dispatch_ == nullptr ? -1 : dispatch_->fd()});
  return absl::OkStatus();
}

absl::Status SessionWorker::TakeNext(uint64_t resume_seq, int variables_fd) {
  const absl::Status renewed = rings_->Renew();
  if (!renewed.ok()) return renewed;
  if (const LogPermit permit = parts_.lines->BeginWorker(kTakeOverLine)) {
    permit.Info("another worker takes over ", parts_.lines->Keys());
  }
  parts_.modules->OnOtherWorker();
  if (board_.valid()) open_.set_board_generation(open_.board_generation() + 1);
  auto open = open_;
  open.set_quiet(parts_.lines->quiet());
  open.set_resume_seq(resume_seq);
  open.set_variables(variables_fd >= 0);
  open.set_host_charged_bytes(parts_.holdings->host_charged_bytes());
  return Take(std::move(open), variables_fd);
}

std::shared_ptr<Worker> SessionWorker::TakeReader(WorkerEvents* events) {
  reader_ = parts_.children->workers()->Take(device_, events);
  auto open = open_;
  open.set_quiet(parts_.lines->quiet());
  open.set_reader(true);
  reader_->Open(std::move(open), nullptr, {});
  return reader_;
}

void SessionWorker::Connect() {
  connected_ = true;
  std::unique_ptr<const CommandWindow> window;
  if (open_.max_commands() != 0) {
    window = std::make_unique<CommandWindow>(open_.max_commands(), journal_);
  }
  parts_.port->Open(rings_, std::move(window));
  WatchDoorbell();
}

void SessionWorker::Abandon() {
  connected_ = false;
  Kill();
}

void SessionWorker::Kill() {
  if (!gone_) worker_->Kill();
}

void SessionWorker::LetGo() {
  connected_ = false;
  if (gone_) return;
  if (pooled_ == nullptr || !pooled_->untouched()) return worker_->Kill();
  pooled_->CancelOpen();
  worker_ = nullptr;
  parts_.children->workers()->GiveBack(device_, std::exchange(pooled_, nullptr));
  gone_ = true;
}

void SessionWorker::End() {
  UnwatchDoorbell();
  compiler_ = {};
  dispatch_ = nullptr;
}

void SessionWorker::Refill() {
  if (tier_ == Tier::kIsolated) parts_.children->workers()->Refill(device_);
}

absl::Status SessionWorker::Send(const warpline_internal::ToWorker& message,
                                 absl::Span<const int> fds) {
  if (reader_ != nullptr) return reader_->Send(message, fds);
  if (worker_ == nullptr) return absl::UnavailableError("no worker");
  const absl::Status sent = worker_->Send(message, fds);
  // It is dying, which will be known in a moment: then another worker does it, or nobody waits.
  return absl::IsUnavailable(sent) && connected_ ? absl::OkStatus() : sent;
}

// What cannot be sent concerns a worker that is going, and the next one begins at full pace.
void SessionWorker::SetPace(uint32_t nap_us) {
  if (worker_ == nullptr || gone_) return;
  warpline_internal::ToWorker message;
  message.mutable_pace()->set_nap_ns(nap_us * 1000);
  (void)worker_->Send(std::move(message), {});
}

void SessionWorker::Thaw() {
  if (leaving_) return;  // What waits is the next worker's.
  // What a former worker left in its ring has been seen by the watch on that.
  if (watched_ != rings_->pair()) {
    UnwatchDoorbell();
    WatchDoorbell();
  }
  rings_->Thaw();
  parts_.port->Wake();
}

void SessionWorker::WatchDoorbell() {
  watched_ = rings_->pair();
  doorbell_watches_ = std::make_shared<std::array<EventLoop::Token, 2>>();
  EventLoop* const doorbell = parts_.children->doorbell();
  doorbell->Post(
      [loop = doorbell, watches = doorbell_watches_, pair = watched_, port = parts_.port] {
        const auto ring = [pair, port] {
          pair->ClearDoorbells();
          port->Wake();
        };
        *watches = {loop->Watch(pair->reply_doorbell(), ring),
                    loop->Watch(pair->room_doorbell(), ring)};
        if ((*watches)[0] == 0 || (*watches)[1] == 0) {
          port->Close(absl::ResourceExhaustedError("cannot watch the worker's rings"));
        }
      });
}

void SessionWorker::UnwatchDoorbell() {
  if (doorbell_watches_ == nullptr) return;
  EventLoop* const doorbell = parts_.children->doorbell();
  doorbell->Post([loop = doorbell, watches = std::move(doorbell_watches_)] {
    for (const EventLoop::Token token : *watches) loop->Remove(token);
  });
  doorbell_watches_ = nullptr;
}

// --- What the worker says.

// What a warm worker ended with is known to the pool; this is one that was started for the session.
void SessionWorker::OnWorkerPrepared(const warpline_internal::WorkerOpened& prepared) {
  if (prepared.error() != 0) OnWorkerOpened(prepared);
}

void SessionWorker::OnWorkerOpened(const warpline_internal::WorkerOpened& opened) {
  if (opened_) return;
  opened_ = true;
  pid_ = static_cast<int>(worker_->pid());
  if (dispatch_ != nullptr) {
    dispatch_->SetWorker(pid_, pooled_ == nullptr ? 0 : pooled_->mps_server());
  }
  parts_.lines->SetWorker(pid_);
  parts_.events->OnWorkerOpened(opened);
}

void SessionWorker::Judge(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) {
    parts_.events->OnWorkerDistrusted(std::string(status.message()));
  } else if (!status.ok()) {
    parts_.events->OnWorkerLost(std::string(status.message()));
  }
}

void SessionWorker::OnMemoryDone(const warpline_internal::MemoryDone& done) {
  Judge(parts_.holdings->OnMemoryDone(done));
}

void SessionWorker::OnHostDone(const warpline_internal::MemoryDone& done) {
  Judge(parts_.holdings->OnHostDone(done));
}

void SessionWorker::OnVariablesSaved(const warpline_internal::VariablesSaved& saved) {
  parts_.events->OnVariablesSaved(saved);
}

void SessionWorker::OnCharge(const warpline_internal::ChargeMemory& charge) {
  Judge(parts_.holdings->OnCharge(charge));
}

void SessionWorker::OnUncharge(const warpline_internal::UnchargeMemory& uncharge) {
  Judge(parts_.holdings->OnUncharge(uncharge));
}

void SessionWorker::OnFindModule(const warpline_internal::FindModule& find) {
  Judge(parts_.modules->Find(find));
}

void SessionWorker::OnKeepModule(const warpline_internal::KeepModule& keep, UniqueFd image) {
  parts_.modules->Keep(keep, std::move(image));
}

void SessionWorker::OnModuleLoaded(const warpline_internal::ModuleLoaded& loaded) {
  Judge(parts_.modules->Loaded(loaded));
}

void SessionWorker::OnWorkerLeaving() {
  leaving_ = true;
  rings_->Freeze();
  parts_.events->OnWorkerLeaving();
}

void SessionWorker::OnWorkerDied(const std::string& why) { parts_.events->OnWorkerLost(why); }

void SessionWorker::OnWorkerGone() {
  gone_ = true;
  // What it had in flight is in nobody's way any more, whether or not another one follows.
  if (dispatch_ != nullptr) dispatch_->ForgetWorker();
  parts_.events->OnWorkerGone();
}

}  // namespace warpline::server
