#include "server/gpu_server/session/return_waits.h"

#include <utility>

namespace warpline::server {

void ReturnWaits::Add(absl::Duration most, std::function<void()> again) {
  const uint64_t number = ++last_;
  Waiting& waiting = waiting_[number];
  waiting.again = std::move(again);
  waiting.timer = timers_->RunAfter(most, [this, number] {
    control_loop.AssertOnLoop();
    const auto expired = waiting_.extract(number);
    expired.mapped().again();
  });
}

void ReturnWaits::Wake() {
  std::map<uint64_t, Waiting> woken;
  woken.swap(waiting_);
  for (auto& [number, waiting] : woken) timers_->Remove(waiting.timer);
  for (auto& [number, waiting] : woken) waiting.again();
}

}  // namespace warpline::server
