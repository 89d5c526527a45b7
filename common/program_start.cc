#include "common/program_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace warpline {
namespace {

bool g_ignored_children = false;

bool IsClosed(int fd) { return fcntl(fd, F_GETFD) < 0 && errno == EBADF; }

// The lowest closed descriptor is the one that opens.
void Occupy(int fd) {
  int opened = open("/dev/null", O_RDWR | O_CLOEXEC);
  // Without /dev the root's folder takes the place: it can neither be read nor written.
  if (opened < 0) opened = open("/", O_PATH | O_CLOEXEC);
  if (opened >= 0 && opened != fd) close(opened);
}

void SetChildAction(sighandler_t handler) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(SIGCHLD, &action, nullptr);
}

}  // namespace

void StartProgram() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (IsClosed(fd)) Occupy(fd);
  }
  struct sigaction inherited;
  g_ignored_children =
      sigaction(SIGCHLD, nullptr, &inherited) == 0 && inherited.sa_handler == SIG_IGN;
  SetChildAction(SIG_DFL);
}

void RestoreInheritedSignals() {
  if (g_ignored_children) SetChildAction(SIG_IGN);
}

}  // namespace warpline
