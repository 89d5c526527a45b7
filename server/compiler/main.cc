// warpline-compiler: started by warpline-server, once for each tenant whose kernels are guarded. It
// compiles what the tenant's workers send, in processes that it forks.
#include <fcntl.h>

#include <cstdio>

#include "common/log/log.h"
#include "server/compiler/serve.h"
#include "server/hostlink/process/child_process.h"

int main() {
  warpline::SetLogName("compiler");
  if (fcntl(warpline::kChildSocketFd, F_GETFD) < 0) {
    std::fputs("warpline-compiler is started by warpline-server; see warpline-server --help\n",
               stderr);
    return 2;
  }
  fcntl(warpline::kChildSocketFd, F_SETFD, FD_CLOEXEC);
  // Why it ended the server hears.
  return warpline::compiler::Serve(warpline::kChildSocketFd).ok() ? 0 : 1;
}
