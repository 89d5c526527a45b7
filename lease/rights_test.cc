#include "lease/rights.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(RightsTest, NamesAreReadAndWritten) {
  for (const char* text :
       {"all", "none", "launch", "load,copy_out", "launch,load,copy_in,copy_out,memory"}) {
    const auto rights = ParseRights(text);
    ASSERT_TRUE(rights.ok()) << rights.status();
    EXPECT_EQ(FormatRights(*rights), text);
  }
  for (const char* text : {"", "everything", "launch,", "launch load", "All"}) {
    EXPECT_EQ(ParseRights(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(RightsTest, EveryCommandNeedsARightThatAllGivesAndNoneLacksOnlyWhatIsFree) {
  for (const CommandInfo& command : kCommandTable) {
    EXPECT_TRUE(Allows(kAllRights, command.capability)) << command.name;
    EXPECT_TRUE(Allows(kKnownRights & ~kAllRights, command.capability)) << command.name;
    EXPECT_EQ(Allows(0, command.capability), command.capability == Capability::kStream)
        << command.name;
  }
}

TEST(RightsTest, OneRightGivesNoOther) {
  const Rights rights = ParseRights("copy_in,memory").value();
  EXPECT_TRUE(Allows(rights, Capability::kCopyIn));
  EXPECT_TRUE(Allows(rights, Capability::kMemory));
  EXPECT_FALSE(Allows(rights, Capability::kCopyOut));
  EXPECT_FALSE(Allows(rights, Capability::kLaunch));
  EXPECT_FALSE(Allows(rights, Capability::kLoad));
}

}  // namespace
}  // namespace warpline
