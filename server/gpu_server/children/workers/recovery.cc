#include "server/gpu_server/children/workers/recovery.h"

#include <utility>

namespace warpline::server {

Recovery::Recovery(Timers* timers, Clock clock, std::function<void(const Outcome&)> over)
    : timers_(timers), clock_(std::move(clock)), over_(std::move(over)), began_(clock_()) {}

Recovery::~Recovery() {
  if (outcome_.went_on + outcome_.lost + outcome_.left > 0) over_(outcome_);
  timers_->Remove(timer_);
  CallWaiting();
}

void Recovery::WhenOver(std::function<void()> callback) {
  waiting_.push_back(std::move(callback));
  if (timer_ != 0) return;
  timer_ = timers_->RunAfter(kLongestWait, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->timer_ = 0;
    self->CallWaiting();
  });
}

void Recovery::CallWaiting() {
  for (const auto& callback : std::exchange(waiting_, {})) callback();
}

std::unique_ptr<RecoveryShare> Recovery::Join() {
  return std::make_unique<RecoveryShare>(shared_from_this());
}

RecoveryShare::~RecoveryShare() {
  if (recovery_ != nullptr) ++recovery_->outcome_.left;
}

void RecoveryShare::WentOn() {
  ++recovery_->outcome_.went_on;
  recovery_->outcome_.took = recovery_->clock_() - recovery_->began_;
  recovery_ = nullptr;
}

std::weak_ptr<Recovery> RecoveryShare::Lost() {
  ++recovery_->outcome_.lost;
  const std::weak_ptr<Recovery> left = recovery_;
  recovery_ = nullptr;
  return left;
}

}  // namespace warpline::server
