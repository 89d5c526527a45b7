#include "transport/grpc/listen/own_user.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::grpc_internal {
namespace {

class OwnUserTest : public ::testing::Test {
 protected:
  OwnUserTest() {
    address_.sun_family = AF_UNIX;
    const std::string path = folder_.path() + "/s";
    std::strncpy(address_.sun_path, path.c_str(), sizeof(address_.sun_path) - 1);
    listening_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(listening_.get(), generic(), sizeof(address_)), 0);
    EXPECT_EQ(listen(listening_.get(), 8), 0);
    EXPECT_EQ(chmod(path.c_str(), 0666), 0);
    EXPECT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  }

  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address_); }

  UniqueFd Connect() {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return connect(fd.get(), generic(), sizeof(address_)) == 0 ? std::move(fd) : UniqueFd();
  }

  // What is said of a child that connects as `uid`; nothing when it cannot.
  bool SaidOfChild(uid_t uid, bool* connected) {
    const pid_t child = fork();
    if (child == 0) {
      if (uid != geteuid() && setuid(uid) != 0) _exit(1);
      const UniqueFd fd = Connect();
      if (!fd.valid()) _exit(1);
      pause();
    }
    // Until it has connected or ended.
    bool own = false;
    *connected = false;
    for (int i = 0; i < 1000 && !*connected; ++i) {
      const UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd.valid()) {
        *connected = true;
        own = IsOwnUser(fd.get());
      } else if (waitpid(child, nullptr, WNOHANG) == child) {
        return false;
      } else {
        usleep(1000);
      }
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return own;
  }

  testing::TempFolder folder_;
  sockaddr_un address_ = {};
  UniqueFd listening_;
};

TEST_F(OwnUserTest, TheSameUserIsTaken) {
  const UniqueFd client = Connect();
  ASSERT_TRUE(client.valid());
  const UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(IsOwnUser(fd.get()));
}

// As a worker that found a way to connect.
TEST_F(OwnUserTest, AProcessThatWasStartedHereIsNot) {
  ASSERT_EQ(fcntl(listening_.get(), F_SETFL, O_NONBLOCK), 0);
  bool connected = false;
  EXPECT_FALSE(SaidOfChild(geteuid(), &connected));
  EXPECT_TRUE(connected);
}

TEST_F(OwnUserTest, AnotherUserIsNot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs another user";
  ASSERT_EQ(fcntl(listening_.get(), F_SETFL, O_NONBLOCK), 0);
  bool connected = false;
  EXPECT_FALSE(SaidOfChild(65534, &connected));
}

TEST_F(OwnUserTest, NoSocketIsNobodys) { EXPECT_FALSE(IsOwnUser(-1)); }

TEST_F(OwnUserTest, DescentIsToldByProc) {
  EXPECT_TRUE(MayDescendFrom(getpid(), getpid()));
  EXPECT_TRUE(MayDescendFrom(getpid(), getppid()));
  EXPECT_FALSE(MayDescendFrom(getppid(), getpid()));
  // It has no parent that could be read.
  EXPECT_TRUE(MayDescendFrom(1 << 30, getpid()));
}

}  // namespace
}  // namespace warpline::grpc_internal
