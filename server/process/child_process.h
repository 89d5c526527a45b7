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

// The child's descriptor of the packet socket.
inline constexpr int kChildSocketFd = 3;

struct ChildOptions {
  std::string path;
  std::vector<std::string> args;  // After argv[0].
  // Set on top of what ChildEnvironment() keeps.
  std::vector<std::pair<std::string, std::string>> environment;
  // Lays out the child's address space alike every time (ADDR_NO_RANDOMIZE).
  bool same_addresses = false;
};

// How a child ended.
struct ChildExit {
  bool by_signal = false;
  int value = 0;  // The signal, or the exit code.
  // "signal 9" or "exit code 1".
  std::string Describe() const;
};

// Thread-compatible.
class ChildProcess {
 public:
  // Starts `options.path` with the other end of `*socket`, which is close-on-exec and blocking.
  // Returns once the program runs. NOT_FOUND when it is not there, otherwise INTERNAL or
  // RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options,
                                                             UniqueFd* socket);

  // Kills and reaps: waits for the kernel to take the process down, which for a GPU context can
  // take a second.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once the child has exited.
  int pid_fd() const { return pid_fd_.get(); }

  // SIGKILL. Nothing happens when the child has exited already.
  void Kill();
  // Reaps the child when it has exited. From then on it returns the same.
  std::optional<ChildExit> TryReap();
  // Waits for the exit and reaps.
  ChildExit Reap();

 private:
  ChildProcess(pid_t pid, UniqueFd pid_fd) : pid_(pid), pid_fd_(std::move(pid_fd)) {}
  std::optional<ChildExit> Wait(int flags);

  const pid_t pid_;
  const UniqueFd pid_fd_;
  std::optional<ChildExit> exit_;
};

// What a child inherits of `environment` ("NAME=value" entries): locale, search paths, and the
// settings of the CUDA driver and of sanitizers. CUDA_VISIBLE_DEVICES is not among them: the
// server numbers devices as the driver does without it.
std::vector<std::string> ChildEnvironment(char* const* environment);

}  // namespace warpline

#endif  // WARPLINE_SERVER_PROCESS_CHILD_PROCESS_H_
