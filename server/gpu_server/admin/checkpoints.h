// Answers `warpline checkpoint` and `warpline restore`. The caller comes back to see how far it is.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_CHECKPOINTS_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_CHECKPOINTS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "audit/record.h"
#include "common/mutex.h"
#include "proto/admin.pb.h"
#include "server/gpu_server/session/session_host.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

inline constexpr char kCheckpointMethod[] = "/warpline_internal.Admin/Checkpoint";

// SessionHost's functions of these names.
struct CheckpointActions {
  using Action =
      std::function<absl::StatusOr<CheckpointResult>(const CheckpointOrder&, CheckpointProgress*)>;
  Action save;
  Action restore;
};

// Saves and restores one checkpoint at a time. Thread-safe. The destructor waits for the one that
// is under way.
class Checkpoints {
 public:
  // `space` is borrowed; null where the server moves no memory.
  Checkpoints(CheckpointActions actions, SwapSpace* space)
      : actions_(std::move(actions)), space_(space) {}

  // Returns a serialized CheckpointReply to a serialized CheckpointRequest: for the operator.
  // INVALID_ARGUMENT for what is no request, FAILED_PRECONDITION where the server moves no memory,
  // RESOURCE_EXHAUSTED while another one is under way.
  absl::StatusOr<std::string> Answer(const std::string& request);

 private:
  // One that is under way, or the last one.
  struct Job {
    std::string number;
    CheckpointProgress progress;
    std::optional<absl::StatusOr<CheckpointResult>> outcome;
  };

  absl::Status Start(const warpline_internal::CheckpointRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Finish(const std::shared_ptr<Job>& job, absl::StatusOr<CheckpointResult> outcome);

  const CheckpointActions actions_;
  SwapSpace* const space_;
  Mutex mu_;
  std::shared_ptr<Job> job_ ABSL_GUARDED_BY(mu_);  // Its outcome, too.
  EventLoop loop_{"checkpoints"};
};

// Returns the record of such a request; none where it only asks how it is.
std::optional<audit::Record> DescribeCheckpoint(const std::string& request);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_CHECKPOINTS_H_
