#include "transport/tcp/connect.h"

#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "transport/tcp/socket_address.h"

namespace warpline {
namespace {

// Listens at a free port of this host.
class Listens {
 public:
  explicit Listens(const std::string& ip) {
    auto address = SocketAddress::Of(ip, 0);
    EXPECT_TRUE(address.ok());
    fd_ = UniqueFd(socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    usable_ = bind(fd_.get(), address->get(), address->size()) == 0 && listen(fd_.get(), 4) == 0;
    if (usable_) address_ = SocketAddress::OfSocket(fd_.get())->ToString();
  }
  bool usable() const { return usable_; }
  const std::string& address() const { return address_; }
  std::string port() const { return address_.substr(address_.rfind(':') + 1); }
  bool WasCalled() const { return PollSocket(fd_.get(), POLLIN, 0) == POLLIN; }

 private:
  UniqueFd fd_;
  bool usable_ = false;
  std::string address_;
};

absl::Time Soon() { return absl::Now() + absl::Seconds(30); }

// Returns an address at which nothing listens.
std::string Nowhere() { return Listens("127.0.0.1").address(); }

TEST(ConnectTcpTest, TakesAddressesAndNames) {
  const Listens there("127.0.0.1");
  EXPECT_TRUE(ConnectTcp(there.address(), Soon()).ok());
  EXPECT_TRUE(there.WasCalled());
  const Listens by_name("127.0.0.1");
  // It may have an address of IPv6 before this one.
  EXPECT_TRUE(ConnectTcp(absl::StrCat("localhost:", by_name.port()), Soon()).ok());
  const Listens v6("::1");
  EXPECT_TRUE(!v6.usable() || ConnectTcp(v6.address(), Soon()).ok());
}

TEST(ConnectTcpTest, TakesTheFirstPlaceThatAnswers) {
  const Listens first("127.0.0.1"), second("127.0.0.1");
  EXPECT_TRUE(
      ConnectTcp(absl::StrCat(Nowhere(), ",", first.address(), ",", second.address()), Soon())
          .ok());
  EXPECT_TRUE(first.WasCalled());
  EXPECT_FALSE(second.WasCalled());
}

TEST(ConnectTcpTest, SaysWhyThereIsNoConnection) {
  EXPECT_TRUE(absl::IsUnavailable(ConnectTcp(Nowhere(), Soon()).status()));
  for (const char* const text : {"", "10.0.0.1", ":7", "[::1]", ",,"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ConnectTcp(text, Soon()).status())) << text;
  }
  const std::string many = absl::StrCat("a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,", Nowhere());
  EXPECT_TRUE(absl::IsInvalidArgument(ConnectTcp(many, Soon()).status()));
  EXPECT_TRUE(absl::IsUnavailable(ConnectTcp("no-such-host.invalid:7", Soon()).status()));
}

TEST(SocketAddressTest, KnowsTheWayToAnAddress) {
  const auto own = SocketAddress::Towards("127.0.0.1");
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->Ip(), "127.0.0.1");
  EXPECT_TRUE(absl::IsInvalidArgument(SocketAddress::Towards("gpuhost").status()));
}

}  // namespace
}  // namespace warpline
