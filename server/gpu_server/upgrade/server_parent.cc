#include "server/gpu_server/upgrade/server_parent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/ignored_signal.h"
#include "common/log/log.h"
#include "common/packets/packet_socket.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "server/hostlink/process/process_roles.h"

namespace warpline::server {

using warpline_internal::KeptThing;
using warpline_internal::PassedOn;
using warpline_internal::ServerReady;
using warpline_internal::ToParent;
using warpline_internal::ToServer;
using warpline_internal::UpgradeOrder;

namespace {

// More than any server has.
constexpr size_t kMostThings = size_t{1} << 16;
constexpr int kMostDoublings = 5;
// For a server to end that does not listen any more.
constexpr absl::Duration kLastMoments = absl::Seconds(5);

// Returns the server's program in a folder, such as an unpacked bundle; otherwise the path itself.
std::string ServerProgramAt(const std::string& path) {
  const char* const name = SpecOf(ProcessRole::kServer).program;
  for (const std::string& inside :
       {absl::StrCat(path, "/bin/", name), absl::StrCat(path, "/", name)}) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(inside, ignored)) return inside;
  }
  return path;
}

// A server that reads nothing must not hold up its parent for good.
absl::Status LimitSends(int socket, absl::Duration limit) {
  const timeval most = absl::ToTimeval(limit);
  if (setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, "setsockopt");
}

std::vector<int> Numbers(const std::vector<UniqueFd>& fds) {
  std::vector<int> numbers;
  for (const UniqueFd& fd : fds) numbers.push_back(fd.get());
  return numbers;
}

}  // namespace

ServerParent::ServerParent(ServerParentOptions options)
    : options_(std::move(options)), running_(options_.program) {}

ServerParent::~ServerParent() = default;

int ServerParent::Run() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  for (const int number : {SIGINT, SIGHUP}) {
    if (!IsIgnoredSignal(number)) sigaddset(&set, number);
  }
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) {
    LogError("no descriptor for signals");
    return 1;
  }
  StartServer(running_, Phase::kStarting);
  while (!exit_code_.has_value()) {
    pollfd entries[] = {{signals_.get(), POLLIN, 0},
                        {server_.process == nullptr ? -1 : server_.process->exit_fd(), POLLIN, 0},
                        {server_.socket.get(), POLLIN, 0},
                        {check_.process == nullptr ? -1 : check_.process->exit_fd(), POLLIN, 0},
                        {check_.socket.get(), POLLIN, 0}};
    const absl::Duration left = deadline_ - SteadyNow();
    int timeout = -1;
    if (left < absl::Hours(1)) {
      timeout = static_cast<int>(
          absl::ToInt64Milliseconds(std::max(left + absl::Milliseconds(1), absl::ZeroDuration())));
    }
    if (poll(entries, std::size(entries), timeout) < 0 && errno != EINTR) return 1;
    // One thing at a time: each may change what the others mean. A program that has ended comes
    // first, since nothing may be handed to it any more.
    if (entries[0].revents != 0) {
      OnSignal();
    } else if (entries[1].revents != 0) {
      OnServerEnded();
    } else if (entries[4].revents != 0) {
      OnCheckSays();
    } else if (entries[3].revents != 0) {
      OnCheckEnded();
    } else if (entries[2].revents != 0) {
      OnServerSays();
    } else if (SteadyNow() >= deadline_) {
      OnDeadline();
    }
  }
  return *exit_code_;
}

absl::Status ServerParent::Start(const std::string& program, bool check, Program* to) {
  ChildOptions options;
  options.path = program;
  options.args = options_.args;
  if (check) options.args.push_back("--check_config");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    options.environment.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
  }
  options.environment.emplace_back(kServerParentVariable, "1");
  auto process = ChildProcess::Start(options, &to->socket);
  if (!process.ok()) return process.status();
  to->process = *std::move(process);
  return LimitSends(to->socket.get(), options_.trial_limit);
}

void ServerParent::StartServer(const std::string& program, Phase phase) {
  phase_ = phase;
  passed_on_ = false;
  server_why_.clear();
  deadline_ = phase == Phase::kTrial ? SteadyNow() + options_.trial_limit : absl::InfiniteFuture();
  const absl::Status started = Start(program, /*check=*/false, &server_);
  if (!started.ok()) {
    const std::string why(started.message());
    if (phase != Phase::kStarting) return StartAgain(why);
    LogError(why);
    exit_code_ = 1;
    return;
  }
  absl::Status told;
  for (const Thing& thing : kept_) {
    ToServer message;
    *message.mutable_kept() = thing.kept;
    told = SendPacket(server_.socket.get(), message, Numbers(thing.fds));
    if (!told.ok()) break;
  }
  if (told.ok()) {
    ToServer message;
    message.mutable_start()->set_upgrade(phase != Phase::kStarting);
    message.mutable_start()->set_rolled_back(phase == Phase::kRollback);
    told = SendPacket(server_.socket.get(), message, {});
  }
  // It is about to end, which then says more than this error.
  if (!told.ok()) deadline_ = SteadyNow() + kLastMoments;
}

void ServerParent::StartAgain(const std::string& why) {
  // Killed, and waited for.
  server_ = Program();
  if (phase_ == Phase::kTrial) return RollBack(why);
  if (++rollbacks_ > options_.most_rollbacks) {
    LogError("no server starts any more, and the sessions are lost: ", why);
    exit_code_ = 1;
    return;
  }
  LogError("the former server does not start again, and is tried once more: ", why);
  phase_ = Phase::kPausing;
  deadline_ = SteadyNow() + options_.first_pause * (1 << std::min(rollbacks_ - 1, kMostDoublings));
}

void ServerParent::RollBack(const std::string& why) {
  LogError("the upgrade to ", Quoted(order_.program()), " is rolled back: ", why);
  report_.set_rolled_back(true);
  report_.set_why(why);
  rollbacks_ = 0;
  StartServer(running_, Phase::kRollback);
}

void ServerParent::GoOn() {
  kept_.clear();
  phase_ = Phase::kServing;
  deadline_ = absl::InfiniteFuture();
  if (end_signal_ != 0) SendSignal(std::exchange(end_signal_, 0));
}

absl::Status ServerParent::Receive(Program* from, ToParent* message, std::vector<UniqueFd>* fds) {
  const absl::Status received = ReceivePacket(from->socket.get(), message, fds);
  if (received.ok() || absl::IsResourceExhausted(received)) return received;
  // A program that ends without having read everything is an error in front of its last words.
  if (std::exchange(from->failed, true)) from->socket.Reset(-1);
  return received;
}

void ServerParent::OnSignal() {
  signalfd_siginfo info = {};
  if (read(signals_.get(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return;
  const int number = static_cast<int>(info.ssi_signo);
  if (number == SIGHUP) {
    UpgradeOrder order;
    order.set_number("SIGHUP");
    return BeginUpgrade(order);
  }
  if (ending_ || end_signal_ != 0 || phase_ == Phase::kPausing) {
    if (ending_) return SendSignal(number);
    LogWarning("told to end at once, while no server has the sessions");
    exit_code_ = 1;
    return;
  }
  if (phase_ == Phase::kChecking) EndCheck("the server is told to end");
  if (phase_ == Phase::kStarting || phase_ == Phase::kServing) return SendSignal(number);
  LogInfo("told to end, which is done after the upgrade");
  end_signal_ = number;
}

void ServerParent::SendSignal(int signal) {
  ending_ = true;
  if (server_.process != nullptr) kill(server_.process->pid(), signal);
}

void ServerParent::OnServerSays() {
  ToParent message;
  std::vector<UniqueFd> fds;
  const absl::Status received = Receive(&server_, &message, &fds);
  if (absl::IsResourceExhausted(received)) incomplete_ = true;
  if (!received.ok()) return;
  switch (message.kind_case()) {
    case ToParent::kKeep:
      return OnKeep(&message, std::move(fds));
    case ToParent::kAsk:
      return BeginUpgrade(message.ask());
    case ToParent::kStay:
      if (phase_ != Phase::kPassingOn) return;
      LogWarning("the server stays as it is: ", message.stay().why());
      return GoOn();
    case ToParent::kPassedOn:
      return OnPassedOn(message.passed_on());
    case ToParent::kReady:
      return OnReady(message.ready());
    case ToParent::kFailed:
      server_why_ = message.failed().why();
      return;
    case ToParent::KIND_NOT_SET:
      return;
  }
}

void ServerParent::OnKeep(ToParent* message, std::vector<UniqueFd> fds) {
  if (phase_ != Phase::kPassingOn) return;
  if (kept_.size() >= kMostThings) {
    incomplete_ = true;
  } else {
    kept_.push_back({std::move(*message->mutable_keep()), std::move(fds)});
  }
}

void ServerParent::OnPassedOn(const PassedOn& passed) {
  if (phase_ != Phase::kPassingOn) return;
  if (incomplete_ || passed.things() != kept_.size()) {
    // It stays, and says so.
    return Refuse(order_.number(), "the parent has too few descriptors to keep the sessions");
  }
  passed_on_ = true;
  deadline_ = SteadyNow() + options_.trial_limit;
  ToServer message;
  message.mutable_kept_all();
  TellServer(message);
}

void ServerParent::OnReady(const ServerReady& ready) {
  const bool trial = phase_ == Phase::kTrial;
  if (!trial && phase_ != Phase::kRollback && phase_ != Phase::kStarting) return;
  ToServer message;
  message.mutable_committed();
  if (phase_ != Phase::kStarting) {
    report_.set_from_version(version_);
    report_.set_to_version(trial ? ready.version() : trial_version_);
    report_.set_sessions(ready.sessions());
    report_.set_pause_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(SteadyNow() - begun_)));
    *message.mutable_committed()->mutable_report() = report_;
  }
  // From the server's receipt on, clients change what was kept.
  const absl::Status told = SendPacket(server_.socket.get(), message, {});
  if (!told.ok()) {
    if (phase_ != Phase::kStarting) StartAgain(std::string(told.message()));
    return;
  }
  if (trial) {
    running_ = order_.program();
    LogInfo("upgraded from_version=", report_.from_version(), " to_version=", ready.version(),
            " sessions=", ready.sessions(), " pause_ms=", report_.pause_ms());
  } else if (phase_ == Phase::kRollback) {
    LogWarning("the former server goes on version=", ready.version(),
               " sessions=", ready.sessions(), " pause_ms=", report_.pause_ms());
  }
  version_ = ready.version();
  GoOn();
}

void ServerParent::OnServerEnded() {
  const auto exit = server_.process->TryReap();
  if (!exit.has_value()) return;
  // Its last words, and nothing of what it said that has an answer: it did not get that.
  while (server_.socket.valid()) {
    ToParent message;
    std::vector<UniqueFd> fds;
    if (!Receive(&server_, &message, &fds).ok()) continue;
    if (message.has_failed()) server_why_ = message.failed().why();
    if (message.has_keep()) OnKeep(&message, std::move(fds));
  }
  server_ = Program();
  switch (phase_) {
    case Phase::kStarting:
    case Phase::kServing:
    case Phase::kChecking:
      exit_code_ = exit->by_signal ? 128 + exit->value : exit->value;
      return;
    case Phase::kPassingOn:
      if (passed_on_) {
        LogInfo("starts program=", order_.program(), " kept=", kept_.size());
        return StartServer(order_.program(), Phase::kTrial);
      }
      return RollBack(
          absl::StrCat("the server ended while it passed on its sessions: ", exit->Describe()));
    case Phase::kTrial:
    case Phase::kRollback:
      return StartAgain(server_why_.empty() ? absl::StrCat("it ended with ", exit->Describe())
                                            : server_why_);
    case Phase::kPausing:
      return;
  }
}

void ServerParent::OnDeadline() {
  deadline_ = absl::InfiniteFuture();
  if (phase_ == Phase::kChecking) return EndCheck("its check of the flags does not end");
  // It has passed on everything, and does not end.
  if (phase_ == Phase::kPassingOn) return server_.process->Kill();
  if (phase_ == Phase::kTrial) {
    return StartAgain(absl::StrCat("it did not take over the sessions within ",
                                   absl::FormatDuration(options_.trial_limit)));
  }
  if (phase_ == Phase::kRollback) return StartAgain("it does not listen to its parent");
  if (phase_ == Phase::kPausing) StartServer(running_, Phase::kRollback);
}

// --- The check.

void ServerParent::BeginUpgrade(const UpgradeOrder& order) {
  if (phase_ == Phase::kStarting) return Refuse(order.number(), "the server is starting");
  if (phase_ != Phase::kServing) return Refuse(order.number(), "an upgrade is under way already");
  if (ending_) return Refuse(order.number(), "the server is told to end");
  order_ = order;
  if (order_.program().empty()) order_.set_program(running_);
  if (!absl::StartsWith(order_.program(), "/")) {
    return Refuse(order.number(), absl::StrCat(Quoted(order_.program()), " is no absolute path"));
  }
  order_.set_program(ServerProgramAt(order_.program()));
  report_.Clear();
  report_.set_number(order_.number());
  report_.set_from_version(version_);
  trial_version_.clear();
  check_why_.clear();
  const absl::Status started = Start(order_.program(), /*check=*/true, &check_);
  if (!started.ok()) return Refuse(order.number(), std::string(started.message()));
  LogInfo("an upgrade is asked for, and checks program=", order_.program());
  phase_ = Phase::kChecking;
  deadline_ = SteadyNow() + options_.check_limit;
}

void ServerParent::OnCheckSays() {
  ToParent message;
  std::vector<UniqueFd> fds;
  if (!Receive(&check_, &message, &fds).ok()) return;
  if (message.has_failed()) check_why_ = message.failed().why();
  if (message.has_ready()) trial_version_ = message.ready().version();
}

void ServerParent::OnCheckEnded() {
  const auto exit = check_.process->TryReap();
  if (!exit.has_value()) return;
  if (exit->by_signal || exit->value != 0) {
    return EndCheck(check_why_.empty()
                        ? absl::StrCat("with the server's flags it ends with ", exit->Describe())
                        : check_why_);
  }
  EndCheck(trial_version_.empty() ? "it is no server that takes over sessions" : "");
}

void ServerParent::EndCheck(const std::string& why) {
  check_ = Program();
  phase_ = Phase::kServing;
  deadline_ = absl::InfiniteFuture();
  if (!why.empty()) {
    return Refuse(order_.number(), absl::StrCat(Quoted(order_.program()), ": ", why));
  }
  phase_ = Phase::kPassingOn;
  begun_ = SteadyNow();
  incomplete_ = false;
  ToServer message;
  *message.mutable_pass_on() = order_;
  TellServer(message);
}

void ServerParent::Refuse(const std::string& number, const std::string& why) {
  LogWarning("no upgrade: ", why);
  ToServer message;
  message.mutable_refused()->set_number(number);
  message.mutable_refused()->set_why(why);
  TellServer(message);
}

void ServerParent::TellServer(const ToServer& message) {
  // A server that is gone is noticed by its descriptor.
  if (server_.socket.valid()) (void)SendPacket(server_.socket.get(), message, {});
}

}  // namespace warpline::server
