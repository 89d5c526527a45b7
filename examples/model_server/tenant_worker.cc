#include "examples/model_server/tenant_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace model_server {
namespace {

// How often a wait asks whether its caller is still there.
constexpr int kAskEveryMs = 50;

std::vector<char*> Words(const std::vector<std::string>& texts) {
  std::vector<char*> words;
  for (const std::string& text : texts) words.push_back(const_cast<char*>(text.c_str()));
  words.push_back(nullptr);
  return words;
}

absl::Status Failed(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

}  // namespace

TenantWorker::TenantWorker(Options options) : options_(std::move(options)) {}

TenantWorker::~TenantWorker() { Stop(); }

absl::Status TenantWorker::Generate(const std::vector<int>& prompt, int count,
                                    const std::function<bool(int)>& take,
                                    const std::function<bool()>& is_gone) {
  std::unique_lock<std::mutex> lock(mu_);
  if (calls_ >= options_.most_calls) {
    return absl::ResourceExhaustedError(
        absl::StrCat(calls_, " calls of this tenant are under way: try again later"));
  }
  ++calls_;
  while (is_taken_ && !is_gone()) turn_ends_.wait_for(lock, std::chrono::milliseconds(kAskEveryMs));
  absl::Status status = absl::CancelledError("the client has gone away");
  if (!is_taken_ && !is_gone()) {
    is_taken_ = true;
    lock.unlock();
    status = GenerateInTurn(prompt, count, take, is_gone);
    lock.lock();
    is_taken_ = false;
    turn_ends_.notify_all();
  }
  --calls_;
  return status;
}

absl::Status TenantWorker::GenerateInTurn(const std::vector<int>& prompt, int count,
                                          const std::function<bool(int)>& take,
                                          const std::function<bool()>& is_gone) {
  if (auto status = Start(is_gone); !status.ok()) return status;
  std::string line = "start";
  for (const int token : prompt) absl::StrAppend(&line, " ", token);
  const auto started = Ask(line);
  if (!started.ok()) return started.status();
  for (int i = 0; i < count; ++i) {
    if (is_gone()) return absl::CancelledError("the client has gone away");
    // The worker computes a token when it is asked for one. So nothing goes on behind a call that
    // has ended.
    const auto answer = Ask("next");
    if (!answer.ok()) return answer.status();
    int token;
    if (!absl::SimpleAtoi(*answer, &token)) {
      Stop();
      return absl::UnavailableError(absl::StrCat("the session was lost: ", *answer));
    }
    if (!take(token)) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status TenantWorker::Start(const std::function<bool()>& is_gone) {
  if (process_ > 0 && waitpid(process_, nullptr, WNOHANG) == 0) return absl::OkStatus();
  process_ = -1;  // It has ended, if there was one.
  Stop();
  int input[2], output[2];
  if (pipe2(input, O_CLOEXEC) != 0) return Failed("cannot make a pipe", errno);
  if (pipe2(output, O_CLOEXEC) != 0) {
    const int error = errno;
    close(input[0]);
    close(input[1]);
    return Failed("cannot make a pipe", error);
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, output[1], STDOUT_FILENO);
  // Connections of other tenants' clients are none of its business.
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  // The server keeps its signals for itself; the worker has them as a program does.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, piped;
  sigemptyset(&none);
  sigemptyset(&piped);
  sigaddset(&piped, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &piped);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t process = -1;
  const int error =
      posix_spawnp(&process, options_.command[0].c_str(), &files, &attributes,
                   Words(options_.command).data(), Words(options_.environment).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  close(input[0]);
  close(output[1]);
  to_ = input[1];
  from_ = output[0];
  if (error != 0) {
    Stop();
    return Failed(absl::StrCat("cannot start ", options_.command[0]), error);
  }
  process_ = process;
  const auto line = ReadLine(is_gone);
  if (line.ok() && *line == "ready") return absl::OkStatus();
  Stop();
  if (line.status().code() == absl::StatusCode::kCancelled) return line.status();
  return absl::UnavailableError("there is no session on a GPU server now: try again later");
}

void TenantWorker::Stop() {
  for (int* const fd : {&to_, &from_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  unread_.clear();
  if (process_ <= 0) return;
  // `warpline run` passes it on, and gives the lease back.
  kill(process_, SIGTERM);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

absl::StatusOr<std::string> TenantWorker::Ask(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t count = write(to_, text.data() + sent, text.size() - sent);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;  // It has ended, and the answer says why.
    sent += count;
  }
  auto answer = ReadLine([] { return false; });
  if (answer.ok() && !absl::StrContains(*answer, "FAILED")) return answer;
  Stop();
  return absl::UnavailableError(
      absl::StrCat("the session was lost, and the next call starts another one",
                   answer.ok() ? absl::StrCat(" (", *answer, ")") : ""));
}

absl::StatusOr<std::string> TenantWorker::ReadLine(const std::function<bool()>& is_gone) {
  for (;;) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (is_gone()) return absl::CancelledError("the client has gone away");
    pollfd ready = {from_, POLLIN, 0};
    if (poll(&ready, 1, kAskEveryMs) <= 0) continue;
    char bytes[4096];
    const ssize_t count = read(from_, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return absl::UnavailableError("the worker has ended");
    unread_.append(bytes, count);
  }
}

}  // namespace model_server
