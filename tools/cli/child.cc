#include "tools/cli/child.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"

namespace warpline::cli {
namespace {

sigset_t ForwardedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD}) {
    sigaddset(&set, number);
  }
  return set;
}

}  // namespace

sigset_t BlockForwardedSignals() {
  const sigset_t set = ForwardedSignals();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &set, &before);
  return before;
}

int WaitForEndSignal(absl::Duration pause) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&set, number);
  const absl::Time until = SteadyNow() + pause;
  while (true) {
    const timespec left = absl::ToTimespec(std::max(until - SteadyNow(), absl::ZeroDuration()));
    const int number = sigtimedwait(&set, nullptr, &left);
    if (number > 0) return number;
    if (errno != EINTR || SteadyNow() >= until) return 0;
  }
}

absl::StatusOr<pid_t> StartChild(const std::string& path, const std::vector<std::string>& arguments,
                                 const sigset_t& mask) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  // posix_spawnp() has the shell run a file without "#!", as execvp() does.
  const int error = posix_spawnp(&child, path.c_str(), nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return child;
  const std::string why = absl::StrCat("cannot run ", path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(why) : absl::PermissionDeniedError(why);
}

int WaitForChild(pid_t child) {
  const sigset_t set = ForwardedSignals();
  while (true) {
    int status;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (ended < 0 && errno != EINTR) return 1;
    siginfo_t info;
    const int number = sigwaitinfo(&set, &info);
    // A signal that the terminal sends reaches the child without us.
    if (number > 0 && number != SIGCHLD && info.si_code != SI_KERNEL) kill(child, number);
  }
}

}  // namespace warpline::cli
