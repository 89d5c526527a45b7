#include "tools/cli/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "common/ignored_signal.h"
#include "common/program_start.h"
#include "common/steady_time.h"
#include "common/unique_fd.h"

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

// Returns those of the signals that this process did not inherit as ignored.
sigset_t NotIgnored(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers) {
    if (!IsIgnoredSignal(number)) sigaddset(&set, number);
  }
  return set;
}

// Returns whether a command that ends with this code was ended by SIGTERM, SIGINT or SIGQUIT. A
// shell whose last program was ended so has the same code.
bool SaysToldToEnd(int code) {
  return code == 128 + SIGTERM || code == 128 + SIGINT || code == 128 + SIGQUIT;
}

// Takes the ends of children that have ended. Returns false when there are no children any more.
bool TakeEnds() {
  while (true) {
    const pid_t ended = waitpid(-1, nullptr, WNOHANG);
    if (ended == 0) return true;
    if (ended < 0 && errno != EINTR) return false;
  }
}

// Returns whether a child has ended whose end was not taken yet.
bool HasEndToTake() {
  siginfo_t info = {};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

absl::Status CannotRun(const std::string& path, int error) {
  const std::string why = absl::StrCat("cannot run ", path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(why) : absl::PermissionDeniedError(why);
}

// The child of a process with threads: it only makes system calls. Writes errno to `report` when
// the program cannot be executed.
[[noreturn]] void RunProgram(const char* path, char* const* argv, const sigset_t& mask,
                             int report) {
  RestoreInheritedSignals();
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  // It has the shell run a file without "#!".
  execvp(path, argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof(error));
  _exit(127);
}

}  // namespace

sigset_t BlockForwardedSignals() {
  sigset_t set = ForwardedSignals();
  // What is said to a reader that is gone must not end this process before its child.
  sigaddset(&set, SIGPIPE);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &set, &before);
  return before;
}

int WaitForEndSignal(absl::Duration pause) {
  const sigset_t set = NotIgnored({SIGTERM, SIGINT, SIGHUP, SIGQUIT});
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
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotRun(path, errno);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  // posix_spawn() cannot have the child ignore a signal that this process does not. No handler of
  // fork() runs, since the child does nothing that would need it.
  const pid_t child = _Fork();
  if (child < 0) return CannotRun(path, errno);
  if (child == 0) RunProgram(path.c_str(), argv.data(), mask, write_end.get());
  write_end.Reset(-1);
  int error = 0;
  ssize_t got;
  do {
    got = read(read_end.get(), &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(error))) return child;
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return CannotRun(path, error);
}

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

ChildEnd WaitForChild(pid_t child) {
  const sigset_t set = ForwardedSignals();
  ChildEnd end;
  while (true) {
    int status;
    // Orphans that were adopted end here, too.
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == child) {
      end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      end.told_to_end = end.told_to_end || SaysToldToEnd(end.code);
      return end;
    }
    if (ended > 0) continue;
    if (ended < 0 && errno != EINTR) return end;
    siginfo_t info;
    const int number = sigwaitinfo(&set, &info);
    if (number == SIGTERM && !IsIgnoredSignal(number)) end.told_to_end = true;
    // A signal that the terminal sends reaches the child without us.
    if (number > 0 && number != SIGCHLD && info.si_code != SI_KERNEL) kill(child, number);
  }
}

Orphans WaitForOrphans(absl::Duration patience, const ProcessFamily& others) {
  const sigset_t set = NotIgnored({SIGTERM, SIGINT, SIGQUIT, SIGCHLD});
  const absl::Time until = SteadyNow() + patience;
  Orphans orphans;
  while (TakeEnds()) {
    orphans.running = ProcessFamily::Of(getpid(), others);
    const bool none = orphans.running.members().empty();
    // A process that ended during the look may have hidden those that it had started.
    if (none && HasEndToTake()) continue;
    const absl::Duration left = until - SteadyNow();
    if (none || orphans.told_to_end || left <= absl::ZeroDuration()) return orphans;
    const timespec pause = absl::ToTimespec(left);
    const int number = sigtimedwait(&set, nullptr, &pause);
    orphans.told_to_end = number > 0 && number != SIGCHLD;
  }
  return {};
}

}  // namespace warpline::cli
