// Tests f16 and bf16 arithmetic against a reference that rounds by scaling, not by bits.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/device/cpu/testing/kernel_fixture.h"

namespace warpline::cpu {
namespace {

constexpr size_t kCases = 8192;
constexpr int kThreads = 256;

struct Format {
  const char* name;
  int fraction;
  int least;  // Exponent of the least normal number
  int most;   // ... and of the greatest
  int bias;
};
constexpr Format kF16 = {"f16", 10, -14, 15, 15};
constexpr Format kBf16 = {"bf16", 7, -126, 127, 127};

long double Value(const Format& f, uint16_t bits) {
  const int sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits & 0x7fff) >> f.fraction;
  const int fraction = bits & ((1 << f.fraction) - 1);
  if (exponent == 2 * f.bias + 1) {
    return fraction != 0 ? std::numeric_limits<long double>::quiet_NaN()
                         : sign * std::numeric_limits<long double>::infinity();
  }
  const long double magnitude =
      exponent == 0 ? std::ldexp(static_cast<long double>(fraction), f.least - f.fraction)
                    : std::ldexp(static_cast<long double>(fraction + (1 << f.fraction)),
                                 exponent - f.bias - f.fraction);
  return sign * magnitude;
}

// `v` holds the exact result, or one that rounds in the same way.
uint16_t Round(const Format& f, long double v) {
  if (std::isnan(v)) return 0x7fff;
  const auto sign = static_cast<uint16_t>(std::signbit(v) ? 0x8000 : 0);
  const auto infinity = static_cast<uint16_t>((2 * f.bias + 1) << f.fraction);
  const long double size = std::fabs(v);
  if (std::isinf(v)) return sign | infinity;
  if (size == 0) return sign;
  const int exponent = std::max(std::ilogb(size), f.least);
  const long double unit = std::ldexp(1.0L, exponent - f.fraction);
  const long double steps = std::nearbyint(size / unit);
  const auto whole = static_cast<uint32_t>(steps);
  const uint32_t bits = whole < (1u << f.fraction)
                            ? whole
                            : (static_cast<uint32_t>(exponent + f.bias - 1) << f.fraction) + whole;
  return static_cast<uint16_t>(sign | std::min<uint32_t>(bits, infinity));
}

// An addend that vanishes beside the other still tells on which side of a tie the sum lies.
long double Fma(long double a, long double b, long double c) {
  const long double product = a * b;
  const long double sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const bool product_first = std::fabs(product) > std::fabs(c);
  const long double large = product_first ? product : c;
  const long double small = product_first ? c : product;
  if (sum != large || small == 0) return sum;
  const long double infinity = std::numeric_limits<long double>::infinity();
  return std::nextafter(sum, small > 0 ? infinity : -infinity);
}

bool IsNan(const Format& f, uint16_t bits) { return std::isnan(Value(f, bits)); }

std::vector<uint16_t> Inputs(uint64_t seed) {
  std::vector<uint16_t> values(kCases);
  const uint16_t special[] = {0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x3c00, 0xbc00,
                              0x3f80, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x7f80, 0xff80, 0x7fff};
  for (size_t i = 0; i < kCases; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values[i] = static_cast<uint16_t>(seed >> 40);
    if (seed >> 61 == 0) values[i] = special[seed >> 20 & 15];
  }
  return values;
}

class HalfTest : public KernelFixture, public ::testing::WithParamInterface<Format> {
 protected:
  // Runs `instruction` (TYPE stands for the type; d is %h4, operands %h1 to %h3) for every case.
  std::vector<uint16_t> Run(std::string_view instruction) {
    const std::string body = absl::StrCat(
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;"
        "mad.lo.u32 %r4, %r1, %r2, %r3; mul.wide.u32 %l2, %r4, 2; add.u64 %l3, %l1, %l2;"
        "ld.global.b16 %h1, [%l3]; ld.global.b16 %h2, [%l3+16384];"
        "ld.global.b16 %h3, [%l3+32768];",
        absl::StrReplaceAll(std::string(instruction), {{"TYPE", GetParam().name}}),
        "st.global.b16 [%l3+49152], %h4; ret;");
    const device::KernelId kernel = Load(KernelText(body));
    for (size_t i = 0; i < 3; ++i) Write(memory_ + 16384 * i, operands_[i]);
    EXPECT_EQ(Launch(kernel, {kCases / kThreads, 1, 1}, {kThreads, 1, 1}, 0, memory_,
                     memory_ + 4096, uint32_t{7}),
              CudaResult::kSuccess);
    EXPECT_EQ(Sync(), CudaResult::kSuccess);
    return Read<uint16_t>(memory_ + 49152, kCases);
  }

  template <typename Expected>
  void Check(std::string_view instruction, Expected expected) {
    const std::vector<uint16_t> got = Run(instruction);
    for (size_t i = 0; i < kCases; ++i) {
      const uint16_t a = operands_[0][i], b = operands_[1][i], c = operands_[2][i];
      ASSERT_EQ(got[i], expected(a, b, c))
          << std::string(instruction) << std::hex << " a=" << a << " b=" << b << " c=" << c;
    }
  }

  long double V(uint16_t bits) const { return Value(GetParam(), bits); }
  uint16_t R(long double v) const { return Round(GetParam(), v); }

  const std::vector<std::vector<uint16_t>> operands_ = {Inputs(1), Inputs(2), Inputs(3)};
};

TEST_P(HalfTest, SumsAndProductsAreRoundedOnce) {
  Check("add.TYPE %h4, %h1, %h2;", [&](auto a, auto b, auto) { return R(V(a) + V(b)); });
  Check("sub.TYPE %h4, %h1, %h2;", [&](auto a, auto b, auto) { return R(V(a) - V(b)); });
  Check("mul.TYPE %h4, %h1, %h2;", [&](auto a, auto b, auto) { return R(V(a) * V(b)); });
}

TEST_P(HalfTest, FusedMultiplyAdd) {
  Check("fma.rn.TYPE %h4, %h1, %h2, %h3;",
        [&](auto a, auto b, auto c) { return R(Fma(V(a), V(b), V(c))); });
  Check("fma.rn.relu.TYPE %h4, %h1, %h2, %h3;", [&](auto a, auto b, auto c) {
    const uint16_t r = R(Fma(V(a), V(b), V(c)));
    return IsNan(GetParam(), r) ? r : (r & 0x8000) != 0 ? uint16_t{0} : r;
  });
}

TEST_P(HalfTest, MinimumAndMaximum) {
  const auto least = [&](uint16_t a, uint16_t b, auto) {
    if (IsNan(GetParam(), a)) return IsNan(GetParam(), b) ? uint16_t{0x7fff} : b;
    if (IsNan(GetParam(), b) || V(a) < V(b)) return a;
    return V(b) < V(a) || (b & 0x8000) != 0 ? b : a;
  };
  Check("min.TYPE %h4, %h1, %h2;", least);
  Check("neg.TYPE %h1, %h1; neg.TYPE %h2, %h2; max.TYPE %h4, %h1, %h2; neg.TYPE %h4, %h4;",
        [&](uint16_t a, uint16_t b, uint16_t c) {
          const uint16_t r = least(a, b, c);
          return IsNan(GetParam(), r) ? uint16_t{0xffff} : r;
        });
}

TEST_P(HalfTest, PairsActOnBothHalves) {
  Check(
      "mov.b32 %r5, {%h1, %h2}; mov.b32 %r6, {%h2, %h3}; fma.rn.TYPEx2 %r7, %r5, %r6, %r5;"
      "mov.b32 {%h5, %h6}, %r7; xor.b16 %h4, %h5, %h6;",
      [&](auto a, auto b, auto c) {
        return static_cast<uint16_t>(R(Fma(V(a), V(b), V(a))) ^ R(Fma(V(b), V(c), V(b))));
      });
}

TEST_P(HalfTest, ConversionsThereAndBack) {
  Check("cvt.f32.TYPE %f1, %h1; cvt.rn.TYPE.f32 %h4, %f1;",
        [&](auto a, auto, auto) { return R(V(a)); });
  Check("cvt.rzi.s32.TYPE %r5, %h1; cvt.rn.TYPE.s32 %h4, %r5;", [&](uint16_t a, auto, auto) {
    if (IsNan(GetParam(), a)) return R(0);
    const long double v = std::trunc(V(a));
    return R(v > 2147483647.0L ? 2147483647.0L : v < -2147483648.0L ? -2147483648.0L : v + 0.0L);
  });
  Check(
      "cvt.f32.TYPE %f1, %h1; cvt.f32.TYPE %f2, %h2; cvt.rn.TYPEx2.f32 %r5, %f1, %f2;"
      "mov.b32 {%h4, %h5}, %r5;",
      [&](auto, auto b, auto) { return R(V(b)); });
}

TEST_P(HalfTest, Comparisons) {
  Check(
      "setp.lt.TYPE %p1, %h1, %h2; setp.geu.TYPE %p2, %h1, %h3; selp.b16 %h5, 1, 0, %p1;"
      "selp.b16 %h6, 2, 0, %p2; or.b16 %h4, %h5, %h6;",
      [&](auto a, auto b, auto c) {
        return static_cast<uint16_t>((V(a) < V(b) ? 1 : 0) | (!(V(a) < V(c)) ? 2 : 0));
      });
}

INSTANTIATE_TEST_SUITE_P(Formats, HalfTest, ::testing::Values(kF16, kBf16),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace warpline::cpu
