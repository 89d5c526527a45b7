#include "server/gpu_server/session/connection/first_frame_guard.h"

#include <utility>

namespace warpline::server {

std::shared_ptr<FirstFrameGuard> FirstFrameGuard::Start(EventLoop* loop, absl::Duration patience) {
  std::shared_ptr<FirstFrameGuard> guard(new FirstFrameGuard(loop));
  loop->Post([guard, patience] {
    control_loop.AssertOnLoop();
    guard->SetTimer(patience);
  });
  return guard;
}

void FirstFrameGuard::SetTimer(absl::Duration patience) {
  timer_ = loop_->RunAfter(patience, [self = shared_from_this()] { self->Expire(); });
}

void FirstFrameGuard::Watch(Channel* channel) {
  MutexLock lock(&mu_);
  channel_ = channel;
}

void FirstFrameGuard::Release() {
  {
    MutexLock lock(&mu_);
    channel_ = nullptr;
    if (std::exchange(released_, true)) return;
  }
  // After SetTimer(), which was posted first.
  loop_->Post([self = shared_from_this()] {
    control_loop.AssertOnLoop();
    self->loop_->Remove(std::exchange(self->timer_, 0));
  });
}

void FirstFrameGuard::Expire() {
  MutexLock lock(&mu_);
  if (channel_ != nullptr) channel_->Close(absl::DeadlineExceededError("no Hello came"));
}

}  // namespace warpline::server
