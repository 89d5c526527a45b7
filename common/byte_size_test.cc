#include "common/byte_size.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

uint64_t Parsed(const std::string& text) {
  ByteSize size;
  std::string error;
  EXPECT_TRUE(AbslParseFlag(text, &size, &error)) << text << ": " << error;
  return size.bytes;
}

bool Refused(const std::string& text) {
  ByteSize size;
  std::string error;
  return !AbslParseFlag(text, &size, &error) && !error.empty();
}

TEST(ByteSizeTest, TakesPlainNumbersAndUnits) {
  EXPECT_EQ(Parsed("0"), 0u);
  EXPECT_EQ(Parsed("1073741824"), 1ull << 30);
  EXPECT_EQ(Parsed("512M"), 512ull << 20);
  EXPECT_EQ(Parsed("8GiB"), 8ull << 30);
  EXPECT_EQ(Parsed("8gb"), 8ull << 30);
  EXPECT_EQ(Parsed("2T"), 2ull << 40);
}

TEST(ByteSizeTest, RefusesTheRest) {
  EXPECT_TRUE(Refused(""));
  EXPECT_TRUE(Refused("-1"));
  EXPECT_TRUE(Refused("1.5G"));
  EXPECT_TRUE(Refused("G"));
  EXPECT_TRUE(Refused("1X"));
  EXPECT_TRUE(Refused("1GiBs"));
  EXPECT_TRUE(Refused("99999999999999999999"));
  EXPECT_TRUE(Refused("18014398509481984T"));
}

TEST(ByteSizeTest, PrintsWhatItReads) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1000}, uint64_t{1} << 20, uint64_t{3} << 41}) {
    EXPECT_EQ(Parsed(AbslUnparseFlag(ByteSize{bytes})), bytes);
  }
}

}  // namespace
}  // namespace warpline
