#include "server/gpu_server/children/workers/guarded_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"
#include "server/gpu_server/children/workers/worker_messages.h"

namespace warpline::server {
namespace {

// Between looks at whether a full socket has room.
constexpr absl::Duration kRetry = absl::Milliseconds(2);

}  // namespace

GuardedWorker::GuardedWorker(const Parts& parts, const GuardedWorkerOptions& options,
                             GuardedWorkerEvents* events)
    : control_(parts.control),
      timers_(parts.timers),
      log_(parts.log),
      options_(options),
      events_(events),
      child_(std::make_shared<WorkerChild>(parts.control, parts.spawner, parts.deaths,
                                           static_cast<WorkerChildEvents*>(this))),
      backlog_([this](const warpline_internal::ToWorker& message, absl::Span<const int> fds) {
        control_loop.AssertOnLoop();
        return child_->TrySend(message, fds);
      }),
      windows_(options.windows,
               [this](warpline_internal::ToWorker message, absl::Span<const int> fds) {
                 control_loop.AssertOnLoop();
                 return Send(std::move(message), fds);
               }) {}

void GuardedWorker::Start(WorkerStart start) {
  ordinal_ = start.prepare.ordinal();
  start.prepare.set_shared(true);
  SetTimer(&prepare_timer_, options_.prepare_timeout, &GuardedWorker::OnNotPrepared);
  child_->Start(std::move(start));
}

std::shared_ptr<Worker> GuardedWorker::Take(WorkerEvents* events) {
  sessions_.push_back(std::make_shared<GuardedSession>(shared_from_this(), events));
  return sessions_.back();
}

void GuardedWorker::Retire() {
  usable_ = false;
  MaybeKill();
}

void GuardedWorker::Kill() {
  usable_ = false;
  ClearTimers();
  child_->Kill();
}

void GuardedWorker::SetTimer(Timers::Token* timer, absl::Duration delay,
                             void (GuardedWorker::*body)()) {
  *timer = timers_->RunAfter(delay, [self = shared_from_this(), timer, body] {
    control_loop.AssertOnLoop();
    *timer = 0;
    (self.get()->*body)();
  });
}

void GuardedWorker::ClearTimers() {
  for (Timers::Token* const timer :
       {&prepare_timer_, &drain_timer_, &stuck_timer_, &retry_timer_}) {
    timers_->Remove(std::exchange(*timer, 0));
  }
}

// --- What the process does.

// A call that tells a session something may add and remove sessions.
void GuardedWorker::OnPrepared(const warpline_internal::WorkerOpened& prepared) {
  timers_->Remove(std::exchange(prepare_timer_, 0));
  if (prepared.error() == 0) {
    StartWindows();
    events_->OnPrepared(this);
  } else {
    why_ = prepared.message();
    Unusable(why_);
  }
  const auto sessions = sessions_;
  for (const auto& session : sessions) session->OnPrepared(prepared);
  if (prepared.error() != 0) Kill();
}

bool GuardedWorker::OnMessage(const warpline_internal::FromWorker& message,
                              std::vector<UniqueFd> fds) {
  if (message.has_window_done()) return OnWindowDone(message.window_done());
  const auto found = by_id_.find(message.session());
  if (found == by_id_.end()) {
    return Broken("bad message: of a session that it does not have");
  }
  const std::shared_ptr<GuardedSession> session = found->second->shared_from_this();
  return session->OnMessage(message, std::move(fds));
}

void GuardedWorker::StartWindows() {
  if (options_.windows.count == 0) return;
  const size_t windows = windows_.Start();
  const LogPermit permit = log_->Ask(kGuardedWindowsLine);
  if (!permit) return;
  const std::string keys =
      absl::StrCat(" gpu=", ordinal_, " worker_pid=", pid(), " windows=", windows,
                   " wanted=", options_.windows.count, " bytes=", options_.windows.bytes);
  if (windows == options_.windows.count) return permit.Info("guarded worker's host windows", keys);
  permit.Warning("guarded worker has too few host windows", keys, ": see --host_memory");
}

bool GuardedWorker::OnWindowDone(const warpline_internal::WindowDone& done) {
  const absl::Status status = windows_.OnDone(done);
  if (absl::IsInvalidArgument(status)) {
    return Broken(absl::StrCat("bad message: ", std::string(status.message())));
  }
  if (status.ok()) return true;
  if (const LogPermit permit = log_->Ask(kGuardedWindowsLine)) {
    permit.Warning("guarded worker has lost a host window gpu=", ordinal_, " worker_pid=", pid(),
                   " error=", status.message());
  }
  return true;
}

std::optional<HostWindow> GuardedWorker::TakeWindow(uint64_t session) {
  auto window = windows_.Take();
  if (window.has_value() || options_.windows.count == 0) return window;
  if (const LogPermit permit = log_->Ask(kNoGuardedWindowLine)) {
    permit.Info("no host window is free gpu=", ordinal_, " session=", session,
                " windows=", options_.windows.count);
  }
  return window;
}

std::optional<HostWindow> GuardedWorker::BringWindow(const HostWindow& former) {
  return windows_.Bring(former);
}

bool GuardedWorker::Broken(const std::string& why) {
  child_->Died(why);
  return false;
}

void GuardedWorker::Unusable(const std::string& why) {
  if (std::exchange(usable_, false)) events_->OnUnusable(this, why);
}

void GuardedWorker::BeginRecovery() {
  if (recovery_ != nullptr) return;
  recovery_ = std::make_shared<Recovery>(
      timers_, &SteadyNow,
      [log = log_, ordinal = ordinal_, lost_pid = pid()](const Recovery::Outcome& outcome) {
        if (const LogPermit permit = log->Ask(kGuardedRecoveryLine)) {
          permit.Info("guarded sessions recovered gpu=", ordinal, " lost_pid=", lost_pid,
                      " went_on=", outcome.went_on, " lost=", outcome.lost, " left=", outcome.left,
                      " seconds=", absl::ToDoubleSeconds(outcome.took));
        }
      });
}

void GuardedWorker::OnDied(const std::string& why) {
  ClearTimers();
  backlog_.Clear();
  windows_.Clear();
  if (const LogPermit permit = log_->Ask(kGuardedDiedLine)) {
    permit.Warning("guarded worker died gpu=", ordinal_, " worker_pid=", pid(),
                   " sessions=", sessions_.size(), " by=", why);
  }
  why_ = why;
  BeginRecovery();
  Unusable(why);
  const auto sessions = sessions_;
  for (const auto& session : sessions) session->OnDied(why);
}

void GuardedWorker::OnGone() {
  const auto self = shared_from_this();
  ClearTimers();
  backlog_.Clear();
  windows_.Clear();
  by_id_.clear();
  // One after the other, since each may have a new worker taken.
  while (!sessions_.empty()) {
    const auto session = sessions_.front();
    End(session);
  }
  recovery_ = nullptr;
  events_->OnGone(this);
}

// --- For sessions.

bool GuardedWorker::Enter(uint64_t id, GuardedSession* session) {
  return by_id_.emplace(id, session).second;
}

absl::Status GuardedWorker::Send(warpline_internal::ToWorker message, absl::Span<const int> fds) {
  const absl::Status sent = backlog_.Push(std::move(message), fds);
  WatchBacklog();
  return sent;
}

void GuardedWorker::WatchBacklog() {
  if (backlog_.empty()) {
    timers_->Remove(std::exchange(stuck_timer_, 0));
    return;
  }
  if (stuck_timer_ == 0) {
    SetTimer(&stuck_timer_, options_.stuck_timeout, &GuardedWorker::OnStuck);
  }
  if (retry_timer_ == 0) SetTimer(&retry_timer_, kRetry, &GuardedWorker::FlushBacklog);
}

void GuardedWorker::FlushBacklog() {
  const auto sent = backlog_.Flush();
  // What ends its socket ends the process, which is heard of elsewhere.
  if (!sent.ok()) {
    return child_->Died(absl::IsUnavailable(sent.status()) ? "" : sent.status().ToString());
  }
  // It takes something, so it is not stuck.
  if (*sent > 0) timers_->Remove(std::exchange(stuck_timer_, 0));
  WatchBacklog();
}

void GuardedWorker::Close(const std::shared_ptr<GuardedSession>& session) {
  if (!child_->alive()) return;  // It ends with the process.
  if (backlog_.Drop(session->session_)) return EndSoon(session);
  warpline_internal::ToWorker message;
  message.set_session(session->session_);
  message.mutable_close();
  // Nothing else of the session waits, so there is room. A process that cannot be asked is dying.
  (void)Send(std::move(message), {});
  session->close_timer_ =
      timers_->RunAfter(options_.close_timeout, [self = shared_from_this(), session] {
        control_loop.AssertOnLoop();
        session->close_timer_ = 0;
        self->OnHangs(session);
      });
}

void GuardedWorker::End(const std::shared_ptr<GuardedSession>& session) {
  const auto self = shared_from_this();
  if (std::erase(sessions_, session) == 0) return;
  const auto found = by_id_.find(session->session_);
  if (found != by_id_.end() && found->second == session.get()) by_id_.erase(found);
  timers_->Remove(std::exchange(session->close_timer_, 0));
  // Nothing of the session's is under way there any more.
  if (session->window_ != 0) windows_.GiveBack(std::exchange(session->window_, 0));
  MaybeKill();
  session->OnGone(why_);
}

void GuardedWorker::EndSoon(std::shared_ptr<GuardedSession> session) {
  control_->Post([self = shared_from_this(), session = std::move(session)] {
    control_loop.AssertOnLoop();
    self->End(session);
  });
}

void GuardedWorker::OnHangs(const std::shared_ptr<GuardedSession>& session) {
  timers_->Remove(std::exchange(session->close_timer_, 0));
  session->state_ = GuardedSession::State::kHung;
  Leave(session->session_);
  MaybeKill();
}

// --- Its end.

void GuardedWorker::Leave(uint64_t hung) {
  if (leaving_ || !child_->alive()) return;
  leaving_ = true;
  why_ = "the work of another session did not end";
  if (const LogPermit permit = log_->Ask(kGuardedLeavesLine)) {
    permit.Warning("guarded worker is replaced gpu=", ordinal_, " worker_pid=", pid(),
                   " sessions=", sessions_.size(), " hung_session=", hung);
  }
  BeginRecovery();
  Unusable(why_);
  SetTimer(&drain_timer_, options_.drain, &GuardedWorker::Kill);
  const auto sessions = sessions_;
  for (const auto& session : sessions) session->OnLeaving();
}

void GuardedWorker::MaybeKill() {
  if (usable_ || !child_->alive()) return;
  const bool waits = std::any_of(sessions_.begin(), sessions_.end(), [](const auto& session) {
    control_loop.AssertOnLoop();
    return session->state_ != GuardedSession::State::kHung;
  });
  if (!waits) Kill();
}

// --- GuardedSession.

void GuardedSession::Open(warpline_internal::OpenWorker open, std::shared_ptr<WorkerRings> rings,
                          const SessionFiles& files) {
  if (state_ != State::kWaiting || quiet()) return;
  if (process_->prepared()) return SendOpen(std::move(open), rings, files);
  pending_open_ = [this, open = std::move(open), rings = std::move(rings), files] {
    control_loop.AssertOnLoop();
    SendOpen(open, rings, files);
  };
}

void GuardedSession::SendOpen(warpline_internal::OpenWorker open,
                              const std::shared_ptr<WorkerRings>& rings,
                              const SessionFiles& files) {
  if (!process_->Enter(open.session(), this)) {
    process_->Broken("two sessions have the same number");
    return;
  }
  session_ = open.session();
  warpline_internal::ToWorker message;
  message.set_session(session_);
  *message.mutable_open() = std::move(open);
  const absl::Status sent = process_->Send(std::move(message), OpeningFiles(rings.get(), files));
  if (rings != nullptr) rings->CloseChildFds();
  if (sent.ok()) {
    opened_due_ = true;
    state_ = State::kOpen;
  } else if (!absl::IsUnavailable(sent)) {
    // Otherwise the process is dying, and the session with it.
    why_ = sent.ToString();
    process_->EndSoon(shared_from_this());
  }
}

absl::Status GuardedSession::Send(warpline_internal::ToWorker message, absl::Span<const int> fds) {
  if (state_ != State::kOpen || quiet()) return absl::UnavailableError("no worker");
  message.set_session(session_);
  return process_->Send(std::move(message), fds);
}

void GuardedSession::Kill() {
  if (std::exchange(killed_, true)) return;
  pending_open_ = nullptr;
  if (state_ == State::kWaiting) {
    process_->EndSoon(shared_from_this());
  } else if (state_ == State::kOpen) {
    state_ = State::kClosing;
    process_->Close(shared_from_this());
  }
}

std::optional<HostWindow> GuardedSession::TakeWindow() {
  if (state_ != State::kOpen || quiet() || window_ != 0) return std::nullopt;
  auto window = process_->TakeWindow(session_);
  if (window.has_value()) window_ = window->number;
  return window;
}

std::optional<HostWindow> GuardedSession::BringWindow(const HostWindow& former) {
  if (state_ != State::kOpen || quiet() || window_ != 0) return std::nullopt;
  auto window = process_->BringWindow(former);
  if (window.has_value()) window_ = window->number;
  return window;
}

void GuardedSession::OnPrepared(const warpline_internal::WorkerOpened& prepared) {
  if (quiet()) return;
  if (prepared.error() != 0) pending_open_ = nullptr;
  events_->OnWorkerPrepared(prepared);
  if (pending_open_) std::exchange(pending_open_, nullptr)();
}

bool GuardedSession::OnMessage(const warpline_internal::FromWorker& message,
                               std::vector<UniqueFd> fds) {
  if (message.has_closed()) {
    if (state_ != State::kClosing && state_ != State::kHung) {
      return process_->Broken("bad message: closed out of turn");
    }
    if (message.closed().hangs()) {
      events_->OnWorkerHangs();
      process_->OnHangs(shared_from_this());
    } else {
      process_->End(shared_from_this());
    }
    return true;
  }
  if (state_ != State::kOpen) return true;  // It was on its way.
  if (message.has_ended()) {
    // Nothing of it is told before the process has let go of what the session's next worker needs.
    why_ = message.ended().overdue() ? "its kernels did not end" : "the protocol was broken";
    state_ = State::kClosing;
    process_->Close(shared_from_this());
    return true;
  }
  if (message.has_opened() && !std::exchange(opened_due_, false)) {
    return process_->Broken("bad message: opened out of turn");
  }
  const auto goes_on = HandOn(message, std::move(fds), events_);
  return goes_on.ok() ? *goes_on : process_->Broken(std::string(goes_on.status().message()));
}

void GuardedSession::OnLeaving() {
  if (state_ == State::kOpen && !quiet()) events_->OnWorkerLeaving();
}

void GuardedSession::OnDied(const std::string& why) {
  pending_open_ = nullptr;
  if (quiet()) return;
  told_ = true;
  events_->OnWorkerDied(why_.empty() ? why : why_);
}

void GuardedSession::OnGone(const std::string& why) {
  OnDied(why);
  state_ = State::kGone;
  process_ = nullptr;
  events_->OnWorkerGone();
}

}  // namespace warpline::server
