#include "server/mps/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/plain_file.h"
#include "common/process_status.h"
#include "common/steady_time.h"
#include "common/unique_fd.h"

namespace warpline::mps {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(20);
constexpr absl::Duration kCommandTimeout = absl::Seconds(5);
constexpr absl::Duration kKillTimeout = absl::Seconds(5);
constexpr absl::Duration kServerTimeout = absl::Seconds(3);
constexpr size_t kMostWords = 300;
constexpr size_t kMostAnswer = 4096;

}  // namespace

Daemon::~Daemon() { Stop(); }

pid_t Daemon::Spawn(const char* argument, int input, int output) const {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // A log that is as large as its jail allows is no reason to end.
  signal(SIGXFSZ, SIG_IGN);
  // What it writes may have tenants' bytes in it, and is not for the server's log.
  const int null_fd = open("/dev/null", O_RDWR);
  const int out = open(absl::StrCat(options_.folder, "/log/output").c_str(),
                       O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  const int errors = out >= 0 ? out : null_fd;
  if (dup2(input >= 0 ? input : null_fd, 0) < 0 || dup2(output >= 0 ? output : errors, 1) < 0 ||
      dup2(errors, 2) < 0) {
    _exit(127);
  }
  setenv("CUDA_MPS_PIPE_DIRECTORY", absl::StrCat(options_.folder, "/pipe").c_str(), 1);
  setenv("CUDA_MPS_LOG_DIRECTORY", absl::StrCat(options_.folder, "/log").c_str(), 1);
  execl(options_.control.c_str(), options_.control.c_str(), argument, nullptr);
  _exit(127);
}

absl::Status Daemon::Start() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    return absl::ErrnoToStatus(errno, "PR_SET_CHILD_SUBREAPER");
  }
  for (const char* const name : {"/pipe", "/log"}) {
    if (mkdir(absl::StrCat(options_.folder, name).c_str(), 0700) != 0 && errno != EEXIST) {
      return absl::ErrnoToStatus(errno, absl::StrCat(options_.folder, name));
    }
  }
  const pid_t daemon = Spawn("-f", -1, -1);
  if (daemon < 0) return absl::ErrnoToStatus(errno, "fork");
  daemon_ = daemon;
  const absl::Time deadline = SteadyNow() + options_.start_timeout;
  const std::string socket = absl::StrCat(options_.folder, "/pipe/control");
  while (true) {
    if (Ended()) return absl::UnavailableError(absl::StrCat("it has ended: ", LastWords()));
    if (access(socket.c_str(), F_OK) == 0 && Tell("get_server_list").has_value()) {
      return absl::OkStatus();
    }
    if (SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("it does not answer: ", LastWords()));
    }
    absl::SleepFor(kLookAgain);
  }
}

pid_t Daemon::StartServer(uid_t user) {
  if (!Tell(absl::StrCat("start_server -uid ", user)).has_value()) return 0;
  const absl::Time deadline = SteadyNow() + kServerTimeout;
  while (SteadyNow() < deadline) {
    const auto servers = Tell("get_server_list");
    int server = 0;
    if (servers.has_value() && std::sscanf(servers->c_str(), "%d", &server) == 1) return server;
    absl::SleepFor(kLookAgain);
  }
  return 0;
}

std::optional<std::string> Daemon::Tell(const std::string& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const UniqueFd input(ends[0]);
  UniqueFd writes(ends[1]);
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const UniqueFd reads(ends[0]);
  UniqueFd output(ends[1]);
  const pid_t client = Spawn(nullptr, input.get(), output.get());
  output = UniqueFd();
  const std::string line = command + "\n";
  const bool written =
      write(writes.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
  writes = UniqueFd();
  if (client < 0) return std::nullopt;
  int status = 0;
  const absl::Time deadline = SteadyNow() + kCommandTimeout;
  while (waitpid(client, &status, WNOHANG) == 0) {
    if (SteadyNow() >= deadline) {
      kill(client, SIGKILL);
      waitpid(client, &status, 0);
      return std::nullopt;
    }
    absl::SleepFor(kLookAgain);
  }
  if (!written || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  // Answers fit into the pipe, and whoever else has its end is not waited for.
  fcntl(reads.get(), F_SETFL, O_NONBLOCK);
  std::string answer(kMostAnswer, '\0');
  answer.resize(
      static_cast<size_t>(std::max<ssize_t>(0, read(reads.get(), answer.data(), answer.size()))));
  return answer;
}

bool Daemon::ReapEnded() {
  while (true) {
    const pid_t ended = waitpid(-1, nullptr, WNOHANG);
    if (ended <= 0) return ended == 0;
    if (ended == daemon_) daemon_ = 0;
  }
}

bool Daemon::Ended() {
  ReapEnded();
  return daemon_ == 0;
}

bool Daemon::WaitUntilEnded(absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  while (!Ended()) {
    if (SteadyNow() >= deadline) return false;
    absl::SleepFor(kLookAgain);
  }
  return true;
}

// What the daemon has started becomes a child of this process when the daemon is gone.
void Daemon::KillChildren() {
  for (const pid_t process : AllProcesses()) {
    const auto status = ReadProcessStatus(process);
    if (status.has_value() && status->parent == getpid()) kill(process, SIGKILL);
  }
}

void Daemon::Stop() {
  if (!Ended()) {
    const std::string quit = absl::StrCat("quit -t ", absl::ToInt64Seconds(options_.quit_timeout));
    if (Tell(quit).has_value()) WaitUntilEnded(options_.quit_timeout);
  }
  const absl::Time deadline = SteadyNow() + kKillTimeout;
  while (ReapEnded() && SteadyNow() < deadline) {
    KillChildren();
    absl::SleepFor(kLookAgain);
  }
  std::error_code error;
  for (std::filesystem::directory_iterator entry(options_.folder, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    std::filesystem::remove_all(entry->path(), ignored);
  }
}

std::string Daemon::LastWords() const {
  const auto file = PlainFile::Open(absl::StrCat(options_.folder, "/log/output"));
  if (!file.ok()) return "";
  return file->Read(file->size() <= kMostWords ? 0 : file->size() - kMostWords, kMostWords);
}

}  // namespace warpline::mps
