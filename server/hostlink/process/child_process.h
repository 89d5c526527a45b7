// A process that this one started.
//
// The child has a packet socket as descriptor 3, stderr for its log, and nothing else of its
// parent's: no other descriptor, no signal mask, a cleaned environment, no core dumps, no new
// privileges. It leads a session of its own, so that a terminal's Ctrl-C drains the server instead
// of killing its workers, and dies with the thread that started it (PR_SET_PDEATHSIG), which must
// therefore live as long as its process.
#ifndef WARPLINE_SERVER_HOSTLINK_PROCESS_CHILD_PROCESS_H_
#define WARPLINE_SERVER_HOSTLINK_PROCESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "server/hostlink/process/running_process.h"

namespace warpline {

// The number of the packet socket's descriptor in the child.
inline constexpr int kChildSocketFd = 3;

class ChildProcess final : public RunningProcess {
 public:
  // Starts `options.path` and puts our end of the packet socket, close-on-exec and blocking, into
  // `*socket`. Returns once the program runs. NOT_FOUND when the program does not exist, otherwise
  // INTERNAL or RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options,
                                                             UniqueFd* socket);
  // The same with `socket` as the child's own end.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> StartWith(const ChildOptions& options,
                                                                 UniqueFd socket);

  ~ChildProcess() override;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // A pidfd.
  int exit_fd() const override { return pid_fd_.get(); }
  pid_t pid() const override { return pid_; }
  void Kill() override;
  std::optional<ChildExit> TryReap() override;
  ChildExit Reap() override;

 private:
  ChildProcess(pid_t pid, UniqueFd pid_fd) : pid_(pid), pid_fd_(std::move(pid_fd)) {}
  std::optional<ChildExit> Wait(int flags);

  const pid_t pid_;
  const UniqueFd pid_fd_;
  std::optional<ChildExit> exit_;
};

// Starts processes as children of this one, whatever their role. For tests, and for what has no
// supervisor.
ProcessLauncher* ChildLauncher();

// Returns those of the `environment` entries ("NAME=value") that a child inherits: locale, search
// paths, and some settings of the CUDA driver and of sanitizers.
std::vector<std::string> ChildEnvironment(char* const* environment);

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_PROCESS_CHILD_PROCESS_H_
