#include "lease/end_reason.h"

#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr EndCause kCauses[] = {EndCause::kOther,   EndCause::kNamesNobody, EndCause::kRevoked,
                                EndCause::kDrained, EndCause::kMakesWay,    EndCause::kEpochEnds};

TEST(EndReasonTest, ReasonsThatNameSomebodyAreNotPassedOn) {
  EXPECT_EQ(ReasonForTenant({"nobody renewed it", EndCause::kNamesNobody}), "nobody renewed it");
  EXPECT_EQ(ReasonForTenant({"acme needs it", EndCause::kRevoked}), "the operator revoked it");
  EXPECT_EQ(ReasonForTenant({"acme was loud", EndCause::kDrained}), "its server is being drained");
  EXPECT_EQ(ReasonForTenant({"for acme", EndCause::kMakesWay}),
            "a request that goes first needs its device");
  EXPECT_EQ(ReasonForTenant({"for acme", EndCause::kEpochEnds}),
            "the epoch ends, and a request that goes first needs its device");
  EXPECT_EQ(ReasonForTenant({"something new of acme"}), "the scheduler ended it");
  EXPECT_EQ(ReasonForTenant({}), "");
}

TEST(EndReasonTest, TheHolderHearsTheOperatorAndNoOtherTenantsName) {
  EXPECT_EQ(ReasonForHolder({"maintenance", EndCause::kRevoked}), "maintenance");
  EXPECT_EQ(ReasonForHolder({"new disks", EndCause::kDrained}), "new disks");
  for (const EndCause cause : {EndCause::kOther, EndCause::kMakesWay, EndCause::kEpochEnds}) {
    EXPECT_EQ(ReasonForHolder({"for acme", cause}), ReasonForTenant({"for acme", cause}));
  }
}

// The words of a reason once decided what is told of it.
TEST(EndReasonTest, TheTextDecidesNothing) {
  for (const char* const text :
       {"the operator revoked it: acme needs it", "server a is being drained: acme was loud",
        "tenant acme needs its device and goes first", "its tenant was removed",
        "the epoch ends, and tenant acme has less than its share"}) {
    EXPECT_EQ(ReasonForTenant({text}), "the scheduler ended it");
    EXPECT_EQ(ReasonForHolder({text}), "the scheduler ended it");
  }
}

TEST(EndReasonTest, NumbersAreThoseOfCausesAndOthersAreNone) {
  for (const EndCause cause : kCauses) {
    EXPECT_EQ(EndCauseOf(static_cast<uint32_t>(cause)), cause);
  }
  EXPECT_EQ(EndCauseOf(6), EndCause::kOther);
  EXPECT_EQ(EndCauseOf(~0u), EndCause::kOther);
}

}  // namespace
}  // namespace warpline
