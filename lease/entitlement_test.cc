#include "lease/entitlement.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

using Names = std::vector<std::string>;

TEST(EntitlementTest, WithoutALeaseEverythingIsAllowed) {
  const Entitlement own;
  EXPECT_FALSE(own.leased());
  EXPECT_TRUE(own.Allows(Capability::kMemory));
  EXPECT_TRUE(own.Allows(Capability::kCopyOut));
  EXPECT_EQ(own.MemoryOn(1000), 1000u);
  EXPECT_EQ(own.contents_tenant(), kLocalTenant);
}

TEST(EntitlementTest, ALeaseAllowsWhatItsRightsSay) {
  Entitlement entitlement;
  entitlement.lease = "1";
  entitlement.tenant = "vision";
  entitlement.rights = RightOf(Capability::kMemory) | RightOf(Capability::kCopyIn);
  EXPECT_TRUE(entitlement.leased());
  EXPECT_TRUE(entitlement.Allows(Capability::kMemory));
  EXPECT_FALSE(entitlement.Allows(Capability::kCopyOut));
  EXPECT_EQ(entitlement.contents_tenant(), "vision");
}

TEST(EntitlementTest, MemoryIsAtMostWhatTheDeviceGives) {
  Entitlement entitlement;
  entitlement.slice.memory_bytes = 100;
  EXPECT_EQ(entitlement.MemoryOn(1000), 100u);
  EXPECT_EQ(entitlement.MemoryOn(50), 50u);
}

TEST(DeviceNamesTest, AreSeparatedByCommas) {
  EXPECT_EQ(ParseDeviceNames(""), Names());
  EXPECT_EQ(ParseDeviceNames("0"), Names({"0"}));
  EXPECT_EQ(ParseDeviceNames(" GPU-a , 1"), Names({"GPU-a", "1"}));
  // An entry that names nothing stays; its reader refuses it or ends the list there.
  EXPECT_EQ(ParseDeviceNames("1,"), Names({"1", ""}));
  EXPECT_EQ(FormatDeviceNames({"GPU-a", "1"}), "GPU-a,1");
}

}  // namespace
}  // namespace warpline
