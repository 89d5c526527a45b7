#include "scheduler/page/own_host.h"

#include "gtest/gtest.h"

namespace warpline::scheduler::page {
namespace {

TEST(OwnHostTest, IsALoopbackAddressWithAnyPort) {
  for (const char* host : {"localhost", "localhost:14180", "LocalHost:1", "127.0.0.1",
                           "127.0.0.1:14180", "127.1.2.3:80", "[::1]", "[::1]:14180"}) {
    EXPECT_TRUE(IsOwnHost(host)) << host;
    EXPECT_TRUE(IsOwnOrigin(std::string("http://") + host)) << host;
  }
}

TEST(OwnHostTest, NamesOfOtherSitesAreNot) {
  for (const char* host : {"",
                           ":",
                           ":80",
                           "attacker.example",
                           "attacker.example:14180",
                           "localhost.attacker.example",
                           "127.0.0.1.attacker.example",
                           "127.0.0.1:80.attacker.example",
                           "10.0.0.1",
                           "0.0.0.0",
                           "localhost:",
                           "localhost:x",
                           "localhost:80@attacker.example",
                           "attacker@localhost",
                           "::1",
                           "[::1",
                           "[::1]x",
                           "[::]",
                           "[localhost]",
                           "[127.0.0.1]",
                           "localhost/",
                           " localhost"}) {
    EXPECT_FALSE(IsOwnHost(host)) << host;
    EXPECT_FALSE(IsOwnOrigin(std::string("http://") + host)) << host;
  }
  for (const char* origin : {"null", "localhost", "file://", "http:localhost", "ftp://localhost"}) {
    EXPECT_FALSE(IsOwnOrigin(origin)) << origin;
  }
}

}  // namespace
}  // namespace warpline::scheduler::page
