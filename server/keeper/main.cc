// warpline-keeper: started by warpline-server, once for each device.
#include <fcntl.h>

#include <cstdio>
#include <string>

#include "common/log/log.h"
#include "server/device/device.h"
#include "server/hostlink/process/child_process.h"
#include "server/keeper/keeper.h"

int main() {
  warpline::SetLogName("keeper");
  if (fcntl(warpline::kChildSocketFd, F_GETFD) < 0) {
    std::fputs("warpline-keeper is started by warpline-server; see warpline-server --help\n",
               stderr);
    return 2;
  }
  fcntl(warpline::kChildSocketFd, F_SETFD, FD_CLOEXEC);
  warpline::Keeper keeper(&warpline::device::OpenBackend);
  const absl::Status status = keeper.Serve(warpline::kChildSocketFd);
  if (!status.ok()) {
    warpline::LogError("stopped: ", status.ToString());
    return 1;
  }
  return 0;
}
