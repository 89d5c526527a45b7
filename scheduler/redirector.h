// What a program gets that dials the scheduler as if it were a server: a lease of its own, and the
// address and token to open its session with.
#ifndef WARPLINE_SCHEDULER_REDIRECTOR_H_
#define WARPLINE_SCHEDULER_REDIRECTOR_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "scheduler/scheduler.h"
#include "transport/channel.h"

namespace warpline::scheduler {

// Thread-safe. Outlives its channels.
class Redirector : public Acceptor {
 public:
  // Borrowed.
  explicit Redirector(Scheduler* scheduler) : scheduler_(scheduler) {}

  std::unique_ptr<SessionHandler> Accept(const std::string& peer, absl::Status* refusal) override;

  // Refuses from now on.
  void StartDrain() { draining_.store(true); }

  // Ends the channels that have not said hello within `patience`; to be called every second or so.
  void EndSilent(absl::Duration patience);

 private:
  friend class Conversation;

  Scheduler* const scheduler_;
  std::atomic<bool> draining_{false};

  Mutex mu_;
  // Open channels and when they came.
  std::map<Channel*, absl::Time> channels_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_REDIRECTOR_H_
