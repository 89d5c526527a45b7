// A process that the server started: a worker or a keeper.
//
// The child has a packet socket as descriptor 3, stderr for its log, and nothing else of the
// server's: no other descriptor, no signal mask, a cleaned environment, no core dumps, no new
// privileges. It leads a session of its own, so that a terminal's Ctrl-C drains the server instead
// of killing its workers, and dies with the thread that started it (PR_SET_PDEATHSIG), which must
// therefore live as long as the server.
#ifndef WARPLINE_SERVER_PROCESS_CHILD_PROCESS_H_
#define WARPLINE_SERVER_PROCESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline {

// The number of the packet socket's descriptor in the child.
inline constexpr int kChildSocketFd = 3;

struct ChildOptions {
  std::string path;
  std::vector<std::string> args;  // After argv[0].
  // Variables that are set in addition to what ChildEnvironment() keeps.
  std::vector<std::pair<std::string, std::string>> environment;
  // Lays out the child's address space alike every time (ADDR_NO_RANDOMIZE).
  bool same_addresses = false;
};

// How a child ended.
struct ChildExit {
  bool by_signal = false;
  int value = 0;  // The signal, or the exit code.
  // Returns a text such as "signal 9" or "exit code 1".
  std::string Describe() const;
};

// Thread-compatible.
class ChildProcess {
 public:
  // Starts `options.path` and puts our end of the packet socket, close-on-exec and blocking, into
  // `*socket`. Returns once the program runs. NOT_FOUND when the program does not exist, otherwise
  // INTERNAL or RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options,
                                                             UniqueFd* socket);

  // Kills and reaps the child. It waits for the kernel to take the process down, which for a GPU
  // context can take a second.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // A descriptor that is readable once the child has exited.
  int pid_fd() const { return pid_fd_.get(); }

  // Sends SIGKILL. Does nothing when the child has already exited.
  void Kill();
  // Reaps the child when it has exited. From then on it always returns the same exit.
  std::optional<ChildExit> TryReap();
  // Waits for the child to exit, and reaps it.
  ChildExit Reap();

 private:
  ChildProcess(pid_t pid, UniqueFd pid_fd) : pid_(pid), pid_fd_(std::move(pid_fd)) {}
  std::optional<ChildExit> Wait(int flags);

  const pid_t pid_;
  const UniqueFd pid_fd_;
  std::optional<ChildExit> exit_;
};

// Returns those of the `environment` entries ("NAME=value") that a child inherits: locale, search
// paths, and the settings of the CUDA driver and of sanitizers. CUDA_VISIBLE_DEVICES is not among
// them, because the server numbers devices as the driver does without it.
std::vector<std::string> ChildEnvironment(char* const* environment);

}  // namespace warpline

#endif  // WARPLINE_SERVER_PROCESS_CHILD_PROCESS_H_
