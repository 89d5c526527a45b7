#include "client_stub/session/connection/local_server.h"

#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client_stub/session/testing/other_user.h"
#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::stub {
namespace {

constexpr char kHere[] = "127.0.0.1:1";  // Where nobody listens.

bool Takes(const std::string& endpoint, uint32_t uid) {
  const absl::Status status = LocalServer(endpoint).Check("a socket", uid);
  EXPECT_TRUE(status.ok() || absl::IsPermissionDenied(status)) << status;
  return status.ok();
}

class LocalServerTest : public ::testing::Test {
 protected:
  LocalServerTest() {
    // Others make sockets there, too.
    if (chmod(folder_.path().c_str(), 0777) != 0) abort();
  }

  warpline::testing::TempFolder folder_;
  const std::string path_ = folder_.path() + "/s";
};

TEST_F(LocalServerTest, OwnUserAndRootAreTakenAndNobodyElse) {
  EXPECT_TRUE(Takes(kHere, geteuid()));
  EXPECT_TRUE(Takes(kHere, 0));
  EXPECT_FALSE(Takes(kHere, geteuid() + 1));
}

TEST_F(LocalServerTest, NobodyIsTakenForAServerOfAnotherHost) {
  for (const char* const endpoint : {"192.0.2.1:14000", "[2001:db8::1]:14000", "nonsense", ""}) {
    EXPECT_FALSE(Takes(endpoint, geteuid())) << endpoint;
    EXPECT_FALSE(Takes(endpoint, 0)) << endpoint;
  }
  EXPECT_TRUE(Takes("[::1]:1", geteuid()) || access("/proc/net/if_inet6", F_OK) != 0);
}

TEST_F(LocalServerTest, WhoListensAtTheEndpointIsTaken) {
  if (!CanBeOthers()) GTEST_SKIP() << "this process cannot be another user";
  const UniqueFd tcp = ListenAtPort(kOtherUser, 1, 0);
  const UniqueFd unix = ListenAtPath(kOtherUser, path_);
  ASSERT_TRUE(tcp.valid() && unix.valid());
  const std::string at_port = absl::StrCat("127.0.0.1:", PortOf(tcp));
  const std::string at_path = "unix:" + path_;
  for (const std::string& endpoint : {at_port, at_path}) {
    EXPECT_TRUE(Takes(endpoint, kOtherUser)) << endpoint;
    EXPECT_FALSE(Takes(endpoint, kOtherUser + 1)) << endpoint;
  }
  EXPECT_FALSE(Takes(kHere, kOtherUser));
  // Whoever asks.
  const AsUser as(kOtherUser + 1);
  EXPECT_TRUE(Takes(at_port, kOtherUser));
  EXPECT_FALSE(Takes(kHere, kOtherUser));
}

TEST_F(LocalServerTest, WhereUsersShareAPortItIsNeither) {
  if (!CanBeOthers()) GTEST_SKIP() << "this process cannot be another user";
  const UniqueFd first = ListenAtPort(kOtherUser, 1, 0);
  ASSERT_TRUE(first.valid());
  const UniqueFd second = ListenAtPort(kOtherUser + 1, 2, PortOf(first));
  ASSERT_TRUE(second.valid());
  const std::string endpoint = absl::StrCat("127.0.0.1:", PortOf(first));
  EXPECT_FALSE(Takes(endpoint, kOtherUser));
  EXPECT_FALSE(Takes(endpoint, kOtherUser + 1));
}

TEST_F(LocalServerTest, APathMustBeASocketOfWhoListensThere) {
  const LocalServer server(kHere);
  const uint32_t own = geteuid();
  const UniqueFd listener = ListenAtPath(own, path_);
  ASSERT_TRUE(listener.valid());
  EXPECT_TRUE(server.CheckSocket(path_, own).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(server.CheckSocket(path_.substr(1), own)));
  EXPECT_TRUE(absl::IsPermissionDenied(server.CheckSocket(path_ + "x", own)));
  EXPECT_TRUE(absl::IsPermissionDenied(server.CheckSocket("/dev/null", own)));
  EXPECT_TRUE(absl::IsPermissionDenied(server.CheckSocket(folder_.path(), own)));
  const std::string link = folder_.path() + "/link";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(server.CheckSocket(link, own)));
  if (chown(path_.c_str(), kOtherUser, static_cast<gid_t>(-1)) != 0) return;  // Not root.
  EXPECT_TRUE(absl::IsPermissionDenied(server.CheckSocket(path_, own)));
}

// In a user namespace whose users are not mapped everybody has one number, this process included.
TEST_F(LocalServerTest, WhoCannotBeToldFromOthersIsNotTaken) {
  constexpr int kTold = 0, kTaken = 1, kNoNamespace = 2;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0) _exit(kNoNamespace);
    const absl::Status status = LocalServer(kHere).Check("a socket", geteuid());
    _exit(absl::StrContains(status.message(), "cannot be told") ? kTold : kTaken);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNamespace) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), kTold);
}

}  // namespace
}  // namespace warpline::stub
