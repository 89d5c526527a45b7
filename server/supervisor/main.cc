// warpline-supervisor: starts the workers and keepers of warpline-server, which starts it and
// speaks proto/supervisor.proto on descriptor 3; of no use by hand.
#include <signal.h>
#include <sys/socket.h>

#include <string>

#include "common/log/log.h"
#include "common/loop/short_slices.h"
#include "common/undumpable.h"
#include "server/hostlink/process/child_process.h"
#include "server/supervisor/supervisor.h"

namespace {

bool IsSocket(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

}  // namespace

int main(int argc, char**) {
  warpline::MakeUndumpable();
  warpline::SetLogName("supervisor");
  if (argc > 1 || !IsSocket(warpline::kChildSocketFd)) {
    warpline::LogError("warpline-supervisor is started by warpline-server and takes no arguments");
    return 64;
  }
  signal(SIGPIPE, SIG_IGN);
  // Its children wait far more than they compute.
  warpline::AskForShortSlices();
  warpline::supervisor::Supervisor supervisor(warpline::kChildSocketFd);
  const absl::Status status = supervisor.Run();
  if (status.ok()) return 0;
  warpline::LogError("the server's word to its supervisor: ", std::string(status.message()));
  return 1;
}
