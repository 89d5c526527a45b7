// Where a session's two threads meet: the channel's loop, which moves frames, and the control loop,
// which starts the worker, keeps the books and ends the session.
#ifndef WARPLINE_SERVER_SESSION_PORT_H_
#define WARPLINE_SERVER_SESSION_PORT_H_

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "server/counters.h"
#include "server/worker_rings.h"
#include "transport/channel.h"

namespace warpline {

// Thread-safe. Outlives the channel, which is why it is shared.
class SessionPort {
 public:
  // --- For the channel's side. `channel` is borrowed until Detach().
  void Attach(Channel* channel);
  void Detach();
  // Moves out the next frame that was pushed.
  bool Pop(Frame* frame);
  // The session's last frame, to be sent once the worker's last replies are read: see Fault().
  bool HasLast() const { return has_last_.load(std::memory_order_acquire); }
  bool PopLast(Frame* frame);
  // Commands and requests for memory are of no use any more.
  bool faulted() const { return has_fault_.load(std::memory_order_acquire); }
  // The fault was not the last frame.
  bool StaysOpen() const { return stays_open_.load(std::memory_order_acquire); }
  // How many frames wait to be sent.
  size_t Backlog();
  // Null until Open(). Used by the channel's loop alone; valid as long as the port.
  WorkerRings* rings() const { return open_rings_.load(std::memory_order_acquire); }

  // --- For the control side.
  // Lets commands through to the worker.
  void Open(std::shared_ptr<WorkerRings> rings);
  // Queues a frame for the client.
  void Push(Frame frame);
  // Queues the fault: it is sent when the ring has nothing more. If it is the `last` frame, the
  // channel closes after it. The first call counts.
  void Fault(Frame frame, bool last);
  // As Push(), for what may follow a fault.
  void PushAfterFault(Frame frame);
  // Ends the stream at once, as Channel::Close().
  void Close(const absl::Status& status);
  // Makes the channel look again.
  void Wake();

  TrafficCounters& traffic() { return traffic_; }

 private:
  std::atomic<WorkerRings*> open_rings_{nullptr};
  // Tell the channel's loop, which asks all the time, that there is something under the lock.
  std::atomic<bool> has_frames_{false};
  std::atomic<bool> has_last_{false};
  std::atomic<bool> has_fault_{false};
  std::atomic<bool> stays_open_{false};
  TrafficCounters traffic_;

  // Taken before the channel's own locks.
  Mutex mu_;
  Channel* channel_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::deque<Frame> frames_ ABSL_GUARDED_BY(mu_);
  std::optional<Frame> last_ ABSL_GUARDED_BY(mu_);
  bool faulted_ ABSL_GUARDED_BY(mu_) = false;
  // Shared with the doorbell's watch on the rings, which ends after the session does.
  std::shared_ptr<WorkerRings> rings_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_SESSION_PORT_H_
