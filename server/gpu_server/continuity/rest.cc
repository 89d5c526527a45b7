#include "server/gpu_server/continuity/rest.h"

#include <algorithm>
#include <utility>

namespace warpline::server {
namespace {

// Between looks at whether nothing is in flight.
constexpr absl::Duration kPoll = absl::Milliseconds(1);

}  // namespace

void Rest::Begin(Reason reason, absl::Duration deadline, Rested rested,
                 std::function<void()> wanted) {
  const bool known = std::any_of(turns_.begin(), turns_.end(),
                                 [&](const Turn& turn) { return turn.reason == reason; });
  if (known) return rested(absl::FailedPreconditionError("it comes to rest for that already"));
  const bool others = !turns_.empty();
  turns_.push_back({reason, std::move(rested), std::move(wanted)});
  turns_.back().deadline = timers_->RunAfter(deadline, [this, reason] {
    control_loop.AssertOnLoop();
    OnDeadline(reason);
  });
  if (!others) return Look();
  // A copy, since the turn may end meanwhile.
  const std::function<void()> let_go = held() ? turns_.front().wanted : nullptr;
  if (let_go) let_go();
}

void Rest::Look() {
  Turn& turn = turns_.front();
  // Every time, since whoever shares the gate may have opened it.
  if (gate_->Freeze() == gate_->Retired()) {
    timers_->Remove(std::exchange(turn.deadline, 0));
    const std::function<void()> let_go = turns_.size() > 1 ? turn.wanted : nullptr;
    std::exchange(turn.rested, nullptr)(absl::OkStatus());
    // Others have come while it was looked.
    if (let_go && held()) let_go();
    return;
  }
  poll_ = timers_->RunAfter(kPoll, [this] {
    control_loop.AssertOnLoop();
    poll_ = 0;
    Look();
  });
}

void Rest::OnDeadline(Reason reason) {
  const auto turn = std::find_if(turns_.begin(), turns_.end(),
                                 [&](const Turn& other) { return other.reason == reason; });
  if (turn == turns_.end()) return;
  turn->deadline = 0;
  const Rested rested = std::exchange(turn->rested, nullptr);
  if (turn != turns_.begin()) {
    turns_.erase(turn);
    return rested(absl::DeadlineExceededError("it rests for another reason"));
  }
  StopPolling();
  if (gate_->Freeze() == gate_->Retired()) return rested(absl::OkStatus());
  if (turns_.size() == 1) gate_->Thaw();
  Next();
  rested(absl::DeadlineExceededError("commands are still in flight"));
}

void Rest::Next() {
  timers_->Remove(turns_.front().deadline);
  turns_.pop_front();
  if (!turns_.empty()) Look();
}

void Rest::Release() {
  if (!held()) return;
  if (turns_.size() == 1) gate_->Thaw();
  Next();
}

void Rest::Forget(Reason reason) {
  const auto turn = std::find_if(turns_.begin(), turns_.end(),
                                 [&](const Turn& other) { return other.reason == reason; });
  if (turn == turns_.end()) return;
  if (turn == turns_.begin()) {
    StopPolling();
    return Next();
  }
  timers_->Remove(turn->deadline);
  turns_.erase(turn);
}

void Rest::ForgetAll() {
  StopPolling();
  for (const Turn& turn : std::exchange(turns_, {})) timers_->Remove(turn.deadline);
}

void Rest::StopPolling() { timers_->Remove(std::exchange(poll_, 0)); }

std::optional<Rest::Reason> Rest::reason() const {
  if (!held()) return std::nullopt;
  return turns_.front().reason;
}

}  // namespace warpline::server
