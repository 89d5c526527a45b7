// warpline-relay: started by warpline-server, for each session that has connections of its own.
#include <fcntl.h>

#include <cstdio>
#include <string>

#include "common/log/log.h"
#include "server/hostlink/process/child_process.h"
#include "server/relay/serve.h"

int main() {
  warpline::SetLogName("relay");
  if (fcntl(warpline::kChildSocketFd, F_GETFD) < 0) {
    std::fputs("warpline-relay is started by warpline-server; see warpline-server --help\n",
               stderr);
    return 2;
  }
  fcntl(warpline::kChildSocketFd, F_SETFD, FD_CLOEXEC);
  // Why it ended the server hears, and says within its budget of lines.
  return warpline::relay::Serve(warpline::kChildSocketFd).ok() ? 0 : 1;
}
