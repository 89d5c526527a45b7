// Moves a session's device memory to the host while the session is idle, and back before its next
// command. The worker lives on, and with it its context, modules and all else that it has made.
#ifndef WARPLINE_SERVER_GPU_SERVER_CONTINUITY_PAGING_H_
#define WARPLINE_SERVER_GPU_SERVER_CONTINUITY_PAGING_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/gpu_server/continuity/rest.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

class Paging {
 public:
  using Done = std::function<void(absl::Status)>;
  // The parts of its session that it uses. The functions are called on the control loop.
  struct Parts {
    Timers* timers = nullptr;
    Rest* rest = nullptr;
    // SessionDevices::PageOut(), PageIn() and away(). To bring the memory of a suspended session in
    // is to have another worker take over as well.
    std::function<void(Done)> page_out;
    std::function<void(Done)> page_in;
    std::function<bool()> is_away;
    // SessionDevices::waits_for_worker().
    std::function<bool()> waits_for_worker;
    // Calls its argument, not from within, once the devices seem to have room for what is away;
    // not at all after stop_waiting().
    std::function<void(std::function<void()>)> await_room;
    std::function<void()> stop_waiting;
    // The client waits for an answer about memory.
    std::function<bool()> has_requests;
    // The memory is away: OnWanted() is to be called once the client sends a command.
    std::function<void()> on_away;
    // The memory is back, so long after it was called for and there was room.
    std::function<void(absl::Duration took)> on_came;
    // The worker is in no state that is known, and has to go.
    std::function<void(const std::string& why)> on_broken;
    // How long the worker may take to unmap the memory or to map it again, at least.
    absl::Duration worker_timeout = absl::Seconds(60);
  };

  explicit Paging(Parts parts) : parts_(std::move(parts)) {}
  Paging(const Paging&) = delete;
  Paging& operator=(const Paging&) = delete;

  // Moves the memory of an open session away, once nothing is in flight, within `deadline`. `done`
  // is called with OK, also when it is away already, or the session goes on as it was:
  // DEADLINE_EXCEEDED, or the error of PageOut(). Memory that is on its way back goes again once
  // it is there.
  void Out(absl::Duration deadline, Done done) RUNS_ON(control_loop);
  // Brings it back, and waits for room on the device as long as there is none. `done` is called
  // once it is there, or after `deadline` with DEADLINE_EXCEEDED: it then still comes back as soon
  // as it can.
  void In(absl::Duration deadline, Done done) RUNS_ON(control_loop);
  // Another server has moved the memory away, before this one took the session over.
  void BeginAway() RUNS_ON(control_loop) {
    state_ = State::kAway;
    parts_.on_away();
  }
  // Something waits for the memory. Brings it back, once it is away.
  void OnWanted() RUNS_ON(control_loop);
  // Returns true unless the memory is there, with nothing to be done to it.
  bool moving() const RUNS_ON(control_loop) { return state_ != State::kHere; }
  // Returns true while the memory is about to leave.
  bool leaving() const RUNS_ON(control_loop) {
    return state_ == State::kResting || state_ == State::kLeaving;
  }
  // Returns true if the memory is away, or comes back.
  bool gone() const RUNS_ON(control_loop) {
    return state_ == State::kAway || state_ == State::kComing;
  }
  // Returns true if the memory is away and nothing wants it.
  bool away() const RUNS_ON(control_loop) {
    return state_ == State::kAway && !wanted_ && !parts_.has_requests();
  }
  // The session ends, fails, or goes on with another worker, for which the memory is brought back:
  // calls whatever waits with `status`.
  void Forget(const absl::Status& status) RUNS_ON(control_loop);

 private:
  enum class State { kHere, kResting, kLeaving, kAway, kComing };

  void Leave() RUNS_ON(control_loop);
  // Waits for room, and brings the memory back.
  void Come() RUNS_ON(control_loop);
  void OnCame(const absl::Status& status) RUNS_ON(control_loop);
  // Looks from time to time, while the memory is under way, that the worker does its part.
  void Watch(bool waited) RUNS_ON(control_loop);
  void StopWatching() RUNS_ON(control_loop);

  const Parts parts_;
  State state_ ABSL_GUARDED_BY(control_loop) = State::kHere;
  bool wanted_ ABSL_GUARDED_BY(control_loop) = false;
  Done left_ ABSL_GUARDED_BY(control_loop);
  std::vector<Done> came_ ABSL_GUARDED_BY(control_loop);
  absl::Time coming_since_ ABSL_GUARDED_BY(control_loop);
  Timers::Token watch_ ABSL_GUARDED_BY(control_loop) = 0;
  // Raised by Forget(): what is under way then concerns nobody.
  int round_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_PAGING_H_
