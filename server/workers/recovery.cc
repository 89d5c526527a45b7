#include "server/workers/recovery.h"

#include <utility>

namespace warpline::server {

Recovery::Recovery(Clock clock, std::function<void(const Outcome&)> over)
    : clock_(std::move(clock)), over_(std::move(over)), began_(clock_()) {}

Recovery::~Recovery() {
  if (outcome_.went_on + outcome_.lost + outcome_.left > 0) over_(outcome_);
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

void RecoveryShare::Lost() {
  ++recovery_->outcome_.lost;
  recovery_ = nullptr;
}

}  // namespace warpline::server
