#include "server/gpu_server/children/relays/networks.h"

#include <gtest/gtest.h>

#include <string>

namespace warpline::server {
namespace {

TEST(NetworksTest, ContainWhatTheyName) {
  const auto networks = Networks::Parse({"10.1.0.0/15", "192.0.2.7", "fd00:1::/32"});
  ASSERT_TRUE(networks.ok()) << networks.status();
  for (const std::string inside : {"10.0.0.0", "10.1.255.255", "192.0.2.7", "fd00:1::1"}) {
    EXPECT_TRUE(networks->Contains(inside)) << inside;
  }
  for (const std::string outside :
       {"10.2.0.0", "9.255.255.255", "192.0.2.8", "fd00:2::1", "::", "localhost", ""}) {
    EXPECT_FALSE(networks->Contains(outside)) << outside;
  }
  EXPECT_FALSE(networks->empty());
}

TEST(NetworksTest, EveryAddressIsInTheNetworkOfNoBits) {
  const auto ipv4 = Networks::Parse({"0.0.0.0/0"});
  ASSERT_TRUE(ipv4.ok());
  EXPECT_TRUE(ipv4->Contains("203.0.113.1"));
  EXPECT_FALSE(ipv4->Contains("fd00::1"));
}

TEST(NetworksTest, WhatIsNoNetworkIsRefused) {
  for (const std::string wrong : {"", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.0/8/8",
                                  "10.0.0", "host/8", "fd00::/129"}) {
    const auto networks = Networks::Parse({wrong});
    EXPECT_TRUE(absl::IsInvalidArgument(networks.status())) << wrong;
  }
  EXPECT_TRUE(Networks::Parse({})->empty());
}

TEST(NetworksTest, PeersHaveAddresses) {
  EXPECT_EQ(IpOfPeer("ipv4:10.0.0.7:5555"), "10.0.0.7");
  EXPECT_EQ(IpOfPeer("ipv4:10.0.0.7:5555 cn=alice san=a.example.org"), "10.0.0.7");
  EXPECT_EQ(IpOfPeer("ipv6:[fd00::1]:5555"), "fd00::1");
  EXPECT_EQ(IpOfPeer("ipv6:[::ffff:10.0.0.7]:5555"), "10.0.0.7");
  EXPECT_EQ(IpOfPeer("ipv6:%5Bfd00::1%5D:5555"), "fd00::1");
  EXPECT_EQ(IpOfPeer("unix:uid=1000"), "");
  EXPECT_EQ(IpOfPeer(""), "");
}

}  // namespace
}  // namespace warpline::server
