#include "server/gpu_server/continuity/paging.h"

#include <memory>
#include <utility>

#include "common/steady_time.h"

namespace warpline::server {

void Paging::Out(absl::Duration deadline, Done done) {
  if (state_ == State::kAway) return done(absl::OkStatus());
  if (state_ == State::kComing) {
    // It goes once it is there. After an error this object may be gone.
    return In(deadline, [this, deadline, done = std::move(done)](const absl::Status& came) {
      control_loop.AssertOnLoop();
      came.ok() ? Out(deadline, done) : done(came);
    });
  }
  if (state_ != State::kHere) {
    return done(absl::FailedPreconditionError("its memory is on its way already"));
  }
  state_ = State::kResting;
  wanted_ = false;
  left_ = std::move(done);
  parts_.rest->Begin(
      Rest::Reason::kPaging, deadline,
      [this](const absl::Status& status) {
        control_loop.AssertOnLoop();
        if (status.ok()) return Leave();
        state_ = State::kHere;
        std::exchange(left_, nullptr)(status);
      },
      [this] {
        control_loop.AssertOnLoop();
        OnWanted();
      });
}

void Paging::Leave() {
  state_ = State::kLeaving;
  Watch(/*waited=*/false);
  parts_.page_out([this, round = round_](const absl::Status& status) {
    control_loop.AssertOnLoop();
    if (round != round_) return;
    StopWatching();
    const Done left = std::exchange(left_, nullptr);
    if (status.ok()) {
      state_ = State::kAway;
      left(status);
      if (round != round_) return;
      if (wanted_ || parts_.has_requests()) return Come();
      return parts_.on_away();
    }
    if (absl::IsInternal(status)) {
      parts_.on_broken(std::string(status.message()));
      return left(status);
    }
    // The memory of the first devices may be away.
    if (parts_.is_away()) {
      came_.push_back([left, status](const absl::Status&) { left(status); });
      return Come();
    }
    state_ = State::kHere;
    parts_.rest->Release();
    left(status);
  });
}

void Paging::In(absl::Duration deadline, Done done) {
  if (state_ == State::kHere) return done(absl::OkStatus());
  // Called once: when the memory is there, or at the deadline, which may outlive this object.
  struct Answer {
    Done done;
    Timers::Token deadline = 0;
  };
  const auto answer = std::make_shared<Answer>();
  answer->done = std::move(done);
  Timers* const timers = parts_.timers;
  answer->deadline = timers->RunAfter(deadline, [answer] {
    std::exchange(answer->done, nullptr)(
        absl::DeadlineExceededError("the device has too little room for it yet; it comes back as "
                                    "soon as there is enough"));
  });
  came_.push_back([timers, answer](const absl::Status& status) {
    control_loop.AssertOnLoop();
    if (!answer->done) return;
    timers->Remove(answer->deadline);
    std::exchange(answer->done, nullptr)(status);
  });
  OnWanted();
}

void Paging::OnWanted() {
  wanted_ = true;
  if (state_ == State::kAway) Come();
}

void Paging::Come() {
  state_ = State::kComing;
  parts_.await_room([this, round = round_] {
    control_loop.AssertOnLoop();
    if (round != round_) return;
    coming_since_ = SteadyNow();
    Watch(/*waited=*/false);
    parts_.page_in([this, round](const absl::Status& status) {
      control_loop.AssertOnLoop();
      if (round == round_) OnCame(status);
    });
  });
}

void Paging::OnCame(const absl::Status& status) {
  StopWatching();
  if (absl::IsInternal(status)) return parts_.on_broken(std::string(status.message()));
  // The room was taken by another, or was not there.
  if (!status.ok()) return Come();
  parts_.on_came(SteadyNow() - coming_since_);
  state_ = State::kHere;
  parts_.rest->Release();
  for (const Done& done : std::exchange(came_, {})) done(absl::OkStatus());
}

void Paging::Watch(bool waited) {
  watch_ = parts_.timers->RunAfter(parts_.worker_timeout, [this, waited] {
    control_loop.AssertOnLoop();
    watch_ = 0;
    const bool waits = parts_.waits_for_worker();
    if (waits && waited) {
      return parts_.on_broken(state_ == State::kLeaving
                                  ? "it does not unmap its memory, which is to be moved"
                                  : "it does not map its memory again, which was moved");
    }
    Watch(waits);
  });
}

void Paging::StopWatching() { parts_.timers->Remove(std::exchange(watch_, 0)); }

void Paging::Forget(const absl::Status& status) {
  ++round_;
  if (state_ == State::kComing) parts_.stop_waiting();
  state_ = State::kHere;
  StopWatching();
  parts_.rest->Forget(Rest::Reason::kPaging);
  const Done left = std::exchange(left_, nullptr);
  if (left) left(status);
  for (const Done& done : std::exchange(came_, {})) done(status);
}

}  // namespace warpline::server
