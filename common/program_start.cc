#include "common/program_start.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace warpline {
namespace {

bool g_ignored_children = false;

// Libraries open descriptors in their constructors already (gRPC an eventfd), so this comes before
// those: it is in .preinit_array. Sanitizers are not ready by then either, hence raw system calls.
__attribute__((no_sanitize("address", "thread", "undefined"))) void OccupyClosedDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (syscall(SYS_fcntl, fd, F_GETFD) >= 0) continue;
    // The lowest closed descriptor is the one that opens.
    const long opened = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
    // Without /dev the root's folder takes the place: it can neither be read nor written.
    if (opened < 0) syscall(SYS_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC);
  }
}

__attribute__((section(".preinit_array"),
               used)) void (*const g_before_constructors)() = OccupyClosedDescriptors;

void SetChildAction(sighandler_t handler) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(SIGCHLD, &action, nullptr);
}

}  // namespace

void StartProgram() {
  struct sigaction inherited;
  g_ignored_children =
      sigaction(SIGCHLD, nullptr, &inherited) == 0 && inherited.sa_handler == SIG_IGN;
  SetChildAction(SIG_DFL);
}

void RestoreInheritedSignals() {
  if (g_ignored_children) SetChildAction(SIG_IGN);
}

}  // namespace warpline
