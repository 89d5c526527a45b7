#include "server/gpu_server/session/connection/session_port.h"

#include <utility>

namespace warpline::server {

bool SessionPort::Attach(Channel* channel) {
  MutexLock lock(&mu_);
  if (shut_) return false;
  channel_ = channel;
  holder_.store(channel, std::memory_order_release);
  return true;
}

SessionPort::Follows SessionPort::Follow(Channel* channel, uint64_t attempt) {
  MutexLock lock(&mu_);
  if (shut_ || attempt <= last_attempt_) return Follows::kRefused;
  if (away_) return Follows::kAway;
  last_attempt_ = attempt;
  if (channel_ == nullptr) {
    channel_ = channel;
    holder_.store(channel, std::memory_order_release);
    return Follows::kNothing;
  }
  const absl::Status superseded = absl::AbortedError("the session goes on on another connection");
  channel_->Close(superseded);
  if (follower_ != nullptr) follower_->Close(superseded);
  follower_ = channel;
  return Follows::kAnother;
}

void SessionPort::Detach(const Channel* channel) {
  MutexLock lock(&mu_);
  if (follower_ == channel) follower_ = nullptr;
  if (channel_ != channel) return;
  channel_ = follower_;
  follower_ = nullptr;
  holder_.store(channel_, std::memory_order_release);
  if (channel_ != nullptr) channel_->Wake();
}

bool SessionPort::attached() {
  MutexLock lock(&mu_);
  return channel_ != nullptr || follower_ != nullptr;
}

std::string SessionPort::transport() {
  MutexLock lock(&mu_);
  return channel_ == nullptr ? "" : channel_->transport();
}

void SessionPort::Shut() {
  MutexLock lock(&mu_);
  shut_ = true;
  // One that came while the session was being given up: nobody else would end it.
  const absl::Status over = absl::PermissionDeniedError("the session cannot be resumed");
  if (channel_ != nullptr) channel_->Close(over);
  if (follower_ != nullptr) follower_->Close(over);
}

bool SessionPort::Pop(Frame* frame) {
  if (!has_frames_.load(std::memory_order_acquire)) return false;
  MutexLock lock(&mu_);
  if (frames_.empty()) return false;
  *frame = std::move(frames_.front());
  frames_.pop_front();
  has_frames_.store(!frames_.empty(), std::memory_order_release);
  return true;
}

size_t SessionPort::Backlog() {
  MutexLock lock(&mu_);
  return frames_.size();
}

bool SessionPort::PopLast(Frame* frame) {
  if (!has_last_.load(std::memory_order_acquire)) return false;
  MutexLock lock(&mu_);
  if (!last_.has_value()) return false;
  *frame = std::move(*last_);
  last_.reset();
  has_last_.store(false, std::memory_order_release);
  return true;
}

void SessionPort::Open(std::shared_ptr<WorkerRings> rings,
                       std::unique_ptr<const CommandWindow> window) {
  MutexLock lock(&mu_);
  window_ = std::move(window);
  rings_ = std::move(rings);
  open_rings_.store(rings_.get(), std::memory_order_release);
  if (channel_ != nullptr) channel_->Wake();
}

void SessionPort::Push(Frame frame) {
  MutexLock lock(&mu_);
  if (shut_ || faulted_) return;
  frames_.push_back(std::move(frame));
  has_frames_.store(true, std::memory_order_release);
  if (channel_ != nullptr) channel_->Wake();
}

void SessionPort::PushAfterFault(Frame frame) {
  MutexLock lock(&mu_);
  if (shut_) return;
  frames_.push_back(std::move(frame));
  has_frames_.store(true, std::memory_order_release);
  if (channel_ != nullptr) channel_->Wake();
}

void SessionPort::Fault(Frame frame, bool last) {
  MutexLock lock(&mu_);
  if (faulted_) return;
  faulted_ = true;
  stays_open_.store(!last, std::memory_order_release);
  has_fault_.store(true, std::memory_order_release);
  last_ = std::move(frame);
  has_last_.store(true, std::memory_order_release);
  if (channel_ != nullptr) channel_->Wake();
}

void SessionPort::Close(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (channel_ != nullptr) channel_->Close(status);
  if (follower_ != nullptr) follower_->Close(status);
}

void SessionPort::HandOver(const absl::Status& status) {
  MutexLock lock(&mu_);
  away_ = true;
  if (channel_ != nullptr) channel_->Close(status);
  if (follower_ != nullptr) follower_->Close(status);
}

void SessionPort::TakeBack() {
  MutexLock lock(&mu_);
  away_ = false;
}

void SessionPort::AskAboutWaiting() {
  asked_about_waiting_.store(true, std::memory_order_release);
  Wake();
}

void SessionPort::Wake() {
  MutexLock lock(&mu_);
  if (channel_ != nullptr) channel_->Wake();
}

}  // namespace warpline::server
