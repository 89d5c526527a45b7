#include "server/gpu_server/children/workers/guarded_standby.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"

namespace warpline::server {

GuardedStandby::GuardedStandby(Timers* timers, LogBudget* log, int ordinal,
                               GuardedStandbyOptions options, Start start)
    : timers_(timers), log_(log), ordinal_(ordinal), options_(options), start_(std::move(start)) {}

void GuardedStandby::Want() {
  if (!options_.kept || process_ != nullptr || timer_ != 0) return;
  timer_ = timers_->RunAfter(options_.pause, [this] {
    control_loop.AssertOnLoop();
    timer_ = 0;
    process_ = start_();
  });
}

std::shared_ptr<GuardedWorker> GuardedStandby::TakeOver(const GuardedWorker& former) {
  // One that is dying is told in a moment.
  if (process_ == nullptr || !process_->usable()) return nullptr;
  const bool ready = process_->prepared();
  if (const LogPermit permit = log_->Ask(kGuardedTakesOverLine)) {
    permit.Info("guarded standby takes over gpu=", ordinal_, " worker_pid=", process_->pid(),
                " former_pid=", former.pid(),
                " ready_seconds=", ready ? absl::ToDoubleSeconds(SteadyNow() - ready_since_) : 0);
  }
  return std::exchange(process_, nullptr);
}

void GuardedStandby::End() {
  timers_->Remove(std::exchange(timer_, 0));
  backoff_ = absl::ZeroDuration();
  complained_ = false;
  if (process_ != nullptr) std::exchange(process_, nullptr)->Retire();
}

bool GuardedStandby::OnPrepared(const GuardedWorker& process) {
  if (!Is(process)) return false;
  backoff_ = absl::ZeroDuration();
  complained_ = false;
  ready_since_ = SteadyNow();
  if (const LogPermit permit = log_->Ask(kGuardedStandbyLine)) {
    permit.Info("guarded standby is ready gpu=", ordinal_, " worker_pid=", process.pid());
  }
  return true;
}

bool GuardedStandby::OnUnusable(const GuardedWorker& process, const std::string& why) {
  if (!Is(process)) return false;
  if (!std::exchange(complained_, true)) {
    if (const LogPermit permit = log_->Ask(kGuardedNoStandbyLine)) {
      permit.Warning("no guarded standby gpu=", ordinal_, " worker_pid=", process.pid(),
                     " error=", why);
    }
  }
  process_ = nullptr;
  backoff_ = std::clamp(backoff_ * 2, options_.first_backoff, options_.last_backoff);
  timer_ = timers_->RunAfter(backoff_, [this] {
    control_loop.AssertOnLoop();
    timer_ = 0;
  });
  return true;
}

}  // namespace warpline::server
