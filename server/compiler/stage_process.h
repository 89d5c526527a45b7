// One stage of one module: a process that is forked for it, confines itself, does its one thing
// with the files that it was handed, and ends.
//
//   auto stage = StageProcess::Start(body, limits, {text, report});
//   <poll for exit_fd(), up to deadline()>
//   StageEnd end = (*stage)->End();
#ifndef WARPLINE_SERVER_COMPILER_STAGE_PROCESS_H_
#define WARPLINE_SERVER_COMPILER_STAGE_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"

namespace warpline::compiler {

struct StageLimits {
  absl::Duration wall = absl::Seconds(60);
  uint64_t cpu_seconds = 60;
  // Of its address space, in which the compiler's library is, too.
  uint64_t memory_bytes = uint64_t{4} << 30;
  uint64_t file_bytes = uint64_t{256} << 20;  // Of each file that it writes.
};

// How a stage went; if not well, it has written why to its report.
enum class StageResult {
  kDone,
  kRefused,
  kNoPtx  // The image has no PTX for the device.
};

inline StageResult ResultOf(bool went_well) {
  return went_well ? StageResult::kDone : StageResult::kRefused;
}

// The body of a stage, which runs in a process of its own, with its descriptors under their numbers
// there. It may also throw or crash: nobody else is harmed.
using StageBody = std::function<StageResult(absl::Span<const int> fds)>;

struct StageEnd {
  enum class Kind {
    kDone,
    kRefused,   // The body said so,
    kNoPtx,     // or this.
    kLimit,     // It has reached a limit.
    kCrashed,   // Its process ended in any other way.
    kNotJailed  // The body has not been called.
  };
  Kind kind = Kind::kCrashed;
  std::string why;  // "took longer than 60 s", for people; empty for what the body said.
  absl::Duration took;
};

// Used by one thread, and only where the process has no other, since a fork copies one.
class StageProcess {
 public:
  // `fds` are borrowed; the process has no others. RESOURCE_EXHAUSTED when it cannot be started.
  static absl::StatusOr<std::unique_ptr<StageProcess>> Start(const StageBody& body,
                                                             const StageLimits& limits,
                                                             const std::vector<int>& fds);
  // Kills it if it still runs, and waits for its end.
  ~StageProcess();
  StageProcess(const StageProcess&) = delete;
  StageProcess& operator=(const StageProcess&) = delete;

  // A pidfd, readable once the process has ended.
  int exit_fd() const { return exit_.get(); }
  absl::Time deadline() const { return started_ + limits_.wall; }
  // How it ended, killed first if it still runs. Called once.
  StageEnd End();

 private:
  StageProcess(pid_t pid, UniqueFd exit, const StageLimits& limits);

  const pid_t pid_;
  const UniqueFd exit_;
  const StageLimits limits_;
  const absl::Time started_;
  bool ended_ = false;
};

}  // namespace warpline::compiler

#endif  // WARPLINE_SERVER_COMPILER_STAGE_PROCESS_H_
