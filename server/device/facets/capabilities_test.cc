#include "server/device/facets/capabilities.h"

#include "gtest/gtest.h"

namespace warpline::device {
namespace {

TEST(CapabilitiesTest, HoldWhatWasPutTogether) {
  constexpr Capabilities both = Capabilities(Capability::kArrays) | Capability::kClusters;
  EXPECT_TRUE(both.Has(Capability::kArrays));
  EXPECT_TRUE(both.Has(Capability::kClusters));
  EXPECT_FALSE(both.Has(Capability::kGraphs));
  EXPECT_EQ(both | Capability::kArrays, both);
}

TEST(CapabilitiesTest, HaveNames) {
  EXPECT_EQ(NamesOf(Capabilities()), "none");
  EXPECT_EQ(NamesOf(Capabilities(Capability::kGraphs) | Capability::kLinks), "links, graphs");
}

TEST(CapabilitiesTest, WhatIsLackedIsNotSupported) {
  EXPECT_EQ(Lacks(Capability::kTextures), CudaResult::kNotSupported);
}

}  // namespace
}  // namespace warpline::device
