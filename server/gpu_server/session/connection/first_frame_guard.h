// How long a channel may be there without a first frame.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_FIRST_FRAME_GUARD_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_FIRST_FRAME_GUARD_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"
#include "transport/channel.h"

namespace warpline::server {

// Ends a channel on which no first frame came in time. Thread-safe, shared with a timer, which is
// gone as soon as the frame has come.
class FirstFrameGuard : public std::enable_shared_from_this<FirstFrameGuard> {
 public:
  // `loop` is the control loop, borrowed until the channel has ended.
  static std::shared_ptr<FirstFrameGuard> Start(EventLoop* loop, absl::Duration patience);

  // `channel` is borrowed until Release(). Called once, before it.
  void Watch(Channel* channel);
  // The first frame has come, or the channel has ended.
  void Release();

 private:
  explicit FirstFrameGuard(EventLoop* loop) : loop_(loop) {}
  void SetTimer(absl::Duration patience) RUNS_ON(control_loop);
  void Expire();

  EventLoop* const loop_;
  Mutex mu_;
  Channel* channel_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  EventLoop::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_FIRST_FRAME_GUARD_H_
