// warpline-supervisor: started by warpline-server, whose workers and keepers it starts.
#include <signal.h>

#include <string>

#include "common/log/log.h"
#include "server/process/child_process.h"
#include "server/supervisor/supervisor.h"

int main() {
  warpline::SetLogName("supervisor");
  signal(SIGPIPE, SIG_IGN);
  warpline::supervisor::Supervisor supervisor(warpline::kChildSocketFd);
  const absl::Status status = supervisor.Run();
  if (status.ok()) return 0;
  warpline::LogError("the server's word to its supervisor: ", std::string(status.message()));
  return 1;
}
