// How a session goes on when its connection is lost, or exchanged for another.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client_stub/session/opening/session_impl.h"
#include "common/log/log.h"
#include "common/process_identity.h"
#include "proto/frames.h"
#include "transport/loop_thread.h"
#include "transport/unix_connect.h"

namespace warpline::stub {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kLastBackoff = absl::Seconds(1);
// For one attempt: to connect, and from then on for the server's answer, which may have to wait
// until it has ended the former connection.
constexpr absl::Duration kDialDeadline = absl::Seconds(1);
constexpr absl::Duration kAnswerDeadline = absl::Seconds(5);

// What another attempt would end with again.
bool IsFinal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsUnauthenticated(status);
}

bool IsLoopback(const std::string& endpoint) {
  return absl::StartsWith(endpoint, "127.") || absl::StartsWith(endpoint, "localhost:") ||
         absl::StartsWith(endpoint, "[::1]:");
}

void Add(std::atomic<uint64_t>* counter, uint64_t n) {
  counter->fetch_add(n, std::memory_order_relaxed);
}

}  // namespace

void SessionImpl::OfferOtherAddress(const SessionOptions& options) {
  if (!options.transfer || welcomed_.unix_socket.empty() || !IsLoopback(options.endpoint)) return;
  if (welcomed_.boot_id != BootId()) return;
  // The path may lead somewhere else here than on the server's side of a container's wall. The
  // session's secret goes only to the server's user, by numbers that mean the same on both sides.
  if (welcomed_.user_namespace == 0 || welcomed_.user_namespace != UserNamespace()) return;
  const uint32_t server = welcomed_.server_uid;
  // So that no working connection is given up for nothing.
  const absl::Status there = ConnectUnix(welcomed_.unix_socket, server).status();
  if (absl::IsPermissionDenied(there)) {
    LogWarning("the session stays where it is: ", std::string(there.message()));
  }
  if (there.ok()) MoveTo(DialTarget{absl::StrCat("unix:", welcomed_.unix_socket), server});
}

void SessionImpl::MoveTo(const DialTarget& target) {
  MutexLock lock(&state_mu_);
  if (!welcomed_.resumable || resume_for_ <= absl::ZeroDuration() || stopping_ || goodbye_ ||
      link_ == LinkState::kOver) {
    return;
  }
  move_to_ = target;
  StartRedialer();
}

bool SessionImpl::MayResume(const absl::Status& status) {
  if (!counts_ || lost_ || goodbye_ || stopping_ || resume_for_ <= absl::ZeroDuration()) {
    return false;
  }
  switch (link_) {
    case LinkState::kUp:
      // Lost, or ended by the server for a connection of ours that it takes for a later one.
      return absl::IsUnavailable(status) || absl::IsAborted(status);
    case LinkState::kMoving:
    case LinkState::kResuming:  // The redialer decides.
      return true;
    default:
      return false;
  }
}

void SessionImpl::StartRedialer() {
  if (!redialer_.joinable()) redialer_ = StartLoopThread("wl-link", [this] { RunRedialer(); });
  state_changed_.NotifyAll();
}

void SessionImpl::RunRedialer() {
  while (true) {
    {
      MutexLock lock(&state_mu_);
      while (!stopping_ && link_ != LinkState::kOver && link_ != LinkState::kDown &&
             !(link_ == LinkState::kUp && move_to_.has_value() && !goodbye_)) {
        state_changed_.Wait(&state_mu_);
      }
      if (stopping_ || link_ == LinkState::kOver) return;
      if (link_ == LinkState::kUp) {
        moving_ = true;
        link_ = LinkState::kMoving;
        endpoints_.insert(endpoints_.begin(), *std::exchange(move_to_, std::nullopt));
      } else {
        moving_ = false;
        if (const LogPermit permit = log_.Ask(kConnectionLostLine)) {
          permit.Warning("connection to the server lost: ", std::string(down_status_.message()),
                         "; the session waits and will be resumed");
        }
      }
    }
    DropChannel();
    Redial();
  }
}

void SessionImpl::DropChannel() {
  channel_.Clear();
  owned_channel_.reset();
}

void SessionImpl::Redial() {
  const absl::Time start = absl::Now();
  const absl::Time give_up = start + resume_for_;
  absl::Duration backoff = kFirstBackoff;
  size_t choice = 0;
  while (true) {
    const bool own = choice + 1 == endpoints_.size();
    const absl::Status status = TryResume(endpoints_[choice], give_up);
    const absl::Time now = absl::Now();
    if (status.ok()) {
      if (!moving_) {
        if (const LogPermit permit = log_.Ask(kResumedLine)) {
          permit.Warning("session resumed after ",
                         absl::FormatDuration(absl::Trunc(now - start, absl::Milliseconds(1))));
        }
      }
      return;
    }
    if ((own && IsFinal(status)) || now >= give_up) return GiveUp(status);
    if (!own && (moving_ || IsFinal(status))) {
      // Not our server, or one that cannot be reached there.
      endpoints_.erase(endpoints_.begin() + static_cast<ptrdiff_t>(choice));
      continue;
    }
    choice = own ? 0 : choice + 1;
    MutexLock lock(&state_mu_);
    const absl::Time next = own ? std::min(now + backoff, give_up) : now;
    while (!stopping_ && absl::Now() < next) {
      state_changed_.WaitWithTimeout(&state_mu_, next - absl::Now());
    }
    if (stopping_ || link_ == LinkState::kOver) return;
    if (own) backoff = std::min(2 * backoff, kLastBackoff);
  }
}

absl::Status SessionImpl::TryResume(const DialTarget& target, absl::Time deadline) {
  {
    MutexLock lock(&state_mu_);
    if (stopping_ || link_ == LinkState::kOver) return absl::CancelledError("the session ends");
    link_ = LinkState::kResuming;
  }
  ++attempt_;
  resume_due_ = true;
  resumed_awaited_ = true;
  const absl::Duration left = std::max(deadline - absl::Now(), absl::Milliseconds(10));
  auto channel = dialer_(target, this, std::min(left, kDialDeadline));
  if (!channel.ok()) return channel.status();
  owned_channel_ = *std::move(channel);
  channel_.Set(owned_channel_.get());
  WakeChannel();
  bool silent;
  {
    const absl::Time answer_due = absl::Now() + std::min(left, kAnswerDeadline);
    MutexLock lock(&state_mu_);
    while (link_ == LinkState::kResuming && !stopping_ && absl::Now() < answer_due) {
      state_changed_.WaitWithTimeout(&state_mu_, answer_due - absl::Now());
    }
    if (link_ == LinkState::kUp) return absl::OkStatus();
    // An answer that comes from now on is too late: the channel goes.
    silent = link_ == LinkState::kResuming;
    if (silent) link_ = LinkState::kMoving;
  }
  DropChannel();
  if (silent) return absl::UnavailableError("the server did not answer the resumption in time");
  MutexLock lock(&state_mu_);
  if (!down_status_.ok()) return down_status_;
  return absl::UnavailableError("the server ended the connection");
}

bool SessionImpl::HandleResumed(std::string_view payload, std::string* problem) {
  ResumedBody body;
  size_t commands = 0;
  size_t controls = 0;
  if (!TakeStruct(&payload, &body) || !queue_.Rewind(body.seq, &commands) ||
      !control_.Rewind(body.controls, &controls)) {
    *problem = "a bad resumption";
    return false;
  }
  Add(&counters_.frames_again, commands + controls);
  Add(moving_ ? &counters_.transfers : &counters_.resumes, 1);
  resumed_awaited_ = false;
  unacked_frames_ = 0;
  unacked_bytes_ = 0;
  MutexLock lock(&state_mu_);
  if (link_ == LinkState::kResuming) link_ = LinkState::kUp;
  state_changed_.NotifyAll();
  return true;
}

// Instead of the loop, which there is not.
void SessionImpl::GiveUp(const absl::Status& status) {
  {
    MutexLock lock(&state_mu_);
    if (stopping_ || link_ == LinkState::kOver) return;
  }
  const bool closing = closing_.load();
  LogError("session lost: it could not be resumed: ", status.ToString());
  Lose(closing ? CudaResult::kDeinitialized : CudaResult::kLaunchFailed);
  MutexLock lock(&state_mu_);
  link_ = LinkState::kOver;
  closed_ = true;
  state_changed_.NotifyAll();
}

}  // namespace warpline::stub
