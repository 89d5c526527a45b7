#include "server/worker/host/launch_limit.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/steady_time.h"
#include "server/worker/host/ring_session.h"
#include "transport/loop_thread.h"

namespace warpline::worker {
namespace {

// How much of its limit a launch may go on for until that is seen, within these bounds.
constexpr int kLooksOfLimit = 8;
constexpr absl::Duration kShortest = absl::Milliseconds(5);
constexpr absl::Duration kLongest = absl::Milliseconds(100);

}  // namespace

LimitedSession LimitedSessionOf(std::shared_ptr<SessionDesk> desk, std::function<void()> end) {
  return {.stalled_since =
              [desk] {
                absl::Time since = absl::InfiniteFuture();
                desk->WithRing([&](RingSession* ring) { since = ring->LookAtWork().since; });
                return since;
              },
          .fail =
              [desk](const std::string& why) {
                desk->WithRing([&](RingSession* ring) { ring->EndKernels(why); });
              },
          .end = std::move(end)};
}

absl::StatusOr<std::unique_ptr<LaunchLimit>> LaunchLimit::Start(LimitedSession session,
                                                                absl::Duration limit,
                                                                absl::Duration grace) {
  auto watch = absl::WrapUnique(new LaunchLimit(std::move(session), limit, grace));
  auto thread = TryStartLoopThread("wl-limit", [at = watch.get()] { at->Run(); });
  if (!thread.ok()) return thread.status();
  watch->thread_ = *std::move(thread);
  return watch;
}

LaunchLimit::~LaunchLimit() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void LaunchLimit::EndNow(const std::string& why) {
  MutexLock lock(&mu_);
  if (why_.empty()) why_ = why;
  changed_.NotifyAll();
}

bool LaunchLimit::SleepFor(absl::Duration time) {
  const absl::Time until = SteadyNow() + time;
  MutexLock lock(&mu_);
  while (!stop_ && SteadyNow() < until) {
    changed_.WaitWithTimeout(&mu_, std::max(until - SteadyNow(), absl::Milliseconds(1)));
  }
  return !stop_;
}

std::string LaunchLimit::AwaitReason() {
  const absl::Duration every = std::clamp(limit_ / kLooksOfLimit, kShortest, kLongest);
  for (;;) {
    {
      MutexLock lock(&mu_);
      while (limit_ == absl::InfiniteDuration() && !stop_ && why_.empty()) changed_.Wait(&mu_);
      if (!stop_ && why_.empty()) changed_.WaitWithTimeout(&mu_, every);
      if (stop_) return "";
      if (!why_.empty()) return why_;
    }
    if (SteadyNow() - session_.stalled_since() < limit_) continue;
    return absl::StrCat("a launch of this session took longer than ", absl::FormatDuration(limit_),
                        ", which is what its lease allows");
  }
}

void LaunchLimit::Run() {
  const std::string why = AwaitReason();
  if (why.empty()) return;
  LogWarning("the session is ended: ", why);
  session_.fail(why);
  if (SleepFor(grace_)) session_.end();
}

}  // namespace warpline::worker
