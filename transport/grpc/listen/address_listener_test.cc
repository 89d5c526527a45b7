#include "transport/grpc/listen/address_listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log/log_capture.h"
#include "common/mutex.h"
#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::grpc_internal {
namespace {

class AddressListenerTest : public ::testing::Test {
 protected:
  absl::Status Start(AddressListener* listener) {
    return listener->Start([this](int fd) {
      MutexLock lock(&mu_);
      taken_.emplace_back(fd);
      changed_.NotifyAll();
    });
  }

  bool WaitForTaken(size_t count) {
    MutexLock lock(&mu_);
    for (int i = 0; i < 1000 && taken_.size() < count; ++i) {
      changed_.WaitWithTimeout(&mu_, absl::Milliseconds(10));
    }
    return taken_.size() == count;
  }

  // As gRPC does, without a word to the listener.
  void CloseTaken() {
    MutexLock lock(&mu_);
    taken_.clear();
  }

  static UniqueFd Connect(int port) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  // Over IPv6. False when nobody listens there.
  static bool Connects6(int port, UniqueFd* fd) {
    *fd = UniqueFd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<uint16_t>(port));
    address.sin6_addr = in6addr_loopback;
    return connect(fd->get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }

  static bool HasIpv6() {
    const UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    return bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0;
  }

  // Whether the other end has closed it.
  static bool Ended(const UniqueFd& fd) {
    char byte;
    return read(fd.get(), &byte, 1) <= 0;
  }

  testing::TempFolder folder_;
  Mutex mu_;
  CondVar changed_;
  std::vector<UniqueFd> taken_ ABSL_GUARDED_BY(mu_);
};

TEST_F(AddressListenerTest, TakesConnectionsUpToItsLimitAndClosesTheRest) {
  AddressListener listener(2);
  ASSERT_EQ(listener.Bind("127.0.0.1:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  const UniqueFd a = Connect(listener.port());
  const UniqueFd b = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(2));
  EXPECT_TRUE(Ended(Connect(listener.port())));
  EXPECT_TRUE(Ended(Connect(listener.port())));
  CloseTaken();
  const UniqueFd c = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(1));
}

TEST_F(AddressListenerTest, BeingFullAgainAndAgainIsSaidAFewTimes) {
  LogCapture log;
  AddressListener listener(1);
  ASSERT_EQ(listener.Bind("127.0.0.1:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  for (int i = 0; i < 50; ++i) {
    const UniqueFd taken = Connect(listener.port());
    ASSERT_TRUE(WaitForTaken(1));
    EXPECT_TRUE(Ended(Connect(listener.port())));
    CloseTaken();
  }
  EXPECT_EQ(log.LinesWith("refusing connections").size(), 10u) << log.Text();
}

TEST_F(AddressListenerTest, TheIpv6WildcardTakesBothKindsOfConnections) {
  if (!HasIpv6()) GTEST_SKIP() << "this host has no IPv6";
  AddressListener listener(2);
  ASSERT_EQ(listener.Bind("[::]:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  const UniqueFd v4 = Connect(listener.port());
  UniqueFd v6;
  EXPECT_TRUE(Connects6(listener.port(), &v6));
  EXPECT_TRUE(WaitForTaken(2));
}

TEST_F(AddressListenerTest, TheIpv4WildcardTakesNoConnectionsOverIpv6) {
  if (!HasIpv6()) GTEST_SKIP() << "this host has no IPv6";
  AddressListener listener(2);
  ASSERT_EQ(listener.Bind("0.0.0.0:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  const UniqueFd v4 = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(1));
  UniqueFd v6;
  EXPECT_FALSE(Connects6(listener.port(), &v6));
}

TEST_F(AddressListenerTest, OtherUseOfAClosedDescriptorIsNoConnection) {
  AddressListener listener(1);
  ASSERT_EQ(listener.Bind("127.0.0.1:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  const UniqueFd a = Connect(listener.port());
  ASSERT_TRUE(WaitForTaken(1));
  CloseTaken();
  // Some of these get its number.
  std::vector<UniqueFd> others;
  for (int i = 0; i < 8; ++i) others.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd b = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(1));
}

TEST_F(AddressListenerTest, PortInUseIsNamed) {
  AddressListener first(1);
  ASSERT_EQ(first.Bind("127.0.0.1:0"), absl::OkStatus());
  AddressListener second(1);
  const std::string address = absl::StrCat("127.0.0.1:", first.port());
  const absl::Status status = second.Bind(address);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(std::string(status.message()).find(address), std::string::npos) << status;
}

TEST_F(AddressListenerTest, Ipv6AddressesAreNamedAsTheyAreGiven) {
  if (!HasIpv6()) GTEST_SKIP() << "this host has no IPv6";
  AddressListener first(1);
  ASSERT_EQ(first.Bind("[::]:0"), absl::OkStatus());
  const std::string address = absl::StrCat("[::]:", first.port());
  const absl::Status status = AddressListener(1).Bind(address);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(std::string(status.message()).find(address + ":"), std::string::npos) << status;
}

TEST_F(AddressListenerTest, AddressesThatAreNoneAreRefused) {
  for (const std::string& address :
       {std::string("127.0.0.1"), std::string("127.0.0.1:x"), std::string("127.0.0.1:99999"),
        std::string("unix:"), std::string("unix:/no/such/folder/s"),
        "unix:/" + std::string(200, 'x')}) {
    AddressListener listener(1);
    EXPECT_TRUE(absl::IsUnavailable(listener.Bind(address))) << address;
  }
}

TEST_F(AddressListenerTest, DeadSocketIsReplacedAndALivingOneIsNot) {
  const std::string path = folder_.path() + "/s";
  AddressListener first(1);
  ASSERT_EQ(first.Bind("unix:" + path), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(AddressListener(1).Bind("unix:" + path)));
  first.Stop();
  struct stat info;
  EXPECT_NE(stat(path.c_str(), &info), 0);
  // As a server leaves it that was killed.
  {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    const UniqueFd dead(socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  AddressListener second(1);
  EXPECT_EQ(second.Bind("unix:" + path), absl::OkStatus());
}

TEST_F(AddressListenerTest, OneForItsOwnUserHasAFileForThatUser) {
  const std::string path = folder_.path() + "/s";
  AddressListener listener(1);
  listener.TakeOwnUserOnly();
  ASSERT_EQ(listener.Bind("unix:" + path), absl::OkStatus());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(AddressListenerTest, OtherFilesAreNotReplaced) {
  const std::string path = folder_.path() + "/file";
  fclose(fopen(path.c_str(), "w"));
  EXPECT_TRUE(absl::IsUnavailable(AddressListener(1).Bind("unix:" + path)));
  struct stat info;
  EXPECT_EQ(stat(path.c_str(), &info), 0);
}

}  // namespace
}  // namespace warpline::grpc_internal
