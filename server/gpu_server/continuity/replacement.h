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
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/worker_link.h"
#include "server/gpu_server/continuity/rest.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

// Why a session with so many devices and these JournalFlags cannot outlive its worker; empty when
// it can.
std::string WhyNotReplaceable(size_t devices, uint32_t journal_flags);

class Replacement {
 public:
  using Done = std::function<void(absl::Status)>;
  // Of the session: its JournalFlags, and how many devices it has.
  struct Standing {
    uint32_t journal_flags = 0;
    size_t devices = 1;
  };
  // What it needs of its session.
  struct Parts {
    Timers* timers = nullptr;
    Rest* rest = nullptr;
    WorkerLink* worker = nullptr;
    std::function<Standing()> standing;
    // At rest, with what the worker has saved, if it had to: the takeover begins.
    std::function<void(UniqueFd variables)> take_over;
    // For the worker to save its variables.
    absl::Duration save_timeout;
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

  void OnVariablesSaved(const warpline_internal::VariablesSaved& saved) RUNS_ON(control_loop);

 private:
  void OnRested(const absl::Status& status) RUNS_ON(control_loop);
  void SaveVariables() RUNS_ON(control_loop);
  // The session goes on as it was.
  void GiveUp(const absl::Status& status) RUNS_ON(control_loop);

  const Parts parts_;
  Done done_ ABSL_GUARDED_BY(control_loop);
  // The answer that is waited for; 0 for none.
  uint64_t saving_ ABSL_GUARDED_BY(control_loop) = 0;
  uint64_t last_save_ ABSL_GUARDED_BY(control_loop) = 0;
  UniqueFd variables_ ABSL_GUARDED_BY(control_loop);
  Timers::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_REPLACEMENT_H_
