#include "transport/grpc/connect/target.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace warpline::grpc_internal {
namespace {

using Uris = std::vector<std::string>;

TEST(ResolveTarget, AddressesAreTakenAsTheyAre) {
  const auto v4 = ResolveTarget("192.0.2.7:443");
  ASSERT_TRUE(v4.ok()) << v4.status();
  EXPECT_EQ(v4->uris, Uris{"ipv4:192.0.2.7:443"});
  EXPECT_EQ(v4->host, "192.0.2.7");
  EXPECT_EQ(v4->authority, "192.0.2.7:443");
  EXPECT_FALSE(v4->local);

  const auto v6 = ResolveTarget("[::1]:80");
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_EQ(v6->uris, Uris{"ipv6:%5B::1%5D:80"});
  EXPECT_TRUE(v6->local);
}

TEST(ResolveTarget, LoopbackAndUnixSocketsAreLocal) {
  EXPECT_TRUE(ResolveTarget("127.3.2.1:80")->local);
  EXPECT_TRUE(ResolveTarget("localhost:80")->local);
  const auto socket = ResolveTarget("unix:/run/warpline.sock");
  ASSERT_TRUE(socket.ok());
  EXPECT_TRUE(socket->local);
  EXPECT_EQ(socket->uris, Uris{"unix:/run/warpline.sock"});
}

TEST(ResolveTarget, OtherFormsAreRefused) {
  for (const char* address : {"", ":", "host", "host:", ":80", "host:0", "host:65536", "host:x",
                              "1:2:3", "[::1:80", "unix:", "unix:relative", "http://host:80"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ResolveTarget(address).status())) << address;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ResolveTarget("unix:/" + std::string(200, 'x')).status()));
}

TEST(ResolveTarget, UnknownNamesAreUnavailable) {
  EXPECT_TRUE(absl::IsUnavailable(ResolveTarget("no-such-host.invalid:80").status()));
}

}  // namespace
}  // namespace warpline::grpc_internal
