// Where the thread that receives the server's messages leaves what is to be done for one session.
//
//   auto desk = SessionDesk::WithThread();
//   if (!desk.ok()) return desk.status();
//   (*desk)->Do([](ProcessSession* session) { ... });      // Opens the session, say.
//   (*desk)->DoLast([](ProcessSession* session) { ... });  // Ends it.
//
// In a process of one session it is done at once, on the calling thread. On a device that others
// share it is done on a thread of the session's own, in order, since what one session asks of the
// device may wait for work of the others.
#ifndef WARPLINE_SERVER_WORKER_HOST_SESSION_DESK_H_
#define WARPLINE_SERVER_WORKER_HOST_SESSION_DESK_H_

#include <atomic>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "server/worker/host/process_session.h"

namespace warpline::worker {

// Shared by its owner, its thread and whoever watches it. Do() and DoLast() belong to the thread
// that receives messages, WithRing() is for any thread, and the rest is for tasks. The server
// bounds what waits here: it has one question of each kind about a session under way.
class SessionDesk : public std::enable_shared_from_this<SessionDesk> {
 public:
  // Gets the session that the desk is for, which tasks alone touch.
  using Task = absl::AnyInvocable<void(ProcessSession*)>;

  static std::shared_ptr<SessionDesk> OfCaller();
  // RESOURCE_EXHAUSTED without a thread.
  static absl::StatusOr<std::shared_ptr<SessionDesk>> WithThread();

  // Has `task` done, after all that was left before.
  void Do(Task task);
  // The same, and nothing afterwards. With a thread, what has not begun is dropped, what has begun
  // is told (ending()), and the thread ends. REQUIRES: with a thread.
  void DoLast(Task task);
  // Calls `call` now, whatever is being done, if there is a ring session already. It must not wait.
  // Any thread may call it.
  void WithRing(absl::FunctionRef<void(RingSession*)> call);

  // --- For tasks.
  // The session has a ring session, which others may be told of from now on. It lives until a task
  // of DoLast() has hidden it (null), or as long as the process.
  void Show(RingSession* ring);
  // The session is to end, so that nothing new is worth beginning.
  bool ending() const { return ending_.load(std::memory_order_acquire); }

 private:
  SessionDesk() = default;
  void Serve();
  // Returns false for the last one, when it has been done.
  bool DoNext();

  bool has_thread_ = false;  // Constant once it is made.
  std::atomic<bool> ending_{false};
  ProcessSession session_;  // Of whoever does tasks.
  Mutex mu_;
  CondVar left_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mu_);
  bool last_ ABSL_GUARDED_BY(mu_) = false;  // The last task has been left.
  // Held during calls of WithRing(); no other lock is held when it is taken.
  Mutex ring_mu_;
  RingSession* ring_ ABSL_GUARDED_BY(ring_mu_) = nullptr;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_SESSION_DESK_H_
