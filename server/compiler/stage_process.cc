#include "server/compiler/stage_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"
#include "server/jail/jail.h"
#include "server/jail/profiles.h"

namespace warpline::compiler {
namespace {

// The first descriptor of a stage's files.
constexpr int kFirstFd = 3;
// Descriptors are put aside here while those of the stage get their numbers.
constexpr int kAside = 64;

// How a stage's process ends by itself.
enum ExitCode : int {
  kDoneCode = 0,
  kRefusedCode = 10,
  kMemoryCode = 11,
  kNotJailedCode = 12,
  kNoPtxCode = 13
};

ExitCode CodeOf(StageResult result) {
  switch (result) {
    case StageResult::kDone:
      return kDoneCode;
    case StageResult::kRefused:
      return kRefusedCode;
    case StageResult::kNoPtx:
      return kNoPtxCode;
  }
  return kRefusedCode;
}

void Limit(int resource, uint64_t most, uint64_t beyond = 0) {
  const rlimit limit = {most, most + beyond};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) _exit(kNotJailedCode);
}

// The process has the descriptors alone, with nothing at 0, 1 and 2.
void TakeDescriptors(const std::vector<int>& fds) {
  std::vector<int> aside;
  for (const int fd : fds) aside.push_back(fcntl(fd, F_DUPFD_CLOEXEC, kAside));
  for (size_t i = 0; i < aside.size(); ++i) {
    if (aside[i] < 0 || dup2(aside[i], kFirstFd + static_cast<int>(i)) < 0) _exit(kNotJailedCode);
  }
  const auto end = static_cast<unsigned>(kFirstFd + fds.size());
  if (syscall(SYS_close_range, end, ~0u, 0) != 0 || syscall(SYS_close_range, 0u, 2u, 0) != 0) {
    _exit(kNotJailedCode);
  }
}

[[noreturn]] void RunStage(const StageBody& body, const StageLimits& limits,
                           const std::vector<int>& fds, pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent) {
    _exit(kNotJailedCode);
  }
  TakeDescriptors(fds);
  warpline_internal::JailPlan plan;
  plan.set_profile(jail::kStageProfile);
  jail::Jail jail(plan);
  // The files need the descriptor of a ruleset, and the limits come when nothing else is needed.
  if (!jail.CloseBeforeDriver().ok()) _exit(kNotJailedCode);
  Limit(RLIMIT_NOFILE, kFirstFd + fds.size());
  Limit(RLIMIT_FSIZE, limits.file_bytes);
  // At the first the process hears of it, and at the second it is killed.
  Limit(RLIMIT_CPU, limits.cpu_seconds, 1);
  Limit(RLIMIT_AS, limits.memory_bytes);
  if (!jail.CloseBeforeTenants().ok()) _exit(kNotJailedCode);
  std::set_new_handler([] { _exit(kMemoryCode); });
  std::vector<int> own;
  for (size_t i = 0; i < fds.size(); ++i) own.push_back(kFirstFd + static_cast<int>(i));
  // No destructor and no exit handler of the parent's shall run.
  _exit(CodeOf(body(own)));
}

StageEnd OfExit(const siginfo_t& info, bool late, const StageLimits& limits) {
  using Kind = StageEnd::Kind;
  const bool by_signal = info.si_code != CLD_EXITED;
  const int value = info.si_status;
  if (!by_signal && value == kDoneCode) return {Kind::kDone, "", {}};
  if (!by_signal && value == kRefusedCode) return {Kind::kRefused, "", {}};
  if (!by_signal && value == kNoPtxCode) return {Kind::kNoPtx, "", {}};
  if (!by_signal && value == kNotJailedCode) return {Kind::kNotJailed, "has no jail", {}};
  if (!by_signal && value == kMemoryCode) {
    return {Kind::kLimit, absl::StrCat("takes more than ", limits.memory_bytes >> 20, " MiB"), {}};
  }
  if (by_signal && value == SIGXCPU) {
    return {Kind::kLimit,
            absl::StrCat("takes more than ", limits.cpu_seconds, " s of a processor"),
            {}};
  }
  if (by_signal && value == SIGXFSZ) {
    return {Kind::kLimit, absl::StrCat("writes more than ", limits.file_bytes >> 20, " MiB"), {}};
  }
  if (late) {
    return {
        Kind::kLimit, absl::StrCat("takes longer than ", absl::FormatDuration(limits.wall)), {}};
  }
  return {Kind::kCrashed,
          by_signal ? absl::StrCat("was ended by signal ", value)
                    : absl::StrCat("ended with exit code ", value),
          {}};
}

}  // namespace

StageProcess::StageProcess(pid_t pid, UniqueFd exit, const StageLimits& limits)
    : pid_(pid), exit_(std::move(exit)), limits_(limits), started_(SteadyNow()) {}

absl::StatusOr<std::unique_ptr<StageProcess>> StageProcess::Start(const StageBody& body,
                                                                  const StageLimits& limits,
                                                                  const std::vector<int>& fds) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return absl::ResourceExhaustedError(absl::StrCat("no process, error ", errno));
  if (pid == 0) RunStage(body, limits, fds, parent);
  UniqueFd exit(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!exit.valid()) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return absl::ResourceExhaustedError(absl::StrCat("no pidfd, error ", errno));
  }
  return std::unique_ptr<StageProcess>(new StageProcess(pid, std::move(exit), limits));
}

StageProcess::~StageProcess() {
  if (!ended_) End();
}

StageEnd StageProcess::End() {
  ended_ = true;
  pollfd entry = {exit_.get(), POLLIN, 0};
  const bool late = poll(&entry, 1, 0) == 0;
  if (late) syscall(SYS_pidfd_send_signal, exit_.get(), SIGKILL, nullptr, 0);
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
  StageEnd end = OfExit(info, late, limits_);
  end.took = SteadyNow() - started_;
  return end;
}

}  // namespace warpline::compiler
