// Follows the cancellation of one stream (cmd::StreamCancel): which of its tasks are dropped, which
// have to wait, and what is to be done about those that have begun.
//
//   cancel.Begin({.ticket = 9});
//   if (cancel.Drops(task.ticket)) ...
//   switch (cancel.Next({.issued = 5, .retired = 4, .can_stop = true}, SteadyNow())) ...
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_STREAM_CANCEL_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_STREAM_CANCEL_H_

#include <cstdint>

#include "absl/time/time.h"

namespace warpline::worker {

// An application's wish that a stream's work be dropped.
struct CancelRequest {
  uint64_t ticket = 0;        // The last ticket of the stream that is meant.
  bool waiting_only = false;  // Work that has begun goes on.
};

// Thread-compatible.
class StreamCancel {
 public:
  // How long what has begun may take to end by itself where it cannot be stopped, and how long once
  // it has been told to stop. After that the session ends.
  static constexpr absl::Duration kByItself = absl::Milliseconds(100);
  static constexpr absl::Duration kOnceStopped = absl::Seconds(2);

  enum class Step {
    kWait,
    kStop,        // The stream's kernels are to be told to stop.
    kEndSession,  // The work does not end. Said once.
    kDone,        // Nothing is left: kernels may go on. Said once.
  };

  // The stream's work on the device.
  struct Work {
    uint64_t issued = 0;  // Tickets.
    uint64_t retired = 0;
    bool can_stop = false;
    bool is_held = false;  // It may wait for work of another stream, which is not at an end.
  };

  // Begins one, or widens the one that is under way.
  void Begin(const CancelRequest& request);

  // Drops() is true of a task that is dropped unless it has begun, and Holds() of one that waits
  // until the cancellation is over.
  bool Drops(uint64_t ticket) const { return ticket <= dropped_; }
  bool Holds(uint64_t ticket) const { return under_way() && ticket > ended_; }
  // Returns true while work that has begun is still to be ended.
  bool under_way() const { return under_way_; }

  Step Next(const Work& work, absl::Time now);

 private:
  uint64_t dropped_ = 0;  // The last ticket of all requests.
  uint64_t ended_ = 0;    // The last ticket of those that also end what has begun.
  bool under_way_ = false;
  bool stopped_ = false;
  bool told_ = false;  // That the session is to end.
  // Since when nothing becomes complete of what has begun.
  absl::Time since_ = absl::InfiniteFuture();
  uint64_t retired_ = 0;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_STREAM_CANCEL_H_
