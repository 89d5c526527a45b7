#include "common/text.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(TextTest, TellsUtf8FromOtherBytes) {
  for (const char* good : {"", "plain", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x7f"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "a\xe2\x82", "\xe2\x28\xa1"}) {
    EXPECT_FALSE(IsUtf8(bad)) << bad;
  }
}

TEST(TextTest, FittedTextIsUtf8AndShort) {
  EXPECT_EQ(FitText("name", 8), "name");
  EXPECT_EQ(FitText("\xc3\xa4", 8), "\xc3\xa4");
  // The limit falls within a character.
  EXPECT_EQ(FitText("a\xc3\xa4", 2), "a\\");
  EXPECT_EQ(FitText("\xff", 8), "\\xff");
  EXPECT_TRUE(IsUtf8(FitText(std::string(1000, '\xff'), 256)));
  EXPECT_EQ(FitText(std::string(1000, '\xff'), 256).size(), 256u);
}

TEST(TextTest, QuotedTextStaysOneValue) {
  EXPECT_EQ(Quoted("train"), "\"train\"");
  EXPECT_EQ(Quoted("a b=c"), "\"a b=c\"");
  EXPECT_EQ(Quoted("x\" tenant=\"root"), "\"x\\\" tenant=\\\"root\"");
  EXPECT_EQ(Quoted("\\"), "\"\\\\\"");
}

TEST(TextTest, NamesAreShortAndPlain) {
  EXPECT_TRUE(IsPlainName("gpu-1.a:2", 16, "-.:"));
  for (const char* name : {"", "a b", "a\n", "a/b", "\xc3\xa4", "12345678901234567"}) {
    EXPECT_FALSE(IsPlainName(name, 16, "-.:")) << name;
  }
}

}  // namespace
}  // namespace warpline
