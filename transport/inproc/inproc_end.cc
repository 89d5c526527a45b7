#include "transport/inproc/inproc_end.h"

#include <utility>

#include "absl/time/clock.h"

namespace warpline::inproc_internal {

void Bell::Wake() {
  if (!park_.Signal()) return;
  MutexLock lock(&mu_);
  rung_ = true;
  rung_changed_.NotifyOne();
}

void Bell::Announce() {
  {
    // A bell of an earlier park may have rung late.
    MutexLock lock(&mu_);
    rung_ = false;
  }
  park_.Announce();
}

void Bell::Await(std::optional<std::chrono::nanoseconds> at_most) {
  const absl::Time until =
      at_most.has_value() ? absl::Now() + absl::FromChrono(*at_most) : absl::InfiniteFuture();
  MutexLock lock(&mu_);
  while (!rung_ && absl::Now() < until) {
    if (at_most.has_value()) {
      rung_changed_.WaitWithTimeout(&mu_, until - absl::Now());
    } else {
      rung_changed_.Wait(&mu_);
    }
  }
}

InprocEnd::InprocEnd(int end, std::shared_ptr<InprocLink> link, std::shared_ptr<Bell> bell,
                     std::shared_ptr<Bell> peer_bell)
    : end_(end), link_(std::move(link)), bell_(std::move(bell)), peer_bell_(std::move(peer_bell)) {}

LinkEnd::Taken InprocEnd::Take(Frame* frame, absl::Status* why) {
  const Taken taken = link_->Take(end_, frame, why);
  if (taken == Taken::kFrame) peer_bell_->Wake();  // There is room again.
  return taken;
}

void InprocEnd::Put(Frame frame) {
  link_->Put(end_, std::move(frame));
  peer_bell_->Wake();
}

void InprocEnd::PutEnd(const absl::Status& status) {
  link_->PutEnd(end_, status);
  peer_bell_->Wake();
}

void InprocEnd::Break() {
  link_->Break();
  peer_bell_->Wake();
}

}  // namespace warpline::inproc_internal
