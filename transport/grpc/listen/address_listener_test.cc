#include "transport/grpc/listen/address_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/log/log_capture.h"
#include "common/mutex.h"
#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::grpc_internal {
namespace {

ConnectionLimits Limits(size_t most) { return {.most = most}; }

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

  // From `from`, which is one of this host's.
  static UniqueFd Connect(int port, const char* from = "127.0.0.1") {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, from, &address.sin_addr);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  // With an abstract name, unless that is empty.
  static UniqueFd ConnectUnix(const std::string& path, const std::string& name) {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (!name.empty()) {
      std::memcpy(address.sun_path + 1, name.data(), name.size());
      const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
      EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
      std::memset(address.sun_path, 0, sizeof(address.sun_path));
    }
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  // gRPC's name for the other end of a client's TCP connection.
  static std::string NameOf(const UniqueFd& fd) {
    sockaddr_in address = {};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return absl::StrCat("ipv4:", inet_ntoa(address.sin_addr), ":", ntohs(address.sin_port));
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
  // Whether it has not, and has sent nothing.
  static bool Open(const UniqueFd& fd) {
    char byte;
    return recv(fd.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

  testing::TempFolder folder_;
  Mutex mu_;
  CondVar changed_;
  std::vector<UniqueFd> taken_ ABSL_GUARDED_BY(mu_);
};

TEST_F(AddressListenerTest, ANewConnectionTakesTheOldestStrangersPlace) {
  AddressListener listener(Limits(2));
  ASSERT_EQ(listener.Bind("127.0.0.1:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  const UniqueFd a = Connect(listener.port());
  const UniqueFd b = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(2));
  const UniqueFd c = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(3));
  EXPECT_TRUE(Ended(a));
  EXPECT_TRUE(Open(b));
  EXPECT_TRUE(Open(c));
  CloseTaken();
  const UniqueFd d = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(1));
}

TEST_F(AddressListenerTest, ConnectionsWithASessionAreNotInTheWay) {
  AddressListener listener(Limits(2));
  ASSERT_EQ(listener.Bind("127.0.0.1:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  const UniqueFd a = Connect(listener.port());
  const UniqueFd b = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(2));
  listener.connections().Admit(NameOf(a));
  const UniqueFd c = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(3));
  EXPECT_TRUE(Ended(b));
  listener.connections().Admit(NameOf(c));
  EXPECT_TRUE(Ended(Connect(listener.port())));  // All of them have one.
  EXPECT_TRUE(Open(a));
  EXPECT_TRUE(Open(c));
  listener.connections().Leave(NameOf(a));
  const UniqueFd d = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(4));
  EXPECT_TRUE(Ended(a));
}

TEST_F(AddressListenerTest, UseMakesAConnectionTheNewest) {
  AddressListener listener(Limits(2));
  ASSERT_EQ(listener.Bind("127.0.0.1:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  const UniqueFd a = Connect(listener.port());
  const UniqueFd b = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(2));
  listener.connections().Touch(NameOf(a));
  const UniqueFd c = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(3));
  EXPECT_TRUE(Ended(b));
  EXPECT_TRUE(Open(a));
}

TEST_F(AddressListenerTest, StrangersOfOnePeerLeaveRoomForOthers) {
  AddressListener listener({.most = 100, .most_strange_of_peer = 2});
  ASSERT_EQ(listener.Bind("127.0.0.1:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  const UniqueFd other = Connect(listener.port(), "127.0.0.2");
  std::vector<UniqueFd> flood;
  EXPECT_TRUE(WaitForTaken(1));
  for (size_t i = 0; i < 5; ++i) {
    flood.push_back(Connect(listener.port()));
    EXPECT_TRUE(WaitForTaken(i + 2));
  }
  EXPECT_EQ(listener.connections().size(), 3u);
  EXPECT_TRUE(Ended(flood[2]));
  EXPECT_TRUE(Open(flood[3]));
  EXPECT_TRUE(Open(other));
}

TEST_F(AddressListenerTest, ManyConnectionsOfOnePeerDoNotKeepAnotherWaiting) {
  AddressListener listener({.most = 1000, .most_strange_of_peer = 100});
  ASSERT_EQ(listener.Bind("127.0.0.1:0"), absl::OkStatus());
  absl::Notification go_on;
  Mutex mu;
  std::vector<std::string> order;  // The peers of the connections, as they were passed on.
  std::vector<UniqueFd> passed;
  ASSERT_EQ(listener.Start([&](int fd) {
    {
      MutexLock lock(&mu);
      order.push_back(PeerOfOtherEnd(fd));
      passed.emplace_back(fd);
    }
    go_on.WaitForNotification();
  }),
            absl::OkStatus());
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 300; ++i) flood.push_back(Connect(listener.port(), "127.0.0.2"));
  const UniqueFd other = Connect(listener.port());
  // All of these wait in the system by now, but for those that came at once with the first.
  go_on.Notify();
  const auto place = [&]() -> size_t {
    MutexLock lock(&mu);
    return static_cast<size_t>(std::find(order.begin(), order.end(), "ipv4:127.0.0.1") -
                               order.begin());
  };
  const auto came = [&] {
    const size_t found = place();
    MutexLock lock(&mu);
    return found < order.size();
  };
  for (int i = 0; i < 1000 && !came(); ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(came());
  EXPECT_LE(place(), 10u);
  EXPECT_TRUE(Open(other));
  // The listener keeps only the newest connections of the flood.
  EXPECT_TRUE(Ended(flood[0]) || Ended(flood[100]));
  EXPECT_TRUE(Open(flood[299]));
  listener.Stop();
}

TEST_F(AddressListenerTest, PeersOfUnixSocketsAreUsers) {
  AddressListener listener({.most = 100, .most_strange_of_peer = 2});
  const std::string path = folder_.path() + "/s";
  ASSERT_EQ(listener.Bind("unix:" + path), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  // Nobody can tell what streams a connection without a name carries, so it is left alone.
  const UniqueFd a = ConnectUnix(path, "");
  const UniqueFd b = ConnectUnix(path, "");
  EXPECT_TRUE(WaitForTaken(2));
  EXPECT_TRUE(Ended(ConnectUnix(path, "")));
  const std::string name = absl::StrCat("warpline-test-", getpid());
  const UniqueFd c = ConnectUnix(path, name);
  EXPECT_TRUE(WaitForTaken(3));
  EXPECT_EQ(listener.connections().PeerOf("unix-abstract:" + name), absl::StrCat("uid=", getuid()));
  EXPECT_TRUE(Open(a));
  EXPECT_TRUE(Open(c));
}

TEST_F(AddressListenerTest, BeingFullAgainAndAgainIsSaidAFewTimes) {
  LogCapture log;
  AddressListener listener(Limits(1));
  ASSERT_EQ(listener.Bind("127.0.0.1:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  for (int i = 0; i < 50; ++i) {
    const UniqueFd taken = Connect(listener.port());
    ASSERT_TRUE(WaitForTaken(1));
    listener.connections().Admit(NameOf(taken));
    EXPECT_TRUE(Ended(Connect(listener.port())));
    CloseTaken();
  }
  EXPECT_EQ(log.LinesWith("refused a connection").size(), 10u) << log.Text();
}

TEST_F(AddressListenerTest, TheIpv6WildcardTakesBothKindsOfConnections) {
  if (!HasIpv6()) GTEST_SKIP() << "this host has no IPv6";
  AddressListener listener(Limits(2));
  ASSERT_EQ(listener.Bind("[::]:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  const UniqueFd v4 = Connect(listener.port());
  UniqueFd v6;
  EXPECT_TRUE(Connects6(listener.port(), &v6));
  EXPECT_TRUE(WaitForTaken(2));
}

TEST_F(AddressListenerTest, TheIpv4WildcardTakesNoConnectionsOverIpv6) {
  if (!HasIpv6()) GTEST_SKIP() << "this host has no IPv6";
  AddressListener listener(Limits(2));
  ASSERT_EQ(listener.Bind("0.0.0.0:0"), absl::OkStatus());
  ASSERT_EQ(Start(&listener), absl::OkStatus());
  const UniqueFd v4 = Connect(listener.port());
  EXPECT_TRUE(WaitForTaken(1));
  UniqueFd v6;
  EXPECT_FALSE(Connects6(listener.port(), &v6));
}

TEST_F(AddressListenerTest, OtherUseOfAClosedDescriptorIsNoConnection) {
  AddressListener listener(Limits(1));
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
  AddressListener first(Limits(1));
  ASSERT_EQ(first.Bind("127.0.0.1:0"), absl::OkStatus());
  AddressListener second(Limits(1));
  const std::string address = absl::StrCat("127.0.0.1:", first.port());
  const absl::Status status = second.Bind(address);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(std::string(status.message()).find(address), std::string::npos) << status;
}

TEST_F(AddressListenerTest, Ipv6AddressesAreNamedAsTheyAreGiven) {
  if (!HasIpv6()) GTEST_SKIP() << "this host has no IPv6";
  AddressListener first(Limits(1));
  ASSERT_EQ(first.Bind("[::]:0"), absl::OkStatus());
  const std::string address = absl::StrCat("[::]:", first.port());
  const absl::Status status = AddressListener(Limits(1)).Bind(address);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(std::string(status.message()).find(address + ":"), std::string::npos) << status;
}

TEST_F(AddressListenerTest, AddressesThatAreNoneAreRefused) {
  for (const std::string& address :
       {std::string("127.0.0.1"), std::string("127.0.0.1:x"), std::string("127.0.0.1:99999"),
        std::string("unix:"), std::string("unix:/no/such/folder/s"),
        "unix:/" + std::string(200, 'x')}) {
    AddressListener listener(Limits(1));
    EXPECT_TRUE(absl::IsUnavailable(listener.Bind(address))) << address;
  }
}

TEST_F(AddressListenerTest, DeadSocketIsReplacedAndALivingOneIsNot) {
  const std::string path = folder_.path() + "/s";
  AddressListener first(Limits(1));
  ASSERT_EQ(first.Bind("unix:" + path), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(AddressListener(Limits(1)).Bind("unix:" + path)));
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
  AddressListener second(Limits(1));
  EXPECT_EQ(second.Bind("unix:" + path), absl::OkStatus());
}

TEST_F(AddressListenerTest, OneForItsOwnUserHasAFileForThatUser) {
  const std::string path = folder_.path() + "/s";
  AddressListener listener({.most = 1, .most_strange_of_peer = 1});
  listener.TakeOwnUserOnly();
  ASSERT_EQ(listener.Bind("unix:" + path), absl::OkStatus());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(AddressListenerTest, OtherFilesAreNotReplaced) {
  const std::string path = folder_.path() + "/file";
  fclose(fopen(path.c_str(), "w"));
  EXPECT_TRUE(absl::IsUnavailable(AddressListener(Limits(1)).Bind("unix:" + path)));
  struct stat info;
  EXPECT_EQ(stat(path.c_str(), &info), 0);
}

}  // namespace
}  // namespace warpline::grpc_internal
