// One end of an in-process channel: its loop and its bell. Private to transport/inproc.
#ifndef WARPLINE_TRANSPORT_INPROC_INPROC_LOOP_H_
#define WARPLINE_TRANSPORT_INPROC_INPROC_LOOP_H_

#include <chrono>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/close_requests.h"
#include "transport/inbox.h"
#include "transport/inproc/inproc_link.h"
#include "transport/linger.h"
#include "transport/park_state.h"

namespace warpline::inproc_internal {

// The part of an end that its peer may still ring when the end itself is gone.
class Bell {
 public:
  void Wake() {
    if (!park_.Signal()) return;
    MutexLock lock(&mu_);
    rung_ = true;
    rung_changed_.NotifyOne();
  }

 private:
  friend class InprocLoop;
  ParkState park_;
  Mutex mu_;
  CondVar rung_changed_;
  bool rung_ ABSL_GUARDED_BY(mu_) = false;
};

// Thread-safe, except for Run().
class InprocLoop {
 public:
  InprocLoop(int end, std::shared_ptr<InprocLink> link, std::shared_ptr<Bell> bell,
             std::shared_ptr<Bell> peer_bell, const ChannelOptions& options);

  // Returns after OnClosed().
  void Run(ChannelHandler* handler) RUNS_ON(channel_loop);

  void Wake() { bell_->Wake(); }
  void Close(const absl::Status& status);
  void Cancel();

 private:
  using Clock = Linger::Clock;

  bool Turn() RUNS_ON(channel_loop);
  bool Receive() RUNS_ON(channel_loop);
  bool Send() RUNS_ON(channel_loop);
  void TakeRequests() RUNS_ON(channel_loop);
  void End(const absl::Status& status) RUNS_ON(channel_loop);
  void Finish(const absl::Status& status) RUNS_ON(channel_loop);
  void Park() RUNS_ON(channel_loop);

  const int end_;
  const std::shared_ptr<InprocLink> link_;
  const std::shared_ptr<Bell> bell_;
  const std::shared_ptr<Bell> peer_bell_;
  const std::chrono::nanoseconds poll_;

  ChannelHandler* handler_ ABSL_GUARDED_BY(channel_loop) = nullptr;
  Inbox inbox_ ABSL_GUARDED_BY(channel_loop);
  // End(OK) once the handler has nothing more.
  bool flushing_ ABSL_GUARDED_BY(channel_loop) = false;
  bool sent_end_ ABSL_GUARDED_BY(channel_loop) = false;
  bool peer_ended_ ABSL_GUARDED_BY(channel_loop) = false;
  std::optional<absl::Status> finished_ ABSL_GUARDED_BY(channel_loop);
  Linger linger_ ABSL_GUARDED_BY(channel_loop);

  CloseRequests requests_;
};

}  // namespace warpline::inproc_internal

#endif  // WARPLINE_TRANSPORT_INPROC_INPROC_LOOP_H_
