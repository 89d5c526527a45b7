// The loop of a channel over a link: polls, parks, passes frames on, and ends the stream in order.
#ifndef WARPLINE_TRANSPORT_LINK_LOOP_H_
#define WARPLINE_TRANSPORT_LINK_LOOP_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/close_requests.h"
#include "transport/inbox.h"
#include "transport/linger.h"
#include "transport/link_end.h"

namespace warpline {

// Thread-safe, except for Run().
class LinkLoop {
 public:
  LinkLoop(std::unique_ptr<LinkEnd> link, const ChannelOptions& options);

  // Returns after OnClosed().
  void Run(ChannelHandler* handler) RUNS_ON(channel_loop);

  void Wake() { link_->Ring(); }
  // As Channel::Drive().
  void Drive(absl::FunctionRef<bool()> done, absl::Duration limit);
  // As Channel::Close().
  void Close(const absl::Status& status);
  // Ends at once, without a word to the other end.
  void Cancel();

 private:
  using Clock = Linger::Clock;

  // The loop's work is done in turns, by the thread of Run() and by those that Drive(), one at a
  // time: whoever has the turn. A loop is never without somebody who looks: who drives wakes a
  // thread of Run() that sleeps when it leaves.
  bool TryTakeTurn() { return !turn_taken_.exchange(true, std::memory_order_acquire); }
  void TakeTurn();
  void LeaveTurn() { turn_taken_.store(false, std::memory_order_release); }

  // Returns whether anything happened. The caller has the turn. Unless it is to send now, what
  // comes soon after a frame waits a little.
  bool Turn(bool send_now) RUNS_ON(channel_loop);
  // How long what comes after a frame waits.
  std::chrono::nanoseconds Gather() const RUNS_ON(channel_loop);
  bool Receive() RUNS_ON(channel_loop);
  bool Send() RUNS_ON(channel_loop);
  void TakeRequests() RUNS_ON(channel_loop);
  void End(const absl::Status& status) RUNS_ON(channel_loop);
  void Finish(const absl::Status& status) RUNS_ON(channel_loop);
  // Gives the turn up while it sleeps.
  void Park() RUNS_ON(channel_loop);

  const std::unique_ptr<LinkEnd> link_;
  const std::chrono::nanoseconds poll_;
  const std::chrono::nanoseconds gather_;

  ChannelHandler* handler_ ABSL_GUARDED_BY(channel_loop) = nullptr;
  Inbox inbox_ ABSL_GUARDED_BY(channel_loop);
  // End(OK) once the handler has nothing more.
  bool flushing_ ABSL_GUARDED_BY(channel_loop) = false;
  bool sent_end_ ABSL_GUARDED_BY(channel_loop) = false;
  bool peer_ended_ ABSL_GUARDED_BY(channel_loop) = false;
  std::optional<absl::Status> finished_ ABSL_GUARDED_BY(channel_loop);
  Linger linger_ ABSL_GUARDED_BY(channel_loop);
  Clock::time_point next_send_ ABSL_GUARDED_BY(channel_loop);
  // Others want the processors, as far as the loop's own thread knows.
  bool wanted_ ABSL_GUARDED_BY(channel_loop) = false;

  alignas(64) std::atomic<bool> turn_taken_{false};
  std::atomic<bool> parked_{false};
  alignas(64) std::atomic<int> drivers_{0};

  CloseRequests requests_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_LINK_LOOP_H_
