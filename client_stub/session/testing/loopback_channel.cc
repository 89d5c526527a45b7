#include "client_stub/session/testing/loopback_channel.h"

#include <chrono>
#include <utility>

#include "client_stub/session/waits/one_shot.h"
#include "transport/channel_loop.h"
#include "transport/loop_thread.h"

namespace warpline::stub {

LoopbackChannel::LoopbackChannel(ChannelHandler* client, Server server)
    : client_(client), server_(std::move(server)) {
  thread_ = StartLoopThread("loopback", [this] {
    const LoopScope scope(&channel_loop);
    Run();
  });
}

LoopbackChannel::~LoopbackChannel() {
  Close(absl::CancelledError("destroyed"));
  thread_.join();
}

void LoopbackChannel::Wake() {
  if (!park_.Signal()) return;
  MutexLock lock(&mu_);
  bell_ = true;
  changed_.NotifyAll();
}

void LoopbackChannel::Close(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    if (!closed_by_client_.has_value()) closed_by_client_ = status;
    pending_.fetch_add(1);
  }
  Wake();
}

void LoopbackChannel::ToClient(Frame frame) {
  {
    MutexLock lock(&mu_);
    to_client_.push_back(std::move(frame));
    pending_.fetch_add(1);
  }
  Wake();
}

void LoopbackChannel::ServerClose(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    if (!closed_by_server_.has_value()) closed_by_server_ = status;
    pending_.fetch_add(1);
  }
  Wake();
}

// Returns false when there was nothing to do.
bool LoopbackChannel::Turn() {
  Frame frame;
  if (client_->NextFrame(&frame)) {
    server_(this, std::move(frame));
    return true;
  }
  if (pending_.load() == 0) return false;
  {
    MutexLock lock(&mu_);
    if (to_client_.empty()) return false;
    frame = std::move(to_client_.front());
    to_client_.pop_front();
    pending_.fetch_sub(1);
  }
  client_->OnFrame(&frame);
  return true;
}

void LoopbackChannel::Run() {
  std::optional<absl::Status> end;
  while (!end.has_value()) {
    const bool active = SpinUntil(std::chrono::microseconds(100), [this] {
      channel_loop.AssertOnLoop();
      return Turn();
    });
    if (active) continue;
    park_.Announce();
    const bool found = Turn();
    {
      MutexLock lock(&mu_);
      if (!found && to_client_.empty()) {
        end = closed_by_server_.has_value() ? closed_by_server_ : closed_by_client_;
      }
      if (!found && !end.has_value() && to_client_.empty()) {
        while (!bell_) changed_.Wait(&mu_);
      }
    }
    if (park_.Retract()) {
      MutexLock lock(&mu_);
      while (!bell_) changed_.Wait(&mu_);
      bell_ = false;
    }
  }
  park_.Retire();
  client_->OnClosed(*end);
}

}  // namespace warpline::stub
