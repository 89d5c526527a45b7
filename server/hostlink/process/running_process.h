// Processes of a server, and who starts them.
#ifndef WARPLINE_SERVER_HOSTLINK_PROCESS_RUNNING_PROCESS_H_
#define WARPLINE_SERVER_HOSTLINK_PROCESS_RUNNING_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"
#include "server/hostlink/process/process_roles.h"

namespace warpline {

struct ChildOptions {
  std::string path;
  std::vector<std::string> args;  // After argv[0].
  // Set on top of what ChildEnvironment() keeps.
  std::vector<std::pair<std::string, std::string>> environment;
  // Lays out the child's address space alike every time (ADDR_NO_RANDOMIZE).
  bool same_addresses = false;
};

// How a process ended.
struct ChildExit {
  bool by_signal = false;
  int value = 0;  // The signal, or the exit code.
  // "signal 9" or "exit code 1".
  std::string Describe() const { return absl::StrCat(by_signal ? "signal " : "exit code ", value); }
};

// A process that was started. Thread-compatible. Its destructor kills it and waits for the kernel
// to take it down, which for a GPU context can take a second.
class RunningProcess {
 public:
  virtual ~RunningProcess() = default;

  virtual pid_t pid() const = 0;
  // Readable once the process has exited.
  virtual int exit_fd() const = 0;
  // SIGKILL. Nothing happens when the process has exited already.
  virtual void Kill() = 0;
  // How it ended, once that is known. From then on it returns the same.
  virtual std::optional<ChildExit> TryReap() = 0;
  // Waits for that.
  virtual ChildExit Reap() = 0;
};

// Thread-safe.
class ProcessLauncher {
 public:
  virtual ~ProcessLauncher() = default;
  // Starts `options.path` as a process of this role, with the other end of `*socket`, which is
  // close-on-exec and blocking. Returns once the program runs. NOT_FOUND when it is not there,
  // otherwise INTERNAL, RESOURCE_EXHAUSTED or UNAVAILABLE.
  virtual absl::StatusOr<std::unique_ptr<RunningProcess>> Launch(ProcessRole role,
                                                                 const ChildOptions& options,
                                                                 UniqueFd* socket) = 0;
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_PROCESS_RUNNING_PROCESS_H_
