// One end of an in-process channel: its loop and its bell. Private to transport/inproc.
#ifndef WARPLINE_TRANSPORT_INPROC_INPROC_LOOP_H_
#define WARPLINE_TRANSPORT_INPROC_INPROC_LOOP_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/inproc/inproc_link.h"
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
  using Clock = std::chrono::steady_clock;

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
  Frame received_;
  bool held_ = false;
  bool receiving_ = true;  // Else what still arrives is dropped.
  bool flushing_ = false;  // End(OK) once the handler has nothing more.
  bool sent_end_ = false;
  bool peer_ended_ = false;
  std::optional<absl::Status> finished_;
  Clock::time_point linger_until_ = Clock::time_point::max();

  std::atomic<bool> has_request_{false};
  Mutex mu_;
  std::optional<absl::Status> close_request_ ABSL_GUARDED_BY(mu_);
  bool cancel_request_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace warpline::inproc_internal

#endif  // WARPLINE_TRANSPORT_INPROC_INPROC_LOOP_H_
