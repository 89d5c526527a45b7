#include "server/hostlink/process/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

using testing::HasSubstr;

ChildOptions Shell(const std::string& script) {
  return {.path = "/bin/sh", .args = {"-c", script}, .environment = {}};
}

// Returns the first packet that the child writes to descriptor 3.
std::string FirstPacket(const UniqueFd& socket) {
  char buffer[4096];
  const ssize_t n = recv(socket.get(), buffer, sizeof(buffer), 0);
  return n < 0 ? "" : std::string(buffer, static_cast<size_t>(n));
}

std::string OutputOf(const std::string& script) {
  UniqueFd socket;
  auto child = ChildProcess::Start(Shell("printf '%s' \"$(" + script + ")\" >&3"), &socket);
  EXPECT_TRUE(child.ok()) << child.status();
  return FirstPacket(socket);
}

TEST(ChildProcessTest, HasTheSocketAndNoOtherDescriptor) {
  const UniqueFd leaky(open("/dev/null", O_RDONLY));  // Not close-on-exec.
  // The numbers are tested one by one, because the shell would open a descriptor of its own to list
  // them.
  UniqueFd socket;
  auto child = ChildProcess::Start(
      Shell("open=; for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do "
            "[ -e /proc/$$/fd/$i ] && open=$open,$i; done; printf %s $open >&3"),
      &socket);
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(FirstPacket(socket), ",0,1,2,3");
}

TEST(ChildProcessTest, DumpsNoCoreAndGainsNoPrivileges) {
  EXPECT_EQ(OutputOf("ulimit -c"), "0");
  EXPECT_THAT(OutputOf("grep NoNewPrivs /proc/self/status"), HasSubstr("1"));
}

TEST(ChildProcessTest, BlocksNoSignals) {
  sigset_t all;
  sigset_t saved;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &saved);
  EXPECT_THAT(OutputOf("grep SigBlk /proc/self/status"), HasSubstr("0000000000000000"));
  pthread_sigmask(SIG_SETMASK, &saved, nullptr);
}

TEST(ChildProcessTest, ExitIsSeenOnThePidFdAndReaped) {
  UniqueFd socket;
  auto child = ChildProcess::Start(Shell("exit 7"), &socket);
  ASSERT_TRUE(child.ok()) << child.status();
  pollfd poll_fd = {(*child)->exit_fd(), POLLIN, 0};
  EXPECT_EQ(poll(&poll_fd, 1, 10000), 1);
  const auto exit = (*child)->TryReap();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->Describe(), "exit code 7");
  EXPECT_NE(kill((*child)->pid(), 0), 0);
}

TEST(ChildProcessTest, KilledChildEndsBySignal) {
  UniqueFd socket;
  auto child = ChildProcess::Start(Shell("sleep 100"), &socket);
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_FALSE((*child)->TryReap().has_value());
  (*child)->Kill();
  EXPECT_EQ((*child)->Reap().Describe(), "signal 9");
}

TEST(ChildProcessTest, DestructionLeavesNoProcess) {
  UniqueFd socket;
  pid_t pid;
  {
    auto child =
        ChildProcess::Start({.path = "/bin/sleep", .args = {"100"}, .environment = {}}, &socket);
    ASSERT_TRUE(child.ok()) << child.status();
    pid = (*child)->pid();
  }
  EXPECT_NE(kill(pid, 0), 0);
  EXPECT_EQ(FirstPacket(socket), "");  // End of stream: no process holds the other end.
}

TEST(ChildProcessTest, MissingProgramIsNotFound) {
  UniqueFd socket;
  EXPECT_EQ(
      ChildProcess::Start({.path = "/no/such/program", .args = {}, .environment = {}}, &socket)
          .status()
          .code(),
      absl::StatusCode::kNotFound);
}

TEST(ChildProcessTest, EnvironmentIsCleaned) {
  const char* entries[] = {"PATH=/bin",
                           "LC_ALL=C",
                           "CUDA_VISIBLE_DEVICES=1",
                           "CUDA_CACHE_PATH=/c",
                           "SECRET_KEY=x",
                           "LD_PRELOAD=/evil.so",
                           "WARPLINE_ENDPOINT=",
                           "WARPLINE_CREDENTIAL=secret",
                           "HOME=/root",
                           "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                           nullptr};
  const auto kept = ChildEnvironment(const_cast<char* const*>(entries));
  EXPECT_THAT(kept, testing::ElementsAre("PATH=/bin", "LC_ALL=C", "CUDA_DEVICE_ORDER=PCI_BUS_ID"));
}

TEST(ChildProcessTest, GivenVariablesReplaceInherited) {
  setenv("WARPLINE_TEST_VALUE", "old", 1);
  UniqueFd socket;
  ChildOptions options = Shell("printf '%s' \"$WARPLINE_TEST_VALUE\" >&3");
  options.environment = {{"WARPLINE_TEST_VALUE", "new"}};
  auto child = ChildProcess::Start(options, &socket);
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(FirstPacket(socket), "new");
}

}  // namespace
}  // namespace warpline
