// What the decoder hands to a lane's thread, and how that thread sleeps while there is nothing.
#ifndef WARPLINE_SERVER_WORKER_LANES_LANE_INBOX_H_
#define WARPLINE_SERVER_WORKER_LANES_LANE_INBOX_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "server/worker/lanes/event.h"
#include "server/worker/lanes/task.h"

namespace warpline::worker {

// An application's wait for a record.
struct EventWait {
  uint64_t seq = 0;  // The round trip to answer.
  std::shared_ptr<EventRecord> record;
};

class LaneInbox {
 public:
  // The decoder's. Append() takes effect at Flush().
  void Append(Task task) { outbox_.push_back(std::move(task)); }
  void Flush();

  // Any thread's. False, and nothing is added, once the inbox is closed.
  bool AddEventWait(EventWait wait);
  // Has the lane look at its tasks again.
  void Nudge();
  // The lane's thread is to end.
  void Stop();

  // The lane's thread's. Appends what has come; false when nothing has.
  bool Take(std::deque<Task>* ready, std::vector<EventWait>* waits);
  bool stopped();
  // Sleeps until something comes, or at most for `nap`. Returns at once if something has come.
  void Sleep(absl::Duration nap);
  // No more waits are added. Returns those that were not taken.
  std::vector<EventWait> Close();

  // Drops everything. Once the thread has ended, on the decoder's thread or with the decoder gone.
  void Clear();

 private:
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::vector<Task> outbox_;  // The decoder's.

  Mutex mu_;
  CondVar wake_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mu_);
  std::vector<EventWait> waits_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool asleep_ ABSL_GUARDED_BY(mu_) = false;
  // Written under `mu_`; lets the thread look without it.
  std::atomic<bool> has_news_{false};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_LANE_INBOX_H_
