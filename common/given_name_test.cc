#include "common/given_name.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

using testing::HasSubstr;

std::string Refusal(absl::string_view name) {
  const absl::Status status = CheckGivenName("tenant", name, 8, "-_.");
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(GivenNameTest, PlainNamesAreTaken) {
  for (const char* name : {"a", "a.b", "...", ".a", "a..", "any1", "a-b_c.9", "12345678"}) {
    EXPECT_EQ(Refusal(name), "") << name;
  }
}

TEST(GivenNameTest, OthersAreToldWhatNamesLookLike) {
  for (const std::string& name : {std::string(), std::string("123456789"), std::string("a/b"),
                                  std::string("a b"), std::string("a\0b", 3)}) {
    EXPECT_EQ(Refusal(name), "a tenant's name has up to 8 letters, digits, -, _ or .") << name;
  }
}

TEST(GivenNameTest, FoldersOptionsAndWordsAreNoNames) {
  EXPECT_THAT(Refusal("."), HasSubstr("a tenant cannot be called ., which is a folder"));
  EXPECT_THAT(Refusal(".."), HasSubstr("cannot be called .., which is a folder"));
  EXPECT_THAT(Refusal("-x"), HasSubstr("option"));
  for (const char* word : {"any", "Any", "ALL", "none"}) {
    EXPECT_THAT(Refusal(word), HasSubstr("a word for lists")) << word;
  }
}

}  // namespace
}  // namespace warpline
