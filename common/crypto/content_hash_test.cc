#include "common/crypto/content_hash.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

// FIPS 180-2, appendix B.1.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(ContentHashTest, IsSha256) {
  ContentHash hash;
  ASSERT_TRUE(HashContent("abc", &hash));
  EXPECT_EQ(HashText(hash), kAbc);
}

TEST(ContentHashTest, PiecesMakeTheSameHash) {
  ContentHasher hasher;
  hasher.Add("a");
  hasher.Add("");
  hasher.Add("bc");
  ContentHash hash;
  ASSERT_TRUE(hasher.Finish(&hash));
  EXPECT_EQ(HashText(hash), kAbc);
}

TEST(ContentHashTest, OnlyItsOwnTextIsAHash) {
  ContentHash hash;
  ASSERT_TRUE(ParseHash(kAbc, &hash));
  EXPECT_EQ(HashText(hash), kAbc);
  std::string text = kAbc;
  EXPECT_FALSE(ParseHash(text + "0", &hash));
  EXPECT_FALSE(ParseHash(text.substr(1), &hash));
  text[5] = 'F';
  EXPECT_FALSE(ParseHash(text, &hash));
  text[5] = '/';
  EXPECT_FALSE(ParseHash(text, &hash));
}

}  // namespace
}  // namespace warpline
