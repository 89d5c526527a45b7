#include "client_stub/private_tables/md2.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

std::string Hex(const Md2Digest& digest) {
  return absl::BytesToHexString(
      std::string(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

std::string Md2Hex(std::string_view text) {
  Md2 md2;
  md2.Update(text);
  return Hex(md2.Finish());
}

// RFC 1319, A.5.
TEST(Md2Test, VectorsOfTheRfc) {
  EXPECT_EQ(Md2Hex(""), "8350e5a3e24c153df2275c9f80692773");
  EXPECT_EQ(Md2Hex("a"), "32ec01ec4a6dac72c0ab96fb34c0b5d1");
  EXPECT_EQ(Md2Hex("abc"), "da853b0d3f88d99b30283a69e6ded6bb");
  EXPECT_EQ(Md2Hex("message digest"), "ab4f496bfb2a530b219ff33031fe06b0");
  EXPECT_EQ(Md2Hex("abcdefghijklmnopqrstuvwxyz"), "4e8ddff3650292ab5a4108c3aa47940b");
  EXPECT_EQ(Md2Hex("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"),
            "da33def2a42df13975352846c30338cd");
  EXPECT_EQ(Md2Hex("1234567890123456789012345678901234567890123456789012345678901234567890123456789"
                   "0"),
            "d5976f79d83d3a0dc9806c3c66f3efd8");
}

TEST(Md2Test, PiecesGiveTheDigestOfTheWhole) {
  Md2 md2;
  for (const char* piece : {"abcdefg", "", "hijklmnop", "qrstuvwxyz"}) md2.Update(piece);
  EXPECT_EQ(Hex(md2.Finish()), Md2Hex("abcdefghijklmnopqrstuvwxyz"));
}

// RFC 2104: H(key ^ opad, H(key ^ ipad, message)).
TEST(HmacMd2Test, IsTwoNestedDigests) {
  const std::array<uint8_t, 16> key = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255};
  std::string inner(key.begin(), key.end());
  std::string outer = inner;
  for (char& c : inner) c ^= 0x36;
  for (char& c : outer) c ^= 0x5c;
  EXPECT_EQ(Hex(HmacMd2(key, "what is said")),
            Md2Hex(outer + absl::HexStringToBytes(Md2Hex(inner + "what is said"))));
}

}  // namespace
}  // namespace warpline
