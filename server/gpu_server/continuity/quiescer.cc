#include "server/gpu_server/continuity/quiescer.h"

#include <utility>

namespace warpline::server {
namespace {

// Between looks at whether nothing is in flight.
constexpr absl::Duration kPoll = absl::Milliseconds(1);

}  // namespace

void Quiescer::Begin(absl::Duration deadline, Rested rested) {
  rested_ = std::move(rested);
  deadline_ = timers_->RunAfter(deadline, [this] {
    control_loop.AssertOnLoop();
    deadline_ = 0;
    Look(/*last=*/true);
  });
  Look(/*last=*/false);
}

void Quiescer::Look(bool last) {
  // Every time, since whoever shares the gate may have opened it.
  if (gate_->Freeze() == gate_->Retired()) return Finish(absl::OkStatus());
  if (last) {
    gate_->Thaw();
    return Finish(absl::DeadlineExceededError("commands are still in flight"));
  }
  poll_ = timers_->RunAfter(kPoll, [this] {
    control_loop.AssertOnLoop();
    poll_ = 0;
    Look(/*last=*/false);
  });
}

void Quiescer::Finish(const absl::Status& status) {
  const Rested rested = std::move(rested_);
  Forget();
  rested(status);
}

void Quiescer::Release() { gate_->Thaw(); }

void Quiescer::Forget() {
  timers_->Remove(std::exchange(poll_, 0));
  timers_->Remove(std::exchange(deadline_, 0));
  rested_ = nullptr;
}

}  // namespace warpline::server
