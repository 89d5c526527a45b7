#include "lease/end_reason.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(EndReasonTest, ReasonsThatNameSomebodyAreNotPassedOn) {
  EXPECT_EQ(ReasonForTenant("it has no sessions and nobody renewed it"),
            "it has no sessions and nobody renewed it");
  EXPECT_EQ(ReasonForTenant("the operator revoked it: acme needs it"), "the operator revoked it");
  EXPECT_EQ(ReasonForTenant("server a is being drained: acme was loud"),
            "its server is being drained");
  EXPECT_EQ(ReasonForTenant("tenant acme needs its device and has less"),
            "a request that goes first needs its device");
  EXPECT_EQ(ReasonForTenant("the epoch ends, and tenant acme has less than its share"),
            "the epoch ends, and a request that goes first needs its device");
  EXPECT_EQ(ReasonForTenant("something new of acme"), "the scheduler ended it");
}

TEST(EndReasonTest, TheHolderHearsTheOperatorAndNoOtherTenantsName) {
  EXPECT_EQ(ReasonForHolder("the operator revoked it: maintenance"),
            "the operator revoked it: maintenance");
  EXPECT_EQ(ReasonForHolder("server a is being drained: new disks"),
            "server a is being drained: new disks");
  EXPECT_EQ(ReasonForHolder("tenant acme needs its device and goes first"),
            "a request that goes first needs its device");
  EXPECT_EQ(ReasonForHolder("the epoch ends, and tenant acme needs its device"),
            "the epoch ends, and a request that goes first needs its device");
  EXPECT_EQ(ReasonForHolder("something new of acme"), "the scheduler ended it");
}

}  // namespace
}  // namespace warpline
