// Answers programs that dial the scheduler as if it were a server: gives each a lease of its own,
// and the address and token with which to open its session. Where another scheduler leads it gives
// the address of that one, without a token.
#ifndef WARPLINE_SCHEDULER_REDIRECTOR_H_
#define WARPLINE_SCHEDULER_REDIRECTOR_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "scheduler/role.h"
#include "transport/channel.h"

namespace warpline::scheduler {

// Thread-safe. Must outlive its channels.
class Redirector : public Acceptor {
 public:
  // `role` is borrowed.
  explicit Redirector(Role* role) : role_(role) {}

  std::unique_ptr<SessionHandler> Accept(const std::string& peer, absl::Status* refusal) override;

  // Refuses programs from now on.
  void StartDrain() { draining_.store(true); }

  // Ends the channels that have not said hello within `patience`. Call it every second or so.
  void EndSilent(absl::Duration patience);

 private:
  friend class Conversation;

  Role* const role_;
  std::atomic<bool> draining_{false};

  Mutex mu_;
  // The open channels, and when each was opened.
  std::map<Channel*, absl::Time> channels_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_REDIRECTOR_H_
