// Whether the session follows a server that says where else it listens, truly or not.
#include "client_stub/session/opening/other_address.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client_stub/session/testing/other_user.h"
#include "common/log/log_capture.h"
#include "common/process_identity.h"
#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"
#include "transport/unix_connect.h"

namespace warpline::stub {
namespace {

class OtherAddressTest : public ::testing::Test {
 protected:
  OtherAddressTest() {
    if (chmod(folder_.path().c_str(), 0777) != 0) abort();
  }

  Welcomed WelcomeOf(uint32_t uid) const {
    Welcomed welcomed;
    welcomed.boot_id = BootId();
    welcomed.user_namespace = UserNamespace();
    welcomed.server_uid = uid;
    welcomed.unix_socket = path_;
    return welcomed;
  }

  warpline::testing::TempFolder folder_;
  const std::string path_ = folder_.path() + "/s";
};

TEST_F(OtherAddressTest, AServerOfThisUserIsFollowedFromLoopbackOnly) {
  const UniqueFd listener = ListenAtPath(geteuid(), path_);
  ASSERT_TRUE(listener.valid());
  const auto other = OtherAddress(WelcomeOf(geteuid()), "127.0.0.1:1");
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->endpoint, "unix:" + path_);
  EXPECT_EQ(other->listener_uid, geteuid());
  EXPECT_FALSE(OtherAddress(WelcomeOf(geteuid()), "192.0.2.1:1").has_value());
}

TEST_F(OtherAddressTest, AServerThatNamesAStrangersSocketIsNotFollowed) {
  if (!CanBeOthers()) GTEST_SKIP() << "this process cannot be another user";
  const UniqueFd listener = ListenAtPath(kOtherUser, path_);
  ASSERT_TRUE(listener.valid());
  LogCapture log;
  EXPECT_FALSE(OtherAddress(WelcomeOf(kOtherUser), "127.0.0.1:1").has_value());
  EXPECT_EQ(log.LinesWith("the session stays where it is: who listens at").size(), 1u);
  // The same user at both ends is what a server of a user of its own looks like.
  const UniqueFd endpoint = ListenAtPort(kOtherUser, 1, 0);
  ASSERT_TRUE(endpoint.valid());
  EXPECT_TRUE(OtherAddress(WelcomeOf(kOtherUser), absl::StrCat("127.0.0.1:", PortOf(endpoint)))
                  .has_value());
}

// A socket that user `uid` made at an abstract name.
UniqueFd ListenAtName(uint32_t uid, const std::string& name) {
  const AsUser as(uid);
  auto socket = ListenAbstract(name, 4);
  return socket.ok() ? *std::move(socket) : UniqueFd();
}

TEST_F(OtherAddressTest, SharedMemoryComesFirstWhereItsServerIsThisUsers) {
  const UniqueFd unix_listener = ListenAtPath(geteuid(), path_);
  Welcomed welcomed = WelcomeOf(geteuid());
  welcomed.shm_name = absl::StrCat("warpline-test-", getpid());
  // Nobody is there yet.
  EXPECT_EQ(OtherAddress(welcomed, "127.0.0.1:1")->endpoint, "unix:" + path_);
  const UniqueFd listener = ListenAtName(geteuid(), welcomed.shm_name);
  ASSERT_TRUE(listener.valid());
  for (const std::string& endpoint : {std::string("127.0.0.1:1"), "unix:" + path_}) {
    const auto other = OtherAddress(welcomed, endpoint);
    ASSERT_TRUE(other.has_value()) << endpoint;
    EXPECT_EQ(other->endpoint, "shm://" + welcomed.shm_name);
    EXPECT_EQ(other->listener_uid, geteuid());
  }
  EXPECT_FALSE(OtherAddress(welcomed, "192.0.2.1:1").has_value());
  welcomed.boot_id = "another host";
  EXPECT_FALSE(OtherAddress(welcomed, "127.0.0.1:1").has_value());
}

TEST_F(OtherAddressTest, AServerAtALoopbackAddressIsReachedAtOnce) {
  EXPECT_FALSE(DirectAddress("127.0.0.1:24699").has_value());
  const UniqueFd listener = ListenAtName(geteuid(), "warpline@127.0.0.1:24699");
  ASSERT_TRUE(listener.valid());
  for (const char* endpoint : {"127.0.0.1:24699", "localhost:24699"}) {
    const auto direct = DirectAddress(endpoint);
    ASSERT_TRUE(direct.has_value()) << endpoint;
    EXPECT_EQ(direct->endpoint, "shm://warpline@127.0.0.1:24699");
    EXPECT_EQ(direct->listener_uid, geteuid());
  }
  for (const char* endpoint :
       {"127.0.0.1:24698", "[::1]:24699", "127.0.0.2:24699", "192.0.2.1:24699", "", "24699"}) {
    EXPECT_FALSE(DirectAddress(endpoint).has_value()) << endpoint;
  }
}

TEST_F(OtherAddressTest, AStrangerAtTheNameOfAnothersServerIsPassedBy) {
  if (!CanBeOthers()) GTEST_SKIP() << "this process cannot be another user";
  const UniqueFd server = ListenAtPort(geteuid(), 1, 0);
  const std::string endpoint = absl::StrCat("127.0.0.1:", PortOf(server));
  const UniqueFd stranger = ListenAtName(kOtherUser, "warpline@" + endpoint);
  ASSERT_TRUE(server.valid() && stranger.valid());
  LogCapture log;
  EXPECT_FALSE(DirectAddress(endpoint).has_value());
  EXPECT_EQ(log.LinesWith("the session is opened over TCP: who listens at").size(), 1u);
  // One whose server that is.
  const UniqueFd own = ListenAtPort(kOtherUser, 1, 0);
  const std::string theirs = absl::StrCat("127.0.0.1:", PortOf(own));
  const UniqueFd listener = ListenAtName(kOtherUser, "warpline@" + theirs);
  ASSERT_TRUE(own.valid() && listener.valid());
  EXPECT_TRUE(DirectAddress(theirs).has_value());
}

TEST_F(OtherAddressTest, SharedMemoryOfAStrangersIsNotFollowed) {
  if (!CanBeOthers()) GTEST_SKIP() << "this process cannot be another user";
  Welcomed welcomed = WelcomeOf(kOtherUser);
  welcomed.unix_socket.clear();
  welcomed.shm_name = absl::StrCat("warpline-test-other-", getpid());
  const UniqueFd listener = ListenAtName(kOtherUser, welcomed.shm_name);
  ASSERT_TRUE(listener.valid());
  LogCapture log;
  EXPECT_FALSE(OtherAddress(welcomed, "127.0.0.1:1").has_value());
  EXPECT_EQ(log.LinesWith("the session stays where it is").size(), 1u);
}

}  // namespace
}  // namespace warpline::stub
