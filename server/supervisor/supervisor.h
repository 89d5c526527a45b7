// The parent of a server's workers and keepers: starts them when the server asks, and says how they
// ended. It is small and has one thread, so that starting a process costs the same however large
// the server is; and it is a process of its own, so that the server can be replaced under them.
#ifndef WARPLINE_SERVER_SUPERVISOR_SUPERVISOR_H_
#define WARPLINE_SERVER_SUPERVISOR_SUPERVISOR_H_

#include <list>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/unique_fd.h"
#include "proto/supervisor.pb.h"
#include "server/hostlink/process/child_process.h"

namespace warpline::supervisor {

// Used by one thread.
class Supervisor {
 public:
  // `socket` is the packet socket to the server; borrowed.
  explicit Supervisor(int socket) : socket_(socket) {}
  // Kills what is left of its processes and waits for their end.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Serves until the server closes its end: OK. INVALID_ARGUMENT when what it says makes no sense.
  absl::Status Run();

 private:
  struct Child {
    std::unique_ptr<ChildProcess> process;
    UniqueFd told;  // Where its end is told.
  };

  absl::Status OnServer();
  void Spawn(const warpline_internal::SpawnProcess& spawn, std::vector<UniqueFd> fds);
  void ReapEnded();

  const int socket_;
  std::list<Child> children_;
};

}  // namespace warpline::supervisor

#endif  // WARPLINE_SERVER_SUPERVISOR_SUPERVISOR_H_
