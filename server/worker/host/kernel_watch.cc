#include "server/worker/host/kernel_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/steady_time.h"
#include "server/worker/host/ring_session.h"
#include "transport/loop_thread.h"

namespace warpline::worker {
namespace {

bool Stalls(const WatchedWork& work) {
  return work.stalled_since != absl::InfiniteFuture() && !work.processors.empty();
}

// Whether `waiting` has waited for `patience` for what `running` may have.
bool WaitsFor(const WatchedWork& waiting, const WatchedWork& running, absl::Time now,
              absl::Duration patience) {
  return now - waiting.stalled_since >= patience && waiting.processors.Overlaps(running.processors);
}

}  // namespace

std::optional<size_t> PickOverdue(absl::Span<const WatchedWork> sessions, absl::Time now,
                                  absl::Duration patience) {
  std::optional<size_t> first;
  for (size_t i = 0; i < sessions.size(); ++i) {
    const WatchedWork& work = sessions[i];
    if (!Stalls(work)) continue;
    const absl::Duration stalled = now - work.stalled_since;
    bool overdue = stalled >= work.limit;
    for (size_t other = 0; !overdue && other < sessions.size(); ++other) {
      overdue = other != i && stalled >= patience && WaitsFor(sessions[other], work, now, patience);
    }
    if (overdue && (!first || work.stalled_since < sessions[*first].stalled_since)) first = i;
  }
  return first;
}

absl::Duration SlowTime::Note(absl::Time stalled_since, bool slow, absl::Duration passed) {
  if (stalled_since != std::exchange(stalled_since_, stalled_since)) {
    slow_ = absl::ZeroDuration();
  } else if (slow) {
    slow_ = std::min(slow_ + passed, kMost);
  }
  return slow_;
}

absl::StatusOr<std::unique_ptr<KernelWatch>> KernelWatch::Start(KernelWatchOptions options) {
  auto watch = absl::WrapUnique(new KernelWatch(std::move(options)));
  auto thread = TryStartLoopThread("wl-watch", [at = watch.get()] { at->Run(); });
  if (!thread.ok()) return thread.status();
  watch->thread_ = *std::move(thread);
  return watch;
}

KernelWatch::~KernelWatch() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void KernelWatch::Add(uint64_t session, std::shared_ptr<SessionDesk> desk, absl::Duration limit) {
  MutexLock lock(&mu_);
  sessions_[session] = {std::move(desk), limit};
  changed_.NotifyAll();
}

void KernelWatch::OnClosing(uint64_t session) {
  MutexLock lock(&mu_);
  const auto found = sessions_.find(session);
  if (found != sessions_.end()) found->second.closing_since = SteadyNow();
}

void KernelWatch::Remove(uint64_t session) {
  MutexLock lock(&mu_);
  sessions_.erase(session);
}

void KernelWatch::Run() {
  for (;;) {
    std::map<uint64_t, Watched> sessions;
    {
      MutexLock lock(&mu_);
      if (!sessions_.empty()) changed_.WaitWithTimeout(&mu_, options_.every);
      while (sessions_.empty() && !stop_) changed_.Wait(&mu_);
      if (stop_) return;
      sessions = sessions_;
    }
    const absl::Time now = SteadyNow();
    passed_ = now - std::exchange(looked_, now);
    std::erase_if(slow_, [&](const auto& entry) { return !sessions.contains(entry.first); });
    Look(sessions, now);
  }
}

WatchedWork KernelWatch::WorkOf(uint64_t number, const Watched& session) {
  WatchedWork work;
  work.limit = session.limit;
  session.desk->WithRing([&](RingSession* ring) {
    const RingSession::StalledWork stalled = ring->LookAtWork();
    work.stalled_since = stalled.since;
    work.processors = stalled.processors;
    work.stalled_since += slow_[number].Note(stalled.since, stalled.slow, passed_);
  });
  work.stalled_since = std::max(work.stalled_since, since_);
  return work;
}

void KernelWatch::Look(const std::map<uint64_t, Watched>& sessions, absl::Time now) {
  if (options_.look) options_.look();
  if (AwaitEnd(sessions, now) || AwaitClosing(sessions, now)) {
    since_ = now;
    return;
  }
  std::vector<WatchedWork> work;
  for (const auto& [number, session] : sessions) work.push_back(WorkOf(number, session));
  const auto overdue = PickOverdue(work, now, options_.patience);
  if (!overdue) return;
  const auto& [number, session] = *std::next(sessions.begin(), static_cast<ptrdiff_t>(*overdue));
  const WatchedWork& its = work[*overdue];
  const absl::Duration ran = now - its.stalled_since;
  const std::string why =
      ran >= its.limit
          ? absl::StrCat("a kernel of this session ran for longer than ",
                         absl::FormatDuration(its.limit), ", which is what it may")
          : absl::StrCat("a kernel of this session ran for ",
                         absl::FormatDuration(absl::Trunc(ran, absl::Milliseconds(100))),
                         " while others waited for multiprocessors that it has or wants");
  LogWarning("kernels are ended session=", number, " why=\"", why, "\"");
  session.desk->WithRing([&](RingSession* ring) { ring->EndKernels(why); });
  told_ = Told{number, now};
}

// The device is asked: commands of a session that has failed are complete at once.
bool KernelWatch::AwaitEnd(const std::map<uint64_t, Watched>& sessions, absl::Time now) {
  if (!told_) return false;
  const auto found = sessions.find(told_->session);
  if (found == sessions.end() || found->second.closing_since != absl::InfiniteFuture() ||
      WorkOf(found->first, found->second).processors.empty()) {
    told_.reset();
    return false;
  }
  if (now - told_->at >= options_.grace && !std::exchange(told_->hangs, true)) {
    found->second.desk->WithRing([&](RingSession*) { options_.hangs(told_->session); });
  }
  return true;
}

bool KernelWatch::AwaitClosing(const std::map<uint64_t, Watched>& sessions, absl::Time now) {
  return std::any_of(sessions.begin(), sessions.end(), [&](const auto& entry) {
    return now - entry.second.closing_since >= options_.closing;
  });
}

}  // namespace warpline::worker
