#include "server/relay/relay.h"

#include <thread>
#include <utility>

#include "transport/loop_thread.h"

namespace warpline::relay {
namespace {

// What may wait in each direction.
constexpr size_t kMostFrames = 256;
constexpr size_t kMostBytes = 4u << 20;

}  // namespace

Relay::Side::Side(std::unique_ptr<LinkEnd> link) : loop_(std::move(link), ChannelOptions()) {}

bool Relay::Side::Push(Frame* frame) {
  {
    MutexLock lock(&mu_);
    if (frames_.size() >= kMostFrames || bytes_ >= kMostBytes) {
      refused_ = true;
      return false;
    }
    bytes_ += frame->payload.size();
    frames_.push_back(std::move(*frame));
    has_frames_.store(true, std::memory_order_release);
  }
  loop_.Wake();
  return true;
}

bool Relay::Side::NextFrame(Frame* frame) {
  if (!has_frames_.load(std::memory_order_acquire)) return false;
  bool refused;
  std::optional<absl::Status> end;
  {
    MutexLock lock(&mu_);
    *frame = std::move(frames_.front());
    frames_.pop_front();
    bytes_ -= frame->payload.size();
    if (frames_.empty()) {
      has_frames_.store(false, std::memory_order_release);
      end = end_;
    }
    refused = std::exchange(refused_, false);
  }
  if (refused) other_->loop_.Wake();
  // After this frame.
  if (end.has_value()) loop_.Close(*end);
  return true;
}

Accept Relay::Side::OnFrame(Frame* frame) {
  return other_->Push(frame) ? Accept::kTaken : Accept::kLater;
}

void Relay::Side::End(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    end_ = status;
    if (!frames_.empty()) return;
  }
  loop_.Close(status);
}

void Relay::Side::OnClosed(const absl::Status& status) { other_->End(status); }

Relay::Relay(std::unique_ptr<LinkEnd> one, std::unique_ptr<LinkEnd> other)
    : one_(std::move(one)), other_(std::move(other)) {
  one_.Join(&other_);
  other_.Join(&one_);
}

void Relay::Run() {
  std::thread thread = StartLoopThread("wl-relay", [this] {
    const LoopScope scope(&channel_loop);
    other_.Run();
  });
  {
    const LoopScope scope(&channel_loop);
    one_.Run();
  }
  thread.join();
}

}  // namespace warpline::relay
