#include "tools/cli/help_text.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HelpTextTest, EachCommandHasItsOwn) {
  for (const char* const command :
       {"run", "hold", "ps", "top", "devices", "explain", "stat", "policy", "trace", "replace",
        "audit", "servers", "lease", "migrate", "slice", "tenant"}) {
    const std::string text = HelpText(command);
    EXPECT_EQ(text.rfind(std::string("  warpline ") + command, 0), 0u) << text;
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60) << text;
    EXPECT_LT(text.size(), HelpText().size() / 2) << text;
  }
  EXPECT_THAT(HelpText("tenant"), HasSubstr("LIMITS are"));
  EXPECT_THAT(HelpText("tenant"), HasSubstr("warpline tenant remove NAME"));
  EXPECT_THAT(HelpText("tenant"), Not(HasSubstr("SHAPE is")));
  EXPECT_THAT(HelpText("slice"), HasSubstr("SHAPE is"));
  EXPECT_THAT(HelpText("audit"), HasSubstr("--verify"));
  EXPECT_THAT(HelpText("ps"), Not(HasSubstr("warpline top")));
}

TEST(HelpTextTest, WhatIsNoCommandHasNone) {
  EXPECT_EQ(HelpText("nothing"), "");
  EXPECT_EQ(HelpText(""), "");
}

}  // namespace
}  // namespace warpline::cli
