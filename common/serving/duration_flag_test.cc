#include "common/serving/duration_flag.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(DurationFlagTest, ReadsWhatItWrites) {
  for (const char* text : {"1m30s", "100ms", "0", "720h", "-5s"}) {
    DurationFlag flag;
    std::string error;
    ASSERT_TRUE(AbslParseFlag(text, &flag, &error)) << error;
    DurationFlag again;
    ASSERT_TRUE(AbslParseFlag(AbslUnparseFlag(flag), &again, &error)) << error;
    EXPECT_EQ(flag.get(), again.get());
  }
  EXPECT_EQ(DurationFlag(absl::Seconds(90)).get(), absl::Seconds(90));
}

TEST(DurationFlagTest, SaysWhatItExpected) {
  for (const char* text : {"", "90", "soon", "1 m"}) {
    DurationFlag flag;
    std::string error;
    EXPECT_FALSE(AbslParseFlag(text, &flag, &error)) << text;
    EXPECT_FALSE(error.empty());
  }
}

TEST(DurationFlagTest, EndlessDurationsAreAsLongAsCanBe) {
  DurationFlag flag;
  std::string error;
  ASSERT_TRUE(AbslParseFlag("inf", &flag, &error));
  EXPECT_GT(flag.get(), absl::Hours(24 * 365 * 100));
}

}  // namespace
}  // namespace warpline
