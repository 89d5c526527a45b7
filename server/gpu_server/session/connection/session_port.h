// Where a session's two threads meet: the channel's loop, which moves frames, and the control loop,
// which starts the worker, keeps the books and ends the session.
//
// A session has one channel at a time, and none while it waits for its client to come back. A
// channel on which the client resumes follows when the one before it has ended; until then it
// waits.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_SESSION_PORT_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_SESSION_PORT_H_

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "server/gpu_server/session/connection/session_link.h"
#include "server/hostlink/handover/command_window.h"
#include "server/hostlink/handover/counters.h"
#include "server/hostlink/handover/worker_rings.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::server {

// A client that has not taken so many frames is asked for nothing more, and told no more than it
// must be.
inline constexpr size_t kMaxBacklog = 64;

// Thread-safe. Outlives the channel, which is why it is shared.
class SessionPort {
 public:
  // How a channel came to the session.
  enum class Follows {
    kRefused,  // The session is over, or this attempt to resume was made before.
    kAway,     // The session is being handed over: it goes on later.
    kNothing,  // There was no channel: the client comes back.
    kAnother,  // There is one, which was told to end.
  };

  // --- For the channel's side. `channel` is borrowed until Detach().
  // The session's first channel. False when the session is over.
  bool Attach(Channel* channel) RUNS_ON(channel_loop);
  // A channel on which the client resumes. The one that the session has is closed with ABORTED, as
  // is one that waits already.
  Follows Follow(Channel* channel, uint64_t attempt) RUNS_ON(channel_loop);
  // Whether it is this channel's turn: what follows up to link() is then for its loop alone.
  bool Holds(const Channel* channel) const {
    return holder_.load(std::memory_order_acquire) == channel;
  }
  void Detach(const Channel* channel) RUNS_ON(channel_loop);
  // Moves out the next frame that was pushed.
  bool Pop(Frame* frame) RUNS_ON(channel_loop);
  // The session's last frame, to be sent once the worker's last replies are read: see Fault().
  bool HasLast() const { return has_last_.load(std::memory_order_acquire); }
  bool PopLast(Frame* frame) RUNS_ON(channel_loop);
  // Commands and requests for memory are of no use any more.
  bool faulted() const { return has_fault_.load(std::memory_order_acquire); }
  // The fault was not the last frame.
  bool StaysOpen() const { return stays_open_.load(std::memory_order_acquire); }
  // How many frames wait to be sent.
  size_t Backlog();
  // Null until Open(); valid as long as the port.
  WorkerRings* rings() const RUNS_ON(channel_loop) {
    return open_rings_.load(std::memory_order_acquire);
  }
  SessionLink& link() { return link_; }
  // Of the commands that rings() may take; null for no bound.
  const CommandWindow* window() const RUNS_ON(channel_loop) { return window_.get(); }
  // Returns true once for each AskAboutWaiting(): the control side wants to know that commands wait
  // for the worker.
  bool TakeAskedAboutWaiting() RUNS_ON(channel_loop) {
    return asked_about_waiting_.load(std::memory_order_relaxed) &&
           asked_about_waiting_.exchange(false, std::memory_order_acq_rel);
  }

  // --- For the control side.
  // Whether there is a channel, or one that waits.
  bool attached();
  // Channel::transport() of the channel that there is; empty without one.
  std::string transport();
  // No channel is taken any more, nothing is queued, and a channel that is there ends.
  void Shut();
  // Lets commands through to the worker, as many as `window` says, or any number without one.
  // Called once.
  void Open(std::shared_ptr<WorkerRings> rings, std::unique_ptr<const CommandWindow> window);
  // Queues a frame for the client.
  void Push(Frame frame);
  // Queues the fault: it is sent when the ring has nothing more. If it is the `last` frame, the
  // channel closes after it. The first call counts.
  void Fault(Frame frame, bool last);
  // As Push(), for what may follow a fault.
  void PushAfterFault(Frame frame);
  // Ends the streams at once, as Channel::Close().
  void Close(const absl::Status& status);
  // Ends the streams like Close(), and takes no channel until TakeBack().
  void HandOver(const absl::Status& status);
  void TakeBack();
  // Makes the channel look again.
  void Wake();
  // The next command that the frozen rings do not take is to be told:
  // SessionControl::OnCommandsWait().
  void AskAboutWaiting();

  TrafficCounters& traffic() { return traffic_; }

 private:
  std::atomic<WorkerRings*> open_rings_{nullptr};
  std::unique_ptr<const CommandWindow> window_;  // Constant once there are open_rings_.
  // Tell the channel's loop, which asks all the time, that there is something under the lock.
  std::atomic<bool> has_frames_{false};
  std::atomic<bool> has_last_{false};
  std::atomic<bool> has_fault_{false};
  std::atomic<bool> stays_open_{false};
  std::atomic<bool> asked_about_waiting_{false};
  TrafficCounters traffic_;
  SessionLink link_;
  std::atomic<const Channel*> holder_{nullptr};  // channel_, to be read without the lock.

  // Taken before the channel's own locks.
  Mutex mu_;
  Channel* channel_ ABSL_GUARDED_BY(mu_) = nullptr;
  Channel* follower_ ABSL_GUARDED_BY(mu_) = nullptr;
  uint64_t last_attempt_ ABSL_GUARDED_BY(mu_) = 0;
  bool shut_ ABSL_GUARDED_BY(mu_) = false;
  bool away_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Frame> frames_ ABSL_GUARDED_BY(mu_);
  std::optional<Frame> last_ ABSL_GUARDED_BY(mu_);
  bool faulted_ ABSL_GUARDED_BY(mu_) = false;
  // Shared with the doorbell's watch on the rings, which ends after the session does.
  std::shared_ptr<WorkerRings> rings_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_SESSION_PORT_H_
