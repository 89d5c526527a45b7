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

// Run() on one thread; the rest is thread-safe.
class InprocLoop {
 public:
  InprocLoop(int end, std::shared_ptr<InprocLink> link, std::shared_ptr<Bell> bell,
             std::shared_ptr<Bell> peer_bell, const ChannelOptions& options);

  // Returns after OnClosed().
  void Run(ChannelHandler* handler);

  void Wake() { bell_->Wake(); }
  void Close(const absl::Status& status);
  void Cancel();

 private:
  using Clock = Linger::Clock;

  bool Turn();
  bool Receive();
  bool Send();
  void TakeRequests();
  void End(const absl::Status& status);
  void Finish(const absl::Status& status);
  void Park();

  const int end_;
  const std::shared_ptr<InprocLink> link_;
  const std::shared_ptr<Bell> bell_;
  const std::shared_ptr<Bell> peer_bell_;
  const std::chrono::nanoseconds poll_;

  // Of the loop alone.
  ChannelHandler* handler_ = nullptr;
  Inbox inbox_;
  bool flushing_ = false;  // End(OK) once the handler has nothing more.
  bool sent_end_ = false;
  bool peer_ended_ = false;
  std::optional<absl::Status> finished_;
  Linger linger_;

  CloseRequests requests_;
};

}  // namespace warpline::inproc_internal

#endif  // WARPLINE_TRANSPORT_INPROC_INPROC_LOOP_H_
