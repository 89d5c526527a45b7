#include "scheduler/service_accounts/bounded_json.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/service_accounts/base64url.h"

namespace warpline::scheduler {
namespace {

using ::testing::HasSubstr;

std::string Fault(const std::string& text, const JsonBounds& bounds = {}) {
  const auto parsed = ParseJsonObject(text, bounds);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(BoundedJson, ReadsAnObject) {
  const auto parsed = ParseJsonObject(R"({"a": "x", "b": [1, {}], "c": {"a": null}})", {});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*TextIn(*parsed, "a"), "x");
  EXPECT_EQ(ListIn(*parsed, "b")->size(), 2u);
  EXPECT_NE(ObjectIn(*parsed, "c"), nullptr);
  EXPECT_EQ(TextIn(*parsed, "b"), nullptr);
  EXPECT_EQ(ListIn(*parsed, "c"), nullptr);
  EXPECT_EQ(ObjectIn(*parsed, "d"), nullptr);
}

TEST(BoundedJson, RefusesWhatIsNoJson) {
  for (const std::string text : {"",
                                 " ",
                                 "{",
                                 "}",
                                 "{\"a\"}",
                                 "{\"a\":}",
                                 "{\"a\":1,}",
                                 "{'a':1}",
                                 "{a:1}",
                                 "{} x",
                                 "{}{}",
                                 "{\"a\":01}",
                                 "{\"a\":+1}",
                                 "{\"a\":.5}",
                                 "{\"a\":NaN}",
                                 "{\"a\":1e999}",
                                 "{/**/}",
                                 "{\"a\":\"\n\"}",
                                 "{\"a\":\"\\x\"}",
                                 "{\"a\":\"\\ud800\"}",
                                 "{\"a\":\"\xff\"}",
                                 "{\"a\":\"\xc0\xaf\"}",
                                 "{\"a\":\"\xed\xa0\x80\"}",
                                 "\xef\xbb\xbf{}"}) {
    EXPECT_NE(Fault(text), "") << text;
  }
  EXPECT_NE(Fault(std::string("{}\0", 3)), "");
}

TEST(BoundedJson, RefusesWhatIsNoObject) {
  for (const std::string text : {"[]", "1", "\"{}\"", "null", "true"}) {
    EXPECT_THAT(Fault(text), HasSubstr("no JSON object")) << text;
  }
}

TEST(BoundedJson, RefusesNamesThatAreThereTwice) {
  EXPECT_THAT(Fault(R"({"a": 1, "a": 1})"), HasSubstr("twice"));
  EXPECT_THAT(Fault(R"({"a": 1, "\u0061": 2})"), HasSubstr("twice"));
  EXPECT_THAT(Fault(R"({"b": [{"a": 1, "c": 2, "a": 3}]})"), HasSubstr("twice"));
  EXPECT_EQ(Fault(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]})"), "");
}

TEST(BoundedJson, HoldsToItsBounds) {
  EXPECT_THAT(Fault(std::string(8193, ' ')), HasSubstr("too long"));
  const auto nested = [](int depth) {
    return absl::StrCat("{\"a\":", std::string(depth - 1, '['), std::string(depth - 1, ']'), "}");
  };
  EXPECT_EQ(Fault(nested(8)), "");
  EXPECT_THAT(Fault(nested(9)), HasSubstr("deep"));
  EXPECT_THAT(Fault(nested(4000)), HasSubstr("deep"));
  std::string many = "{\"a\":[0";
  for (int i = 0; i < 509; ++i) many += ",0";
  EXPECT_EQ(Fault(many + "]}"), "");
  EXPECT_THAT(Fault(many + ",0]}"), HasSubstr("too many"));
}

TEST(Base64Url, HasOneSpellingForEachText) {
  EXPECT_EQ(DecodeBase64Url(""), "");
  EXPECT_EQ(DecodeBase64Url("-_8"), "\xfb\xff");
  EXPECT_EQ(EncodeBase64Url("\xfb\xff"), "-_8");
  for (const std::string text : {"-_8=", "-_9", "+/8", "-_ 8", "-", "-_8\n", "-_8.", "\xc3\xa4"}) {
    EXPECT_FALSE(DecodeBase64Url(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace warpline::scheduler
