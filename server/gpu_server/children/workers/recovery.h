// What becomes of the sessions of a guarded worker that is lost, from the moment when that is
// known: how many go on with another one, and how long it takes until the last of them is served
// again.
//
//   std::unique_ptr<RecoveryShare> share = worker->JoinRecovery();
//   ...
//   share->WentOn();
//
// It is over once nobody has a part in it any more.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_RECOVERY_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_RECOVERY_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

class RecoveryShare;

// Belongs to the control loop. Shared by the process that is lost, as long as it may tell sessions
// so, and by their shares, which sessions drop at their end.
class Recovery : public std::enable_shared_from_this<Recovery> {
 public:
  struct Outcome {
    size_t went_on = 0;
    size_t lost = 0;
    size_t left = 0;  // Those that ended by themselves meanwhile.
    // Until the last one that went on was served again; zero where none went on.
    absl::Duration took;
  };
  // Does not go back.
  using Clock = std::function<absl::Time()>;

  // It begins now. `over` is called once, unless no session had a part in it. `timers` are
  // borrowed.
  Recovery(Timers* timers, Clock clock, std::function<void(const Outcome&)> over);
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;
  ~Recovery();

  // A session has a part in it from now on.
  std::unique_ptr<RecoveryShare> Join();
  // For what can wait until those who go on are served, because it would delay them: called once,
  // when the recovery is over or has lasted for kLongestWait more.
  void WhenOver(std::function<void()> callback);

  static constexpr absl::Duration kLongestWait = absl::Seconds(2);

 private:
  friend class RecoveryShare;

  void CallWaiting();

  Timers* const timers_;
  const Clock clock_;
  const std::function<void(const Outcome&)> over_;
  const absl::Time began_;
  Outcome outcome_;
  std::vector<std::function<void()>> waiting_;
  Timers::Token timer_ = 0;
};

// One session's part. A session that neither goes on nor is lost before it is dropped has left.
class RecoveryShare {
 public:
  explicit RecoveryShare(std::shared_ptr<Recovery> recovery) : recovery_(std::move(recovery)) {}
  RecoveryShare(const RecoveryShare&) = delete;
  RecoveryShare& operator=(const RecoveryShare&) = delete;
  ~RecoveryShare();

  // One of these, once. The session is served again.
  void WentOn();
  // The session could not go on. Returns what others still have of the recovery.
  std::weak_ptr<Recovery> Lost();

 private:
  std::shared_ptr<Recovery> recovery_;  // Null once its fate is known.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_RECOVERY_H_
