#include "client_stub/session/connection/control_queue.h"

#include <utility>

#include "proto/frames.h"

namespace warpline::stub {

void ControlQueue::Push(Frame frame) {
  {
    MutexLock lock(&mu_);
    frames_.push_back(std::move(frame));
    has_frames_.store(true, std::memory_order_release);
  }
  channel_->Wake();
}

bool ControlQueue::Take(Frame* frame) {
  if (!has_frames_.load(std::memory_order_acquire)) return false;
  MutexLock lock(&mu_);
  *frame = std::move(frames_.front());
  frames_.pop_front();
  has_frames_.store(!frames_.empty(), std::memory_order_release);
  if (IsCountedControl(frame->kind)) kept_.push_back(*frame);
  return true;
}

bool ControlQueue::OnReceived(uint64_t count) {
  if (count > received_ + kept_.size()) return false;
  for (; received_ < count; ++received_) kept_.pop_front();
  return true;
}

bool ControlQueue::Rewind(uint64_t count, size_t* again) {
  if (count < received_ || !OnReceived(count)) return false;
  *again = kept_.size();
  MutexLock lock(&mu_);
  for (; !kept_.empty(); kept_.pop_back()) frames_.push_front(std::move(kept_.back()));
  has_frames_.store(!frames_.empty(), std::memory_order_release);
  return true;
}

}  // namespace warpline::stub
