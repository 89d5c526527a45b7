#include "tools/cli/keep.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/lease/lease_key.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

warpline_internal::LeaseReply Granted() {
  warpline_internal::LeaseReply granted;
  granted.set_token("token");
  granted.set_renew_ms(1000u * 3600 * 100);
  return granted;
}

// Listens at a port where connections are taken and nothing is answered.
class SilentServer {
 public:
  SilentServer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    endpoint_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }

  const std::string& endpoint() const { return endpoint_; }
  // Waits for one.
  UniqueFd Connection() const { return UniqueFd(accept(listener_.get(), nullptr, nullptr)); }

 private:
  const UniqueFd listener_;
  std::string endpoint_;
};

// Becomes `warpline keep-lease` with what StartKeeping() gives it.
[[noreturn]] void Keep(const std::string& endpoint, const CommandLine& line, int ready) {
  const std::string bytes = Granted().SerializeAsString();
  const UniqueFd grant(memfd_create("grant", 0));
  if (pwrite(grant.get(), bytes.data(), bytes.size(), 0) < 0) _exit(1);
  // None of them is one of the numbers that are written over.
  const int high_grant = fcntl(grant.get(), F_DUPFD, 50);
  const int high_ready = fcntl(ready, F_DUPFD, 50);
  dup2(high_grant, 3);
  dup2(high_grant, 4);
  dup2(high_ready, 5);
  close(high_grant);
  close(high_ready);
  _exit(KeepLease(line, endpoint));
}

TEST(KeepTest, TakesOverBeforeItRenewsAndRenewsAtOnce) {
  const SilentServer server;
  CommandLine line;
  line.rest = ProcessFamily::Of(getppid()).Text();
  setenv(kLeaseKeyVariable, LeaseKey::New(server.endpoint(), "").text().c_str(), 1);
  unsetenv("WARPLINE_TOKEN_FILE");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd theirs(ends[0]);
  UniqueFd ours(ends[1]);
  const pid_t child = fork();
  if (child == 0) Keep(server.endpoint(), line, ours.get());
  ours.Reset(-1);
  const UniqueFd renewal = server.Connection();
  EXPECT_TRUE(renewal.valid());
  pollfd ready = {theirs.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 1);
  EXPECT_TRUE((ready.revents & POLLIN) != 0);
  // It does not keep the folder in use in which the command ran.
  EXPECT_EQ(std::filesystem::read_symlink(absl::StrCat("/proc/", child, "/cwd")), "/");
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(KeepTest, WithoutDescriptorsTheCallerKeepsTheLease) {
  // If a process were started all the same, it would be this program.
  setenv("GTEST_FILTER", "none", 1);
  const auto lease = Lease::Resume("127.0.0.1:1", Granted());
  auto keeper = TokenKeeper::Create("127.0.0.1:1", "token");
  ASSERT_TRUE(keeper.ok()) << keeper.status();
  const UniqueFd next(dup(STDERR_FILENO));
  rlimit former;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &former), 0);
  // There is room for the grant and the pipe, and not for copies of both.
  const rlimit few = {static_cast<rlim_t>(next.get()) + 5, former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto process = StartKeeping(*lease, "127.0.0.1:1", "token", {}, keeper->get());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &former), 0);
  EXPECT_EQ(process.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(process.status().message(), "Too many open files"))
      << process.status();
}

}  // namespace
}  // namespace warpline::cli
