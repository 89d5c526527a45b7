// The server's end of its supervisor: has processes started by it.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_LAUNCHER_SUPERVISED_LAUNCHER_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_LAUNCHER_SUPERVISED_LAUNCHER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "server/hostlink/process/child_process.h"
#include "server/hostlink/process/running_process.h"

namespace warpline::supervisor {

// Thread-safe. Outlives the processes that it launched; with it the supervisor ends, and so does
// what is left of them.
class SupervisedLauncher : public ProcessLauncher {
 public:
  // Starts the supervisor's `program`. What the supervisor, and all that it starts, inherit of this
  // process, such as limits, they have as it is now. Errors as ChildProcess::Start().
  static absl::StatusOr<std::unique_ptr<SupervisedLauncher>> Create(ChildOptions program);

  // ProcessLauncher. Blocks. A supervisor that has died is followed by another; UNAVAILABLE when
  // that one dies, too.
  absl::StatusOr<std::unique_ptr<RunningProcess>> Launch(ProcessRole role,
                                                         const ChildOptions& options,
                                                         UniqueFd* socket) override;

  pid_t supervisor_pid() const;

 private:
  struct Connection {
    UniqueFd socket;
    std::unique_ptr<ChildProcess> process;
  };

  explicit SupervisedLauncher(ChildOptions program);
  static absl::StatusOr<std::shared_ptr<Connection>> Connect(const ChildOptions& program);
  std::shared_ptr<Connection> current() const;
  // Another supervisor in place of `lost`, unless somebody has seen to it.
  absl::Status Replace(const std::shared_ptr<Connection>& lost);

  const ChildOptions program_;
  mutable Mutex mu_;
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mu_);
  LogBudget log_;
};

}  // namespace warpline::supervisor

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_LAUNCHER_SUPERVISED_LAUNCHER_H_
