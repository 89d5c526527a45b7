#include "client_stub/session/connection/connection.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "client_stub/session/status/session_log.h"
#include "transport/loop_thread.h"

namespace warpline::stub {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kLastBackoff = absl::Seconds(1);
// The deadlines of one attempt: to connect, and from then on for the server's answer, which may
// have to wait until the server has ended the former connection. The first attempts are short,
// since the network may change meanwhile. Later ones are long enough for servers whose answers take
// a second, and for packets that are lost.
constexpr absl::Duration kFirstDial = absl::Seconds(1);
constexpr absl::Duration kLastDial = absl::Seconds(4);
constexpr absl::Duration kAnswerDeadline = absl::Seconds(5);
// So often a server that names another one is followed at once.
constexpr int kMostRedirects = 3;

// Whether another attempt would end with the same status.
bool IsFinal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsUnauthenticated(status);
}

}  // namespace

Connection::Connection(ChannelSlot* slot, ChannelHandler* handler, LogBudget* log, Hooks hooks)
    : slot_(slot), handler_(handler), log_(log), hooks_(std::move(hooks)) {}

Connection::~Connection() {
  BeginClosing();
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (redialer_.joinable()) redialer_.join();
  DropChannel();
}

absl::Status Connection::Connect(const std::optional<DialTarget>& direct, const DialTarget& target,
                                 const Dialer& dialer, absl::Duration deadline,
                                 absl::Duration resume) {
  dialer_ = dialer;
  resume_for_ = resume;
  absl::Status status;
  {
    const LoopScope scope(&on_redialer_);
    endpoints_ = {target};
    if (direct.has_value() && Dial(*direct, std::min(deadline, kFirstDial)).ok()) {
      endpoints_.insert(endpoints_.begin(), *direct);
    } else {
      status = Dial(target, deadline);
    }
  }
  MutexLock lock(&mu_);
  connected_ = true;
  changed_.NotifyAll();
  return status;
}

absl::Status Connection::Dial(const DialTarget& target, absl::Duration deadline) {
  auto channel = dialer_(target, handler_, deadline);
  if (!channel.ok()) return channel.status();
  channel_ = *std::move(channel);
  slot_->Set(channel_.get());
  slot_->Wake();
  return absl::OkStatus();
}

void Connection::DropChannel() {
  slot_->Clear();
  channel_.reset();
}

void Connection::MoveTo(const DialTarget& target, absl::Duration after) {
  MutexLock lock(&mu_);
  if (!resumable_ || resume_for_ <= absl::ZeroDuration() || stopping_ || goodbye_ ||
      state_ == ConnectionState::kOver) {
    return;
  }
  move_to_ = target;
  move_at_ = absl::Now() + after;
  StartRedialer();
}

void Connection::SetUp(bool resumable) {
  MutexLock lock(&mu_);
  resumable_ = resumable;
  state_ = ConnectionState::kUp;
  changed_.NotifyAll();
}

bool Connection::TakeResumeDue(uint64_t* attempt) {
  *attempt = attempt_;
  return std::exchange(resume_due_, false);
}

void Connection::SetRedirected() {
  MutexLock lock(&mu_);
  redirected_ = true;
}

bool Connection::TakeRedirected() {
  MutexLock lock(&mu_);
  return std::exchange(redirected_, false);
}

void Connection::SetResumed() {
  resumed_awaited_ = false;
  MutexLock lock(&mu_);
  if (state_ == ConnectionState::kResuming) state_ = ConnectionState::kUp;
  changed_.NotifyAll();
}

bool Connection::OnClosed(const absl::Status& status, bool sound) {
  MutexLock lock(&mu_);
  if (!MayResume(status, sound)) {
    state_ = ConnectionState::kOver;
    return false;
  }
  state_ = ConnectionState::kDown;
  ++losses_;
  down_status_ = status;
  StartRedialer();
  return true;
}

void Connection::SetClosed() {
  MutexLock lock(&mu_);
  closed_ = true;
  changed_.NotifyAll();
}

bool Connection::AwaitFlushed(absl::Time end, bool sound, const std::function<bool()>& flushed) {
  MutexLock lock(&mu_);
  while (sound && !closed_ && !(state_ == ConnectionState::kUp && flushed())) {
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    changed_.WaitWithTimeout(&mu_, left);
  }
  if (closed_) return false;
  goodbye_ = true;
  if (state_ == ConnectionState::kUp) return true;
  // There is no connection to say good-bye on; the server notices by itself.
  stopping_ = true;
  changed_.NotifyAll();
  return false;
}

void Connection::NoteFlushed() {
  MutexLock lock(&mu_);
  changed_.NotifyAll();
}

void Connection::AwaitClosed(absl::Time end) {
  MutexLock lock(&mu_);
  while (!closed_) {
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitWithTimeout(&mu_, left);
  }
}

bool Connection::MayResume(const absl::Status& status, bool sound) {
  if (!resumable_ || !sound || goodbye_ || stopping_ || resume_for_ <= absl::ZeroDuration()) {
    return false;
  }
  switch (state_) {
    case ConnectionState::kUp:
      // The connection was lost, or the server ended it for a connection of ours that it takes for
      // a later one.
      return absl::IsUnavailable(status) || absl::IsAborted(status);
    case ConnectionState::kMoving:
    case ConnectionState::kResuming:  // The redialer decides.
      return true;
    default:
      return false;
  }
}

bool Connection::MovePending() const {
  return connected_ && state_ == ConnectionState::kUp && move_to_.has_value() && !goodbye_;
}

bool Connection::RedialDue() const {
  if (!connected_) return false;
  return state_ == ConnectionState::kDown || (MovePending() && absl::Now() >= move_at_);
}

void Connection::StartRedialer() {
  if (!redialer_.joinable()) {
    redialer_ = StartLoopThread("wl-link", [this] {
      const LoopScope scope(&on_redialer_);
      RunRedialer();
    });
  }
  changed_.NotifyAll();
}

void Connection::CheckMove(DialTarget target, uint64_t losses) {
  const auto stays = [this, losses] {
    MutexLock lock(&mu_);
    return stopping_ || state_ != ConnectionState::kUp || losses_ != losses;
  };
  const std::string found = target.find(stays);
  // One that has lost its connection meanwhile asks for another relay.
  if (stays()) return;
  target.find = nullptr;
  if (found.empty()) {
    if (const LogPermit permit = log_->Ask(kNoRelayLine)) {
      permit.Info("the session has no connections of its own: nobody answers at ", target.endpoint);
    }
    return;
  }
  target.endpoint = found;
  MutexLock lock(&mu_);
  if (move_to_.has_value()) return;  // It goes elsewhere meanwhile.
  move_to_ = std::move(target);
  move_at_ = absl::Now();
}

void Connection::RunRedialer() {
  while (true) {
    bool moving;
    std::optional<DialTarget> unchecked;
    uint64_t losses = 0;
    {
      MutexLock lock(&mu_);
      while (!stopping_ && state_ != ConnectionState::kOver && !RedialDue()) {
        if (MovePending()) {
          changed_.WaitWithTimeout(&mu_, move_at_ - absl::Now());
        } else {
          changed_.Wait(&mu_);
        }
      }
      if (stopping_ || state_ == ConnectionState::kOver) return;
      moving = state_ == ConnectionState::kUp;
      losses = losses_;
      if (moving && move_to_->find != nullptr) {
        unchecked = std::exchange(move_to_, std::nullopt);
      } else if (moving) {
        state_ = ConnectionState::kMoving;
        endpoints_.insert(endpoints_.begin(), *std::exchange(move_to_, std::nullopt));
      } else {
        if (const LogPermit permit = log_->Ask(kConnectionLostLine)) {
          permit.Warning("connection to the server lost: ", std::string(down_status_.message()),
                         "; the session waits, and goes on if the server answers within ",
                         absl::FormatDuration(resume_for_));
        }
      }
    }
    if (unchecked.has_value()) {
      CheckMove(*std::move(unchecked), losses);
      continue;
    }
    DropChannel();
    {
      const LoopScope scope(&channel_loop);
      moving_ = moving;
    }
    Redial(moving);
  }
}

void Connection::Redial(bool moving) {
  const absl::Time start = absl::Now();
  const absl::Time give_up = start + resume_for_;
  absl::Duration backoff = kFirstBackoff;
  absl::Duration dial = kFirstDial;
  size_t choice = 0;
  int redirects = 0;
  while (true) {
    const bool own = choice + 1 == endpoints_.size();
    const bool used_up = endpoints_[choice].once;
    // A place that is tried once has answered just now.
    const absl::Status status = TryResume(endpoints_[choice], used_up ? kLastDial : dial, give_up);
    const absl::Time now = absl::Now();
    if (used_up) endpoints_.erase(endpoints_.begin() + static_cast<ptrdiff_t>(choice));
    if (status.ok()) {
      if (!moving) {
        if (const LogPermit permit = log_->Ask(kResumedLine)) {
          permit.Warning("session resumed after ",
                         absl::FormatDuration(absl::Trunc(now - start, absl::Milliseconds(1))));
        }
      }
      return;
    }
    if ((own && IsFinal(status)) || now >= give_up) return GiveUp(status);
    if (TakeRedirected() && ++redirects <= kMostRedirects) {
      choice = endpoints_.size() - 1;
      continue;
    }
    if (used_up) {
      if (absl::IsCancelled(status)) continue;
      if (const LogPermit permit = log_->Ask(kNoRelayLine)) {
        permit.Warning("the session has no connections of its own: ",
                       std::string(status.message()));
      }
      continue;
    }
    if (!own && (moving || IsFinal(status))) {
      // This is not our server, or one that cannot be reached there.
      endpoints_.erase(endpoints_.begin() + static_cast<ptrdiff_t>(choice));
      continue;
    }
    choice = own ? 0 : choice + 1;
    MutexLock lock(&mu_);
    const absl::Time next = own ? std::min(now + backoff, give_up) : now;
    while (!stopping_ && absl::Now() < next) {
      changed_.WaitWithTimeout(&mu_, next - absl::Now());
    }
    if (stopping_ || state_ == ConnectionState::kOver) return;
    if (own) {
      backoff = std::min(2 * backoff, kLastBackoff);
      dial = std::min(2 * dial, kLastDial);
    }
  }
}

absl::Status Connection::TryResume(const DialTarget& target, absl::Duration dial,
                                   absl::Time deadline) {
  {
    MutexLock lock(&mu_);
    if (stopping_ || state_ == ConnectionState::kOver) {
      return absl::CancelledError("the session ends");
    }
  }
  if (hooks_.prepare) {
    if (absl::Status ready = hooks_.prepare(); !ready.ok()) return ready;
  }
  {
    MutexLock lock(&mu_);
    state_ = ConnectionState::kResuming;
  }
  {
    const LoopScope scope(&channel_loop);
    ++attempt_;
    resume_due_ = true;
    resumed_awaited_ = true;
  }
  const absl::Duration left = std::max(deadline - absl::Now(), absl::Milliseconds(10));
  const absl::Status dialed = Dial(target, std::min(left, dial));
  if (!dialed.ok()) return dialed;
  bool silent;
  {
    const absl::Time answer_due = absl::Now() + std::min(left, kAnswerDeadline);
    MutexLock lock(&mu_);
    while (state_ == ConnectionState::kResuming && !stopping_ && absl::Now() < answer_due) {
      changed_.WaitWithTimeout(&mu_, answer_due - absl::Now());
    }
    if (state_ == ConnectionState::kUp) return absl::OkStatus();
    // An answer that comes from now on is too late: the channel is ended.
    silent = state_ == ConnectionState::kResuming;
    if (silent) state_ = ConnectionState::kMoving;
  }
  DropChannel();
  if (silent) return absl::UnavailableError("the server did not answer the resumption in time");
  MutexLock lock(&mu_);
  if (!down_status_.ok()) return down_status_;
  return absl::UnavailableError("the server ended the connection");
}

// Does the loop's part, since there is no loop.
void Connection::GiveUp(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    if (stopping_ || state_ == ConnectionState::kOver) return;
  }
  {
    const LoopScope scope(&channel_loop);
    if (hooks_.gave_up) hooks_.gave_up(status);
  }
  MutexLock lock(&mu_);
  state_ = ConnectionState::kOver;
  closed_ = true;
  changed_.NotifyAll();
}

}  // namespace warpline::stub
