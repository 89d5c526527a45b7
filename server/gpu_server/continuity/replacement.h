// The replacement of a session's worker on request: the session comes to rest, its worker saves
// what no other could make again, and then another takes over. Until then it can go on as it was.
#ifndef WARPLINE_SERVER_GPU_SERVER_CONTINUITY_REPLACEMENT_H_
#define WARPLINE_SERVER_GPU_SERVER_CONTINUITY_REPLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "server/gpu_server/continuity/rest.h"
#include "server/gpu_server/continuity/variable_saver.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// The parts of a session that decide whether another worker can take over.
struct SessionStanding {
  uint32_t journal_flags = 0;  // JournalFlags.
  size_t devices = 1;
};
// Returns why the session cannot outlive its worker, or an empty text. With `saves_variables` the
// worker lives and can save what its kernels have written to module variables.
std::string WhyNotReplaceable(const SessionStanding& standing, bool saves_variables);

class Replacement {
 public:
  using Done = std::function<void(absl::Status)>;
  // The parts of its session that it needs.
  struct Parts {
    Rest* rest = nullptr;
    VariableSaver* saver = nullptr;
    std::function<SessionStanding()> standing;
    // At rest, with what the worker has saved, if it had to: the takeover begins.
    std::function<void(UniqueFd variables)> take_over;
  };

  explicit Replacement(Parts parts) : parts_(std::move(parts)) {}
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  // Has the worker of an open session replaced, once nothing is in flight, within `deadline`.
  // `done` is called with what became of it: DEADLINE_EXCEEDED, or FAILED_PRECONDITION when one is
  // under way or no other worker could take over; the session then goes on as it was.
  void Begin(absl::Duration deadline, Done done) RUNS_ON(control_loop);
  // The session goes on with another worker, has ended, or failed: tells whoever asked, if anybody.
  // Nothing is done any more, and the gate stays as it is.
  void Finish(const absl::Status& status) RUNS_ON(control_loop);

 private:
  void OnRested(const absl::Status& status) RUNS_ON(control_loop);
  // The session goes on as it was.
  void GiveUp(const absl::Status& status) RUNS_ON(control_loop);

  const Parts parts_;
  Done done_ ABSL_GUARDED_BY(control_loop);
  bool saving_ ABSL_GUARDED_BY(control_loop) = false;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_REPLACEMENT_H_
