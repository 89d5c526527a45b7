#include "transport/unix_connect.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline {
namespace {

class UnixConnectTest : public ::testing::Test {
 protected:
  void Listen() {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    listener_.Reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener_.get(), 4), 0);
  }

  warpline::testing::TempFolder folder_;
  const std::string path_ = folder_.path() + "/s";
  UniqueFd listener_;
};

TEST_F(UnixConnectTest, ListenerOfTheExpectedUserIsTaken) {
  Listen();
  EXPECT_TRUE(ConnectUnix(path_, std::nullopt).ok());
  EXPECT_TRUE(ConnectUnix(path_, geteuid()).ok());
}

TEST_F(UnixConnectTest, EachConnectionHasANameOfItsOwn) {
  Listen();
  const auto name = [this] {
    const auto connected = ConnectUnix(path_, std::nullopt);
    EXPECT_TRUE(connected.ok());
    const UniqueFd taken(accept(listener_.get(), nullptr, nullptr));
    sockaddr_un address = {};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getpeername(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return std::string(reinterpret_cast<const char*>(&address), size);
  };
  const std::string first = name();
  EXPECT_GT(first.size(), sizeof(sa_family_t));
  EXPECT_NE(first, name());
}

TEST_F(UnixConnectTest, ListenerOfAnotherUserIsNot) {
  Listen();
  EXPECT_TRUE(absl::IsPermissionDenied(ConnectUnix(path_, geteuid() + 1).status()));
}

TEST_F(UnixConnectTest, NobodyThereIsUnavailable) {
  EXPECT_TRUE(absl::IsUnavailable(ConnectUnix(path_, geteuid()).status()));
  EXPECT_TRUE(absl::IsUnavailable(ConnectUnix("", std::nullopt).status()));
  EXPECT_TRUE(absl::IsUnavailable(ConnectUnix(std::string(300, 'x'), std::nullopt).status()));
  Listen();
  listener_.Reset(-1);
  EXPECT_TRUE(absl::IsUnavailable(ConnectUnix(path_, std::nullopt).status()));
}

}  // namespace
}  // namespace warpline
