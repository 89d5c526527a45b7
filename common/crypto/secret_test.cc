#include "common/crypto/secret.h"

#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(SecretTest, EqualOnlyToItself) {
  EXPECT_TRUE(EqualSecrets("", ""));
  EXPECT_TRUE(EqualSecrets("a secret", "a secret"));
  EXPECT_FALSE(EqualSecrets("a secret", "b secret"));
  EXPECT_FALSE(EqualSecrets("a secret", "a secre\0"));
  EXPECT_FALSE(EqualSecrets("a secret", "a secret "));
  EXPECT_FALSE(EqualSecrets(std::string("a\0b", 3), std::string("a\0c", 3)));
  EXPECT_FALSE(EqualSecrets("", "a"));
}

TEST(SecretTest, RandomBytesAreAsManyAndOthersEachTime) {
  EXPECT_EQ(RandomBytes(0), "");
  EXPECT_EQ(RandomBytes(1000).size(), 1000u);
  EXPECT_NE(RandomBytes(16), RandomBytes(16));
}

}  // namespace
}  // namespace warpline
