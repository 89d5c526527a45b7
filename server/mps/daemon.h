// NVIDIA's MPS daemon, nvidia-cuda-mps-control, as a child in the foreground, and what it has
// started besides.
#ifndef WARPLINE_SERVER_MPS_DAEMON_H_
#define WARPLINE_SERVER_MPS_DAEMON_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpline::mps {

struct DaemonOptions {
  std::string control;  // The program.
  std::string folder;   // In which it has pipe/ and log/; exists.
  absl::Duration start_timeout = absl::Seconds(10);
  // How long clients have to leave, and the daemon to end.
  absl::Duration quit_timeout = absl::Seconds(5);
};

// Used by one thread of a process that has no other children. That process becomes the parent of
// whatever the daemon leaves behind (PR_SET_CHILD_SUBREAPER). The daemon ends with it.
class Daemon {
 public:
  explicit Daemon(DaemonOptions options) : options_(std::move(options)) {}
  // As Stop().
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Returns once it takes clients. UNAVAILABLE with the end of what it wrote when it has ended,
  // DEADLINE_EXCEEDED when it does not answer in time; INTERNAL when it cannot be started.
  absl::Status Start();
  // Has it start the server process that serves clients of this user, which the first client would
  // have it do otherwise. Returns that process; 0 where it is not known in time.
  pid_t StartServer(uid_t user);
  // Reaps what has ended. Returns whether the daemon has.
  bool Ended();
  // Tells the daemon to quit, ends what does not, and removes what they had made in the folder.
  void Stop();

 private:
  // Starts the program with `argument`, if not null. Its input is `input`, or nothing if that is
  // -1.
  // Its output is `output`, or, if that is -1, a file in the folder.
  pid_t Spawn(const char* argument, int input, int output) const;
  // Has the daemon carry out a command, by the same program as its client, and returns what it
  // answers; nothing when that fails.
  std::optional<std::string> Tell(const std::string& command);
  // Returns whether children are left.
  bool ReapEnded();
  bool WaitUntilEnded(absl::Duration timeout);
  static void KillChildren();
  std::string LastWords() const;

  const DaemonOptions options_;
  pid_t daemon_ = 0;  // 0 while there is none.
};

}  // namespace warpline::mps

#endif  // WARPLINE_SERVER_MPS_DAEMON_H_
