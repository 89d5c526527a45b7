// The connection that a session has at the moment, and how it gets another.
//
// When the connection is lost, or another one is wanted, a thread of its own, the redialer, opens a
// new channel and has the session resumed on it. What belongs to the loop belongs to the redialer
// while there is no channel.
#ifndef WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CONNECTION_H_
#define WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client_stub/session/connection/channel_slot.h"
#include "client_stub/session/connection/dialer.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"
#include "transport/channel.h"

namespace warpline::stub {

// How a session stands to its connection.
enum class ConnectionState {
  kOpening,
  kUp,
  kMoving,    // The connection is ended for another.
  kDown,      // There is none.
  kResuming,  // There is one; the server's answer is awaited.
  kOver,
};

// Ends its channel and its thread when it is destroyed, and calls nobody afterwards.
class Connection {
 public:
  // All are borrowed. `slot` gets the channels, whose frames `handler` handles; `log` is one with
  // the kinds of session_log.h. `gave_up` is called by the redialer, when there is no loop, once a
  // lost connection could not be replaced.
  Connection(ChannelSlot* slot, ChannelHandler* handler, LogBudget* log,
             std::function<void(const absl::Status&)> gave_up);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Connects for the first time. Called once, before anything else. When the connection is lost
  // later on, the redialer tries for as long as `resume` to replace it.
  absl::Status Connect(const DialTarget& target, const Dialer& dialer, absl::Duration deadline,
                       absl::Duration resume);
  // Goes on over another connection. Does nothing for a session that cannot be resumed.
  void MoveTo(const DialTarget& target);

  // ---- The loop's.

  // The server has welcomed the session; whether it can be resumed.
  void SetUp(bool resumable);
  // Whether kResumed has to come before anything else is sent or taken.
  bool awaits_resumed() const { return resumed_awaited_; }
  // True once for each new connection: the next frame is kResume, with this number.
  bool TakeResumeDue(uint64_t* attempt);
  // kResumed has come.
  void SetResumed();
  // Whether the connection is, or was, given up for another.
  bool moving() const { return moving_; }
  // The channel has ended. True when the session, unless it is lost (`sound`), goes on over another
  // connection; otherwise SetClosed() follows.
  bool OnClosed(const absl::Status& status, bool sound);
  // Whoever waits for the end goes on.
  void SetClosed();

  // ---- Closing, in this order. `end` is when to give up.

  void BeginClosing() { closing_.store(true); }
  bool closing() const { return closing_.load(); }
  // Waits until flushed() is true and the connection is up, and returns whether there is somebody
  // to say good-bye to. Looks again after each NoteFlushed(). A session that was not `sound` has
  // nothing left to say and does not wait.
  bool AwaitFlushed(absl::Time end, bool sound, const std::function<bool()>& flushed);
  void NoteFlushed();
  void AwaitClosed(absl::Time end);

 private:
  bool MayResume(const absl::Status& status, bool sound) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartRedialer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunRedialer();
  void Redial();
  absl::Status TryResume(const DialTarget& target, absl::Time deadline);
  absl::Status Dial(const DialTarget& target, absl::Duration deadline);
  // Ends the channel; afterwards no loop runs.
  void DropChannel();
  void GiveUp(const absl::Status& status);

  ChannelSlot* const slot_;
  ChannelHandler* const handler_;
  LogBudget* const log_;
  const std::function<void(const absl::Status&)> gave_up_;
  std::atomic<bool> closing_{false};

  Dialer dialer_;                      // Constant once Connect() has begun.
  absl::Duration resume_for_;          // Likewise.
  std::vector<DialTarget> endpoints_;  // The redialer's; the session's own is the last.
  uint64_t attempt_ = 0;               // The redialer's.
  bool moving_ = false;                // The redialer's: the connection is given up for another.
  bool resume_due_ = false;            // The loop's: kResume is the next frame.
  bool resumed_awaited_ = false;       // The loop's.

  Mutex mu_;
  CondVar changed_;
  ConnectionState state_ ABSL_GUARDED_BY(mu_) = ConnectionState::kOpening;
  bool resumable_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status down_status_ ABSL_GUARDED_BY(mu_);  // Why there is no connection.
  std::optional<DialTarget> move_to_ ABSL_GUARDED_BY(mu_);
  bool goodbye_ ABSL_GUARDED_BY(mu_) = false;   // Nothing is left to come back for.
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;  // The redialer ends.

  // Borrowed by the slot; empty until the dialer returned it.
  std::unique_ptr<Channel> channel_;
  std::thread redialer_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CONNECTION_H_
