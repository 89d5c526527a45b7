// The supervisor as its own process, and the server's end of it.
#include "server/gpu_server/children/launcher/supervised_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/packets/packet_socket.h"
#include "common/process_status.h"
#include "gtest/gtest.h"
#include "proto/supervisor.pb.h"

namespace warpline::supervisor {
namespace {

using warpline_internal::FromSupervisor;
using warpline_internal::ToSupervisor;

ChildOptions Program() {
  return {.path = absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                               "/server/supervisor/warpline-supervisor"),
          .args = {},
          .environment = {}};
}

ChildOptions Shell(const std::string& script) {
  return {.path = "/bin/sh", .args = {"-c", script}, .environment = {}};
}

// The first packet that the process writes to descriptor 3; empty at the end.
std::string FirstPacket(const UniqueFd& socket) {
  char buffer[4096];
  const ssize_t n = recv(socket.get(), buffer, sizeof(buffer), 0);
  return n < 0 ? "" : std::string(buffer, static_cast<size_t>(n));
}

// 0 for one that is no more.
pid_t ParentOf(pid_t pid) {
  const auto status = ReadProcessStatus(pid);
  return status.has_value() ? status->parent : 0;
}

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    SetLogLevel(LogLevel::kError);
    auto launcher = SupervisedLauncher::Create(Program());
    EXPECT_TRUE(launcher.ok()) << launcher.status();
    launcher_ = *std::move(launcher);
  }

  std::unique_ptr<RunningProcess> Launch(const ChildOptions& options) {
    auto process = launcher_->Launch(ProcessRole::kWorker, options, &socket_);
    EXPECT_TRUE(process.ok()) << process.status();
    return process.ok() ? *std::move(process) : nullptr;
  }

  std::unique_ptr<SupervisedLauncher> launcher_;
  UniqueFd socket_;
};

TEST_F(SupervisorTest, IsTheParentOfWhatItStarts) {
  const auto process = Launch(Shell("exec sleep 100"));
  ASSERT_NE(process, nullptr);
  EXPECT_EQ(ParentOf(process->pid()), launcher_->supervisor_pid());
  EXPECT_EQ(ParentOf(launcher_->supervisor_pid()), getpid());
}

TEST_F(SupervisorTest, ProcessHasItsSocketAndNoOtherDescriptor) {
  const UniqueFd leaky(open("/dev/null", O_RDONLY));  // Not close-on-exec.
  const auto other = Launch(Shell("sleep 100"));
  UniqueFd others = std::move(socket_);
  const auto process =
      Launch(Shell("open=; for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do "
                   "[ -e /proc/$$/fd/$i ] && open=$open,$i; done; printf %s $open >&3"));
  ASSERT_NE(process, nullptr);
  EXPECT_EQ(FirstPacket(socket_), ",0,1,2,3");
}

TEST_F(SupervisorTest, ArgumentsAndEnvironmentArrive) {
  ChildOptions options = Shell("printf '%s %s' \"$0\" \"$WARPLINE_TEST_VALUE\" >&3");
  options.args.emplace_back("first");
  options.environment = {{"WARPLINE_TEST_VALUE", "second"}};
  const auto process = Launch(options);
  ASSERT_NE(process, nullptr);
  EXPECT_EQ(FirstPacket(socket_), "first second");
}

TEST_F(SupervisorTest, SaysHowProcessesEnd) {
  const auto exits = Launch(Shell("exit 7"));
  const auto sleeps = Launch(Shell("sleep 100"));
  ASSERT_TRUE(exits != nullptr && sleeps != nullptr);
  pollfd entry = {exits->exit_fd(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 10000), 1);
  const auto exit = exits->TryReap();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->Describe(), "exit code 7");
  EXPECT_EQ(exits->Reap().Describe(), "exit code 7");
  EXPECT_FALSE(sleeps->TryReap().has_value());
  sleeps->Kill();
  EXPECT_EQ(sleeps->Reap().Describe(), "signal 9");
  // It is gone, not just dead.
  EXPECT_EQ(ParentOf(sleeps->pid()), 0);
}

TEST_F(SupervisorTest, DestructionLeavesNoProcess) {
  auto process = Launch(Shell("exec sleep 100"));
  ASSERT_NE(process, nullptr);
  const pid_t pid = process->pid();
  process.reset();
  EXPECT_NE(kill(pid, 0), 0);
  EXPECT_EQ(FirstPacket(socket_), "");
}

TEST_F(SupervisorTest, MissingProgramIsNotFound) {
  const auto process = launcher_->Launch(
      ProcessRole::kKeeper, {.path = "/no/such/program", .args = {}, .environment = {}}, &socket_);
  EXPECT_TRUE(absl::IsNotFound(process.status())) << process.status();
}

TEST_F(SupervisorTest, StartsNothingButItsRoles) {
  for (const ProcessRole role : {ProcessRole::kServer, ProcessRole::kSupervisor}) {
    const auto process = launcher_->Launch(role, Shell("exit 0"), &socket_);
    EXPECT_TRUE(absl::IsInvalidArgument(process.status())) << process.status();
  }
}

TEST_F(SupervisorTest, ManyThreadsMayAsk) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] {
      UniqueFd socket;
      const auto process =
          launcher_->Launch(ProcessRole::kWorker, Shell(absl::StrCat("exit ", i)), &socket);
      ASSERT_TRUE(process.ok()) << process.status();
      EXPECT_EQ((*process)->Reap().value, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SupervisorTest, ProcessesEndWithTheirSupervisorAndAnotherFollows) {
  const auto process = Launch(Shell("exec sleep 100"));
  ASSERT_NE(process, nullptr);
  const pid_t former = launcher_->supervisor_pid();
  kill(former, SIGKILL);
  EXPECT_EQ(process->Reap().Describe(), "signal 9");
  EXPECT_EQ(FirstPacket(socket_), "");
  const auto next = Launch(Shell("exit 3"));
  ASSERT_NE(next, nullptr);
  EXPECT_NE(launcher_->supervisor_pid(), former);
  EXPECT_EQ(next->Reap().Describe(), "exit code 3");
}

TEST_F(SupervisorTest, EndsWithTheServersSocket) {
  UniqueFd server;
  auto supervisor = ChildProcess::Start(Program(), &server);
  ASSERT_TRUE(supervisor.ok()) << supervisor.status();
  server = UniqueFd();
  EXPECT_EQ((*supervisor)->Reap().Describe(), "exit code 0");
}

TEST_F(SupervisorTest, PassesOverWhatItDoesNotKnow) {
  UniqueFd server;
  auto supervisor = ChildProcess::Start(Program(), &server);
  ASSERT_TRUE(supervisor.ok()) << supervisor.status();
  ASSERT_TRUE(SendPacket(server.get(), ToSupervisor(), {}).ok());
  ToSupervisor message;
  message.mutable_spawn()->set_role("worker");
  ASSERT_TRUE(SendPacket(server.get(), message, {}).ok());  // Without its descriptors.
  message.mutable_spawn()->set_path("/bin/true");
  auto own = PacketSocketPair();
  auto told = PacketSocketPair();
  ASSERT_TRUE(own.ok() && told.ok());
  const int fds[] = {own->second.get(), told->second.get()};
  ASSERT_TRUE(SendPacket(server.get(), message, fds).ok());
  FromSupervisor answer;
  ASSERT_TRUE(ReceivePacket(told->first.get(), &answer, nullptr).ok());
  EXPECT_GT(answer.spawned().pid(), 0);
  ASSERT_TRUE(ReceivePacket(told->first.get(), &answer, nullptr).ok());
  EXPECT_EQ(answer.exited().value(), 0);
}

}  // namespace
}  // namespace warpline::supervisor
