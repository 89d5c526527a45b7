#include "server/device/cpu/libraries/float8.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace warpline::cpu {
namespace {

template <typename Format>
void ComeBack() {
  for (int i = 0; i < 256; ++i) {
    const auto v = static_cast<uint8_t>(i);
    const double wide = Format::Widen(v);
    if (std::isfinite(wide)) {
      EXPECT_EQ(Format::Narrow(wide), v) << i;
    }
  }
}

TEST(Float8Test, NumbersComeBack) {
  ComeBack<Float8<3>>();
  ComeBack<Float8<2>>();
}

TEST(Float8Test, HasTheNumbersOfTheFormats) {
  EXPECT_EQ(Float8<3>::Widen(0x38), 1.0);
  EXPECT_EQ(Float8<3>::Widen(0x7e), 448.0);
  EXPECT_EQ(Float8<3>::Widen(0x01), std::ldexp(1, -9));
  EXPECT_TRUE(std::isnan(Float8<3>::Widen(0x7f)));
  EXPECT_EQ(Float8<2>::Widen(0xbc), -1.0);
  EXPECT_EQ(Float8<2>::Widen(0x7b), 57344.0);
  EXPECT_EQ(Float8<2>::Widen(0x01), std::ldexp(1, -16));
  EXPECT_EQ(Float8<2>::Widen(0xfc), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(Float8<2>::Widen(0x7d)));
}

TEST(Float8Test, RoundsToEvenAndToTheLargest) {
  // Between 1 and 1.125, and between 1.125 and 1.25.
  EXPECT_EQ(Float8<3>::Narrow(1.0625), 0x38);
  EXPECT_EQ(Float8<3>::Narrow(1.1875), 0x3a);
  EXPECT_EQ(Float8<3>::Narrow(1.07), 0x39);
  EXPECT_EQ(Float8<3>::Narrow(-1e9), 0xfe);
  EXPECT_EQ(Float8<3>::Narrow(460), 0x7e);
  EXPECT_EQ(Float8<2>::Narrow(std::numeric_limits<double>::infinity()), 0x7b);
  EXPECT_EQ(Float8<3>::Narrow(std::numeric_limits<double>::quiet_NaN()), 0x7f);
  EXPECT_EQ(Float8<3>::Narrow(-0.0), 0x80);
  EXPECT_EQ(Float8<3>::Narrow(std::ldexp(1, -11)), 0x00);
}

}  // namespace
}  // namespace warpline::cpu
