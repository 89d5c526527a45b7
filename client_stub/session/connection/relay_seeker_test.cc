#include "client_stub/session/connection/relay_seeker.h"

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(PlacesOfRelayTest, TheHostOfTheEndpointComesFirst) {
  constexpr char kPlace[] = "10.0.0.5:14701";
  EXPECT_EQ(PlacesOfRelay("gpuhost:14000", kPlace), "gpuhost:14701,10.0.0.5:14701");
  EXPECT_EQ(PlacesOfRelay("203.0.113.7:14000", kPlace), "203.0.113.7:14701,10.0.0.5:14701");
  EXPECT_EQ(PlacesOfRelay("[2001:db8::1]:14000", "[fd00::1]:14701"),
            "[2001:db8::1]:14701,[fd00::1]:14701");
}

TEST(PlacesOfRelayTest, WhatIsNoOtherHostIsLeftOut) {
  constexpr char kPlace[] = "10.0.0.5:14701";
  for (const char* const endpoint : {"10.0.0.5:14000", "unix:/run/warpline.sock", "unix:relative",
                                     "dns:///gpuhost:14000", "gpuhost", ":14000", "a,b:14000"}) {
    EXPECT_EQ(PlacesOfRelay(endpoint, kPlace), kPlace) << endpoint;
  }
  EXPECT_EQ(PlacesOfRelay("gpuhost:14000", "no port"), "no port");
}

}  // namespace
}  // namespace warpline::stub
