#include "server/hostlink/process/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/packets/packet_socket.h"
#include "server/hostlink/process/priority.h"

namespace warpline {
namespace {

// By name, because a worker that a tenant has taken over reads them: no credentials, no paths of
// others, and no compile cache, which all tenants would share. CUDA_VISIBLE_DEVICES is not among
// them, because the server numbers devices as the driver does without it.
constexpr absl::string_view kKeptNames[] = {
    "PATH",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LD_LIBRARY_PATH",
    // Settings of NVIDIA's driver.
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_MPS_LOG_DIRECTORY",
    "CUDA_MPS_PIPE_DIRECTORY",
    // Settings of builds for tests.
    "ASAN_OPTIONS",
    "UBSAN_OPTIONS",
    "TSAN_OPTIONS",
    "LSAN_OPTIONS",
    "GCOV_PREFIX",
    "GCOV_PREFIX_STRIP",
};

bool Keeps(absl::string_view name) {
  return std::find(std::begin(kKeptNames), std::end(kKeptNames), name) != std::end(kKeptNames);
}

// All that the child needs between fork and exec is prepared beforehand: after a fork of a process
// with threads, memory must not be allocated.
struct ChildPlan {
  const char* path;
  char* const* argv;
  char* const* envp;
  int socket_fd;
  int error_fd;
  int null_fd;
  pid_t parent;
  bool same_addresses;
};

// Uses raw system calls, because a sanitizer's wrapper would take locks.
void CloseFrom(unsigned first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  for (unsigned fd = first; fd < 65536; ++fd) close(static_cast<int>(fd));
}

[[noreturn]] void ReportAndExit(int error_fd) {
  const int error = errno;
  [[maybe_unused]] const ssize_t n = write(error_fd, &error, sizeof(error));
  _exit(127);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) ReportAndExit(plan.error_fd);
  if (getppid() != plan.parent) _exit(127);  // The server died before prctl() above.
  setsid();
  GoAsUsual();
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core = {0, 0};
  if (setrlimit(RLIMIT_CORE, &no_core) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    ReportAndExit(plan.error_fd);
  }
  // Descriptor 0 reads from nowhere; 1 writes to nowhere, because the driver prints there what
  // tenants' kernels print, which is not for the operator's log; 2 is the log, 3 the socket, and 4
  // takes errors until exec.
  const int error_copy = fcntl(plan.error_fd, F_DUPFD_CLOEXEC, 10);
  const int socket_copy = fcntl(plan.socket_fd, F_DUPFD_CLOEXEC, 10);
  if (error_copy < 0 || socket_copy < 0 || dup2(plan.null_fd, 0) < 0 || dup2(plan.null_fd, 1) < 0 ||
      dup2(socket_copy, kChildSocketFd) < 0 || dup3(error_copy, 4, O_CLOEXEC) < 0) {
    ReportAndExit(plan.error_fd);
  }
  // Where the log is closed, the parent has something there that it keeps from other programs.
  fcntl(STDERR_FILENO, F_SETFD, 0);
  CloseFrom(5);
  if (plan.same_addresses) personality(ADDR_NO_RANDOMIZE);  // Fails where containers forbid it.
  execve(plan.path, plan.argv, plan.envp);
  ReportAndExit(4);
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::Status StartError(const std::string& path, int error) {
  const std::string text = absl::StrCat("cannot start ", path, ": ", strerror(error));
  if (error == ENOENT) return absl::NotFoundError(text);
  if (error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::InternalError(text);
}

}  // namespace

std::vector<std::string> ChildEnvironment(char* const* environment) {
  std::vector<std::string> kept;
  for (; *environment != nullptr; ++environment) {
    const absl::string_view entry = *environment;
    if (Keeps(entry.substr(0, entry.find('=')))) kept.emplace_back(entry);
  }
  return kept;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const ChildOptions& options,
                                                                  UniqueFd* socket) {
  auto pair = PacketSocketPair();
  if (!pair.ok()) return pair.status();
  auto child = StartWith(options, std::move(pair->second));
  if (child.ok()) *socket = std::move(pair->first);
  return child;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::StartWith(const ChildOptions& options,
                                                                      UniqueFd socket) {
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) return StartError(options.path, errno);
  const UniqueFd error_read(error_pipe[0]);
  UniqueFd error_write(error_pipe[1]);
  const UniqueFd null_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_fd.valid()) return StartError(options.path, errno);

  std::vector<std::string> args = {options.path};
  args.insert(args.end(), options.args.begin(), options.args.end());
  std::vector<std::string> environment = ChildEnvironment(environ);
  for (const auto& [name, value] : options.environment) {
    const std::string prefix = absl::StrCat(name, "=");
    environment.erase(
        std::remove_if(environment.begin(), environment.end(),
                       [&](const std::string& entry) { return absl::StartsWith(entry, prefix); }),
        environment.end());
    environment.push_back(absl::StrCat(prefix, value));
  }
  const std::vector<char*> argv = Pointers(args);
  const std::vector<char*> envp = Pointers(environment);
  const ChildPlan plan = {options.path.c_str(), argv.data(),   envp.data(), socket.get(),
                          error_write.get(),    null_fd.get(), getpid(),    options.same_addresses};
  const pid_t pid = fork();
  if (pid < 0) return StartError(options.path, errno);
  if (pid == 0) RunChild(plan);

  UniqueFd pid_fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const int pid_fd_error = errno;
  std::unique_ptr<ChildProcess> child(new ChildProcess(pid, std::move(pid_fd)));
  if (child->exit_fd() < 0) return StartError(options.path, pid_fd_error);

  error_write.Reset(-1);
  int error = 0;
  ssize_t got;
  do {
    got = read(error_read.get(), &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof(error))) return StartError(options.path, error);
  return child;
}

ProcessLauncher* ChildLauncher() {
  class Launcher : public ProcessLauncher {
    absl::StatusOr<std::unique_ptr<RunningProcess>> Launch(ProcessRole, const ChildOptions& options,
                                                           UniqueFd* socket) override {
      auto child = ChildProcess::Start(options, socket);
      if (!child.ok()) return child.status();
      return std::unique_ptr<RunningProcess>(*std::move(child));
    }
  };
  static Launcher* const launcher = new Launcher;
  return launcher;
}

ChildProcess::~ChildProcess() {
  if (exit_.has_value()) return;
  Kill();
  Reap();
}

void ChildProcess::Kill() {
  if (!exit_.has_value()) kill(pid_, SIGKILL);
}

// Waits by pid, not by pid_fd, so that a child whose pid_fd could not be opened is reaped too. The
// pid cannot belong to another process before that.
std::optional<ChildExit> ChildProcess::Wait(int flags) {
  if (exit_.has_value()) return exit_;
  siginfo_t info = {};
  int result;
  do {
    result = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | flags);
  } while (result != 0 && errno == EINTR);
  if (result == 0 && info.si_pid == 0) return std::nullopt;
  exit_ = ChildExit{info.si_code != CLD_EXITED, result == 0 ? info.si_status : SIGKILL};
  return exit_;
}

std::optional<ChildExit> ChildProcess::TryReap() { return Wait(WNOHANG); }

ChildExit ChildProcess::Reap() { return *Wait(0); }

}  // namespace warpline
