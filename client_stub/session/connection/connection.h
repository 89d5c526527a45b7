// The connection that a session has at the moment, and how it gets another one.
//
// When the connection is lost, or another one is wanted, a separate thread, the redialer, opens a
// new channel and has the session resumed on it. While there is no channel it is the loop when it
// touches what belongs to the loop.
#ifndef WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CONNECTION_H_
#define WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client_stub/session/connection/channel_slot.h"
#include "client_stub/session/connection/dialer.h"
#include "common/log/log_budget.h"
#include "common/loop/loop_affinity.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// The state of a session's connection.
enum class ConnectionState {
  kOpening,
  kUp,
  kMoving,    // The connection is being ended for another.
  kDown,      // There is no connection.
  kResuming,  // There is one; the server has not answered yet.
  kOver,
};

// Its destructor ends its channel and its thread; no callback is called afterwards.
class Connection {
 public:
  // The redialer calls these. They may be null.
  struct Hooks {
    // Before each attempt to resume. An error is the attempt's.
    std::function<absl::Status()> prepare;
    // Once a lost connection could not be replaced, when there is no loop.
    std::function<void(const absl::Status&)> gave_up;
  };

  // All are borrowed. `slot` gets the channels, whose frames `handler` handles; `log` has the kinds
  // of session_log.h.
  Connection(ChannelSlot* slot, ChannelHandler* handler, LogBudget* log, Hooks hooks);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Connects for the first time, at `direct` where there is one and it can be reached, else at
  // `target`. Called once, before anything else. When the connection is lost later on, the redialer
  // tries for as long as `resume` to replace it.
  absl::Status Connect(const std::optional<DialTarget>& direct, const DialTarget& target,
                       const Dialer& dialer, absl::Duration deadline, absl::Duration resume);
  // Moves to another connection, once `after` has passed: what the session does meanwhile need not
  // wait for the move. Does nothing for a session that cannot be resumed.
  void MoveTo(const DialTarget& target, absl::Duration after = absl::ZeroDuration());

  // Notes that the server has welcomed the session, and whether it can be resumed.
  void SetUp(bool resumable) RUNS_ON(channel_loop);
  // Whether kResumed has to come before anything else is sent or taken.
  bool awaits_resumed() const RUNS_ON(channel_loop) { return resumed_awaited_; }
  // Returns true once for each new connection: the next frame is kResume, with this number.
  bool TakeResumeDue(uint64_t* attempt) RUNS_ON(channel_loop);
  // Notes that the server has named another one in place of kResumed.
  void SetRedirected() RUNS_ON(channel_loop);
  // Notes that kResumed has come.
  void SetResumed() RUNS_ON(channel_loop);
  // Whether the connection is, or was, given up for another.
  bool moving() const RUNS_ON(channel_loop) { return moving_; }
  // Called when the channel has ended. Returns true when the session goes on over another
  // connection, which it does not when nothing is left of it (not `sound`); otherwise SetClosed()
  // follows.
  bool OnClosed(const absl::Status& status, bool sound) RUNS_ON(channel_loop);
  // Wakes the threads that wait for the end.
  void SetClosed() RUNS_ON(channel_loop);

  // ---- Closing, in this order. `end` is the time to give up.

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
  // Returns true once after SetRedirected().
  bool TakeRedirected();
  // Whether there is another connection to move to, now or later.
  bool MovePending() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the redialer has another channel to get.
  bool RedialDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartRedialer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Looks for the target, and moves there if it is found and no connection was lost meanwhile.
  void CheckMove(DialTarget target, uint64_t losses) RUNS_ON(on_redialer_);
  void RunRedialer() RUNS_ON(on_redialer_);
  void Redial(bool moving) RUNS_ON(on_redialer_);
  // Connects within `dial`, and has the session resumed there before `deadline`.
  absl::Status TryResume(const DialTarget& target, absl::Duration dial, absl::Time deadline)
      RUNS_ON(on_redialer_);
  absl::Status Dial(const DialTarget& target, absl::Duration deadline) RUNS_ON(on_redialer_);
  // Ends the channel; afterwards no loop runs.
  void DropChannel() RUNS_ON(on_redialer_);
  void GiveUp(const absl::Status& status) RUNS_ON(on_redialer_);

  ChannelSlot* const slot_;
  ChannelHandler* const handler_;
  LogBudget* const log_;
  const Hooks hooks_;
  std::atomic<bool> closing_{false};

  Dialer dialer_;              // Constant once Connect() has begun.
  absl::Duration resume_for_;  // Constant once Connect() has begun.
  // The redialer's thread, or the one that opens the session, until the first channel is there.
  LoopAffinity on_redialer_;
  // The session's own comes last.
  std::vector<DialTarget> endpoints_ ABSL_GUARDED_BY(on_redialer_);
  // The slot borrows it; empty until the dialer has returned it.
  std::unique_ptr<Channel> channel_ ABSL_GUARDED_BY(on_redialer_);

  uint64_t attempt_ ABSL_GUARDED_BY(channel_loop) = 0;
  // The connection is given up for another.
  bool moving_ ABSL_GUARDED_BY(channel_loop) = false;
  // kResume is the next frame.
  bool resume_due_ ABSL_GUARDED_BY(channel_loop) = false;
  bool resumed_awaited_ ABSL_GUARDED_BY(channel_loop) = false;

  Mutex mu_;
  CondVar changed_;
  ConnectionState state_ ABSL_GUARDED_BY(mu_) = ConnectionState::kOpening;
  // Whether Connect() is done with the first channel, which the redialer does not touch before.
  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  bool resumable_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status down_status_ ABSL_GUARDED_BY(mu_);  // Why there is no connection.
  uint64_t losses_ ABSL_GUARDED_BY(mu_) = 0;       // Connections that were lost.
  bool redirected_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<DialTarget> move_to_ ABSL_GUARDED_BY(mu_);
  absl::Time move_at_ ABSL_GUARDED_BY(mu_);
  bool goodbye_ ABSL_GUARDED_BY(mu_) = false;   // No resumption is needed any more.
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;  // The redialer is to end.

  std::thread redialer_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CONNECTION_H_
