#include "proto/tier.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(TierTest, NamesAreReadAndWritten) {
  EXPECT_EQ(ParseTier("guarded"), Tier::kGuarded);
  EXPECT_FALSE(ParseTier("auto").has_value());
  EXPECT_EQ(ParseTierChoice("auto"), TierChoice::kAuto);
  EXPECT_EQ(TierChoiceName(TierChoice::kAuto), "auto");
  EXPECT_FALSE(ParseTierChoice("").has_value());
}

TEST(TierTest, SetsAreReadAndWritten) {
  EXPECT_EQ(ParseTierSet("all"), kAllTiers);
  EXPECT_EQ(ParseTierSet("isolated"), SetOf(Tier::kIsolated));
  EXPECT_EQ(ParseTierSet("guarded,isolated"), kKnownTiers);
  for (const char* text : {"", ",", "isolated,", "auto", "Isolated", "isolated,fast"}) {
    EXPECT_FALSE(ParseTierSet(text).has_value()) << text;
  }
  EXPECT_EQ(FormatTierSet(kAllTiers), "all");
  EXPECT_EQ(FormatTierSet(kKnownTiers), "isolated,guarded");
  EXPECT_EQ(FormatTierSet(SetOf(Tier::kGuarded)), "guarded");
  EXPECT_EQ(FormatTierSet(TierSet{1} << 40), "none");
}

}  // namespace
}  // namespace warpline
