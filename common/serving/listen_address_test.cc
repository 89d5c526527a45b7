#include "common/serving/listen_address.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(ListenAddressTest, LoopbackAndUnixSocketsAreServed) {
  for (const char* address : {"127.0.0.1:0", "127.8.9.1:14000", "localhost:14000", "[::1]:14000",
                              "unix:/run/warpline.sock"}) {
    EXPECT_TRUE(CheckListenAddress(address, /*tls=*/false).ok()) << address;
  }
}

TEST(ListenAddressTest, ReachableAddressesAreRefused) {
  for (const char* address : {"0.0.0.0:14000", "[::]:14000", "10.0.0.1:14000", "gpu-host:14000",
                              ":14000", "128.0.0.1:1"}) {
    EXPECT_EQ(CheckListenAddress(address, /*tls=*/false).code(),
              absl::StatusCode::kPermissionDenied)
        << address;
  }
}

TEST(ListenAddressTest, TlsMakesAnyAddressServable) {
  for (const char* address : {"0.0.0.0:14000", "[::]:14000", "gpu-host:14000", "127.0.0.1:0"}) {
    EXPECT_TRUE(CheckListenAddress(address, /*tls=*/true).ok()) << address;
  }
  EXPECT_FALSE(CheckListenAddress("gpu-host", /*tls=*/true).ok());
}

TEST(ListenAddressTest, OtherFormsAreInvalid) {
  for (const char* address :
       {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "unix:", "unix:rel", "127.0.0.1:http"}) {
    EXPECT_EQ(CheckListenAddress(address, /*tls=*/false).code(), absl::StatusCode::kInvalidArgument)
        << address;
  }
}

TEST(ListenAddressTest, MetricsAreForThisHostUnlessToldOtherwise) {
  EXPECT_TRUE(CheckMetricsAddress("", false).ok());
  EXPECT_TRUE(CheckMetricsAddress("127.0.0.1:9400", false).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(CheckMetricsAddress("0.0.0.0:9400", false)));
  EXPECT_TRUE(absl::IsPermissionDenied(CheckMetricsAddress("gpuhost:9400", false)));
  EXPECT_TRUE(CheckMetricsAddress("0.0.0.0:9400", true).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckMetricsAddress("9400", true)));
}

TEST(ListenAddressTest, LocalPeersAreKnown) {
  EXPECT_TRUE(IsLocalPeer("ipv4:127.0.0.1:5555"));
  EXPECT_TRUE(IsLocalPeer("ipv6:%5B::1%5D:5555"));
  EXPECT_TRUE(IsLocalPeer("unix:/run/warpline.sock"));
  EXPECT_TRUE(IsLocalPeer("unix:"));
  EXPECT_FALSE(IsLocalPeer("ipv4:10.0.0.1:5555"));
  EXPECT_FALSE(IsLocalPeer("ipv6:%5B2001:db8::1%5D:5555"));
  EXPECT_FALSE(IsLocalPeer(""));
  EXPECT_TRUE(IsLocalPeer("ipv4:127.0.0.1:5555 cn=tenant san=a:b"));
  EXPECT_FALSE(IsLocalPeer("ipv4:10.0.0.1:5555 cn=127.0.0.1:1"));
}

TEST(ListenAddressTest, PeersAreTheSameOnTheirNextConnection) {
  EXPECT_EQ(PeerWithoutPort("ipv4:10.0.0.1:5555"), "ipv4:10.0.0.1");
  EXPECT_EQ(PeerWithoutPort("ipv6:%5B2001:db8::1%5D:5555"), "ipv6:%5B2001:db8::1%5D");
  EXPECT_EQ(PeerWithoutPort("ipv4:10.0.0.1:5555 cn=tenant san=a:b"), "cn=tenant san=a:b");
  EXPECT_EQ(PeerWithoutPort("ipv4:10.0.0.1:5555 cn=tenant cert=00ff"), "cn=tenant");
  EXPECT_EQ(PeerWithoutPort("ipv4:10.0.0.1:5555 cert=00ff"), "ipv4:10.0.0.1");
  EXPECT_EQ(PeerWithoutPort("unix:/run/a:b"), "unix:/run/a:b");
  EXPECT_EQ(PeerWithoutPort("unix:"), "unix:");
  EXPECT_EQ(PeerWithoutPort("ipv4:"), "ipv4");
  EXPECT_EQ(PeerWithoutPort(""), "");
}

TEST(ListenAddressTest, CertificatesAreWhatPeersEndIn) {
  EXPECT_EQ(PeerCertificate("ipv4:10.0.0.1:5555 cn=a san=b cert=00ff"), "00ff");
  EXPECT_EQ(PeerNames("ipv4:10.0.0.1:5555 cn=a san=b cert=00ff"), " cn=a san=b");
  EXPECT_EQ(PeerNames("ipv4:10.0.0.1:5555 cert=00ff"), "");
  EXPECT_EQ(PeerCertificate("ipv4:10.0.0.1:5555"), "");
  EXPECT_EQ(PeerNames("unix:"), "");
  // A name that a certificate chose.
  EXPECT_EQ(PeerCertificate("ipv4:10.0.0.1:5555 cn=x_cert=11 cert=00ff"), "00ff");
}

TEST(ListenAddressTest, APeerIsOneUnitHoweverManyAddressesItTakes) {
  EXPECT_EQ(PeerUnit("ipv4:10.0.0.1:5555"), "ipv4:10.0.0.1");
  EXPECT_EQ(PeerUnit("ipv4:10.0.0.1:5555 cn=a cert=00ff"), "cn=a");
  EXPECT_EQ(PeerUnit("unix:uid=1000"), "unix:uid=1000");
  EXPECT_EQ(PeerUnit("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:77"), "ipv6:20010db800010002/64");
  EXPECT_EQ(PeerUnit("ipv6:[2001:db8:1:2::9]:78"), "ipv6:20010db800010002/64");
  EXPECT_EQ(PeerUnit("ipv6:%5Bfe80::1%25eth0%5D:78"), "ipv6:fe80000000000000/64");
  EXPECT_EQ(PeerUnit("ipv6:%5B::ffff:10.0.0.1%5D:5555"), "ipv4:10.0.0.1");
  EXPECT_EQ(PeerUnit("ipv6:nonsense:1"), "ipv6:nonsense");
}

TEST(HealthAddress, IsAHostAndAPort) {
  for (const char* address : {"", "127.0.0.1:0", "0.0.0.0:14001", "[::]:14001", "localhost:1"}) {
    EXPECT_TRUE(CheckHealthAddress(address).ok()) << address;
  }
  for (const char* address : {"unix:/tmp/health", "14001", "host", "host:", "shm://x"}) {
    EXPECT_EQ(CheckHealthAddress(address).code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

}  // namespace
}  // namespace warpline
