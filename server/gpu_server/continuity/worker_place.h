// What a session's going on with another worker is made of: the place that one worker after another
// takes, and what the session holds there.
#ifndef WARPLINE_SERVER_GPU_SERVER_CONTINUITY_WORKER_PLACE_H_
#define WARPLINE_SERVER_GPU_SERVER_CONTINUITY_WORKER_PLACE_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "common/cuda/cuda_result.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// Commands on their way to a worker.
class CommandGate {
 public:
  virtual ~CommandGate() = default;
  // Lets nothing more through to the worker. Returns the number of the last command that went.
  virtual uint64_t Freeze() RUNS_ON(control_loop) = 0;
  // The number up to which all commands are complete, with their replies written.
  virtual uint64_t Retired() const RUNS_ON(control_loop) = 0;
  // Lets through what waits, and all that comes.
  virtual void Thaw() RUNS_ON(control_loop) = 0;
};

// The place of a session's worker.
class WorkerPlace : public CommandGate {
 public:
  // Frozen, with the worker dead: the number of the last command that it took. Nothing where it has
  // left what cannot be read.
  virtual std::optional<uint64_t> Taken() RUNS_ON(control_loop) = 0;
  // Ends the worker that is there. Afterwards it is gone, at once or later.
  virtual void Kill() RUNS_ON(control_loop) = 0;
  // No worker is there, nor are the mappings of the last one.
  virtual bool gone() const RUNS_ON(control_loop) = 0;
  // Gives the place to another worker, which goes on after the command `resume_seq`, and with what
  // the last one has saved of module variables (borrowed; -1 for nothing). Still frozen.
  virtual absl::Status TakeNext(uint64_t resume_seq, int variables_fd) RUNS_ON(control_loop) = 0;
};

// What a session holds in its worker, which another worker must have at the same places.
class Survivor {
 public:
  virtual ~Survivor() = default;
  // The worker is lost: nothing is sent before MapAgain().
  virtual void Suspend() RUNS_ON(control_loop) = 0;
  // Has the next worker take everything that the session holds, and goes on with what was asked for
  // meanwhile. `done` is called with the worker's first error; not at all if that worker is lost.
  virtual void MapAgain(std::function<void(CudaResult)> done) RUNS_ON(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_WORKER_PLACE_H_
