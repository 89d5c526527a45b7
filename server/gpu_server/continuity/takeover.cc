#include "server/gpu_server/continuity/takeover.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::server {

void Takeover::Begin(const std::string& why, UniqueFd variables) {
  why_ = why;
  variables_ = std::move(variables);
  lost_ = 0;
  place_->Freeze();
  resume_seq_ = place_->Taken().value_or(0);
  holdings_->Suspend();
  timer_ = timers_->RunAfter(timeout_, [this] {
    control_loop.AssertOnLoop();
    timer_ = 0;
    Fail("no other worker took over in time");
  });
  phase_ = Phase::kFormer;
  // Its mappings and its hold on the journal must be gone first.
  place_->Kill();
  if (place_->gone()) TakeNext();
}

void Takeover::OnWorkerGone() {
  if (under_way()) TakeNext();
}

void Takeover::TakeNext() {
  phase_ = Phase::kOpening;
  const absl::Status taken = place_->TakeNext(resume_seq_, variables_.get());
  if (!taken.ok()) Fail(taken.ToString());
}

void Takeover::OnWorkerOpened() {
  if (phase_ != Phase::kOpening) return;
  phase_ = Phase::kMapping;
  holdings_->MapAgain([this](CudaResult result) {
    control_loop.AssertOnLoop();
    OnMapped(result);
  });
}

void Takeover::OnMapped(CudaResult result) {
  if (phase_ != Phase::kMapping) return;
  if (result != CudaResult::kSuccess) {
    const std::string why = absl::StrCat("cannot map the memory: ", CudaResultName(result));
    events_->OnNextWorkerUseless(why);
    return OnWorkerDied(why);
  }
  Forget();
  ++count_;
  place_->Thaw();
  events_->OnTakenOver();
}

void Takeover::OnWorkerDied(const std::string& why) {
  // The former one was to die.
  if (phase_ != Phase::kOpening && phase_ != Phase::kMapping) return;
  phase_ = Phase::kFormer;
  if (++lost_ >= kMostWorkers) return Fail(absl::StrCat(why_, "; the next one died: ", why));
  // Nothing has reached it yet. OnWorkerGone() takes another.
  holdings_->Suspend();
  if (!place_->gone()) place_->Kill();
}

void Takeover::Fail(const std::string& why) {
  Forget();
  events_->OnTakeoverFailed(why);
}

void Takeover::Forget() {
  timers_->Remove(std::exchange(timer_, 0));
  phase_ = Phase::kNone;
  variables_ = UniqueFd();
}

}  // namespace warpline::server
