// warpline-mps: started by warpline-server with --mps, once for each group of workers that share a
// GPU through NVIDIA's Multi-Process Service. It runs the service's daemon in a jail.
#include <fcntl.h>

#include <cstdio>

#include "common/log/log.h"
#include "server/hostlink/process/child_process.h"
#include "server/mps/keep.h"

int main() {
  warpline::SetLogName("mps");
  if (fcntl(warpline::kChildSocketFd, F_GETFD) < 0) {
    std::fputs("warpline-mps is started by warpline-server; see warpline-server --help\n", stderr);
    return 2;
  }
  fcntl(warpline::kChildSocketFd, F_SETFD, FD_CLOEXEC);
  // Why it ended the server hears.
  return warpline::mps::Keep(warpline::kChildSocketFd).ok() ? 0 : 1;
}
