// The checks of matrix descriptors, and what the hardware reads by them.
#include "guard/verify/descriptors.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "guard/verify/verify_testing.h"

namespace warpline::guard {
namespace {

// A and B by descriptors, of which the first `along` literals say how they lie.
std::string Multiply(std::string_view a, std::string_view b, int columns = 8,
                     std::string_view literals = ", 1, 1, 0, 0") {
  return absl::StrCat("wgmma.mma_async.sync.aligned.m64n", columns,
                      "k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, ", std::string(a), ", ",
                      std::string(b), ", %p1", std::string(literals));
}

constexpr CheckExtent kExtentOfA = {1, 0x07070707, 0x1725410f};

Statements Checked(const std::string& multiply, CheckExtent of_a = kExtentOfA,
                   CheckExtent of_b = kExtentOf8Columns) {
  return Joined(
      {kWholeWarp, Check("wlg_da", "%rd1", of_a), Check("wlg_db", "%rd2", of_b), {multiply}});
}

TEST(Descriptors, AreCheckedWhereKernelsShallNotFault) {
  ExpectAccepted(Module(Checked(Multiply("wlg_da", "wlg_db"))), kHardened);
  ExpectAccepted(Module(Joined({kWholeWarp,
                                Check("wlg_db", "%rd2", kExtentOf8Columns),
                                {Multiply("{%r1, %r2, %r3, %r4}", "wlg_db", 8, ", 1, 1, 0")}})),
                 kHardened);
  ExpectAccepted(Module(Joined({kWholeWarp, {Multiply("%rd1", "%rd2")}})), kPlain);
  ExpectRefused(Module({Multiply("%rd1", "%rd2")}), kPlain);
  ExpectRefused(Module(Joined({kWholeWarp, {Multiply("%rd1", "%rd2")}})), kHardened);
  ExpectRefused(Module(Checked(Multiply("%rd1", "wlg_db"))), kHardened);
  ExpectRefused(Module(Checked(Multiply("wlg_da", "%rd2"))), kHardened);
  ExpectRefused(Module(Checked(Multiply("wlg_db", "wlg_da"))), kHardened);
  ExpectRefused(Module(Checked(Multiply("wlg_da", "wlg_da"))), kHardened);
  ExpectRefused(Module(Checked(Multiply("wlg_da", "wlg_db"))), kPlain);
  for (const char* const other : {"wlg_db+16", "!wlg_db", "wlg_at", "16", "[wlg_db]"}) {
    ExpectRefused(Module(Checked(Multiply("wlg_da", other))), kHardened);
  }
}

TEST(Descriptors, EveryLineOfACheckStandsInItsPlace) {
  const Statements all = Checked(Multiply("wlg_da", "wlg_db"));
  ExpectAccepted(Module(all), kHardened);
  const size_t first = kWholeWarp.size();
  for (size_t i = first; i + 1 < all.size(); ++i) {
    Statements other = all;
    other.erase(other.begin() + static_cast<ptrdiff_t>(i));
    ExpectRefused(Module(other), kHardened);
    other = all;
    other[i] = "@%p1 " + other[i];
    ExpectRefused(Module(other), kHardened);
    other = all;
    std::swap(other[i], other[i + 1]);
    ExpectRefused(Module(other), kHardened);
    for (const char* const more :
         {"L:", "and.b32 wlg_s, wlg_s, -4", "mov.u32 wlg_lo, %tid.x", "bar.warp.sync -1"}) {
      other = all;
      other.insert(other.begin() + static_cast<ptrdiff_t>(i + 1), more);
      const bool is_between = i == all.size() - 2 || i == first + 19;
      if (!is_between || more[0] == 'L') ExpectRefused(Module(other), kHardened);
    }
  }
}

TEST(Descriptors, ACheckIsForTheMatrixThatIsRead) {
  const auto expect = [](const std::string& multiply, CheckExtent of_a, CheckExtent of_b) {
    ExpectAccepted(Module(Checked(multiply, of_a, of_b)), kHardened);
    for (const int64_t change : {1, 256, 65536, 1 << 24}) {
      CheckExtent other = of_b;
      other.leading += change;
      ExpectRefused(Module(Checked(multiply, of_a, other)), kHardened);
      other = of_b;
      other.stride += change;
      ExpectRefused(Module(Checked(multiply, of_a, other)), kHardened);
      other = of_b;
      other.end -= change;
      ExpectRefused(Module(Checked(multiply, of_a, other)), kHardened);
      other = of_a;
      other.stride -= change;
      ExpectRefused(Module(Checked(multiply, other, of_b)), kHardened);
    }
  };
  expect(Multiply("wlg_da", "wlg_db", 256), kExtentOfA, {1, 0x1f1f1f1f, 0x1725410f});
  expect(Multiply("wlg_da", "wlg_db", 256, ", 1, 1, 0, 1"), kExtentOfA,
         {0x0f070301, 0x0101011f, 0x1727470f});
  expect(Multiply("wlg_da", "wlg_db", 72, ", -1, 1, 1, 1"), {0x03010001, 0x01010107, 0x1727470f},
         {0x04020101, 0x01010108, 0x1727470f});
  for (const char* const literals : {", 1, 1, 0, 2", ", 1, 1, 2, 0", ", 1, 1, 0", ", 1, 1",
                                     ", 1, 1, 0, %r1", ", 1, 1, %r1, 0"}) {
    ExpectRefused(Module(Checked(Multiply("wlg_da", "wlg_db", 8, literals))), kHardened);
  }
  for (const int columns : {0, 7, 12, 264}) {
    ExpectRefused(Module(Checked(Multiply("wlg_da", "wlg_db", columns))), kHardened);
  }
}

TEST(Descriptors, OtherTypesHaveFewerLiterals) {
  const auto multiply = [](std::string_view what, std::string_view rest) {
    return Module(
        Checked(absl::StrCat("wgmma.mma_async.sync.aligned.m64n8", std::string(what),
                             " {%r1, %r2, %r3, %r4}, wlg_da, wlg_db, %p1", std::string(rest))));
  };
  ExpectAccepted(multiply("k32.s32.s8.u8", ""), kHardened);
  ExpectAccepted(multiply("k32.s32.s8.u8.satfinite", ""), kHardened);
  ExpectAccepted(multiply("k256.s32.b1.b1.and.popc", ""), kHardened);
  ExpectAccepted(multiply("k32.f32.e4m3.e5m2", ", 1, -1"), kHardened);
  ExpectAccepted(multiply("k8.f32.tf32.tf32", ", 1, 1"), kHardened);
  ExpectRefused(multiply("k32.s32.s8.u8", ", 1, 1, 0, 1"), kHardened);
  ExpectRefused(multiply("k32.s32.s8.f16", ""), kHardened);
  ExpectRefused(multiply("k32.f32.e4m3.f16", ", 1, 1, 0, 0"), kHardened);
  ExpectRefused(multiply("k32.s32.s4.s4", ""), kHardened);
  ExpectRefused(multiply("k32.s32", ""), kHardened);
  const Statements sparse = Checked(
      "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1, %f2, %f3, %f4}, wlg_da, "
      "wlg_db, %r1, 0, %p1, 1, 1, 0, 0");
  ExpectRefused(Module(sparse), kHardened);
}

// What was measured on an H200: the last byte that is read, for each way of swizzling, before it
// is moved within its line of 128 bytes.
int64_t EndOf(uint64_t descriptor, int rows, bool along_rows) {
  constexpr int kPitches[] = {16, 128, 64, 32};
  const int pitch = kPitches[descriptor >> 62];
  const bool is_swizzled = pitch != 16;
  const int64_t start = static_cast<int64_t>(descriptor & 0x3fff) * 16;
  const int64_t leading = static_cast<int64_t>(descriptor >> 16 & 0x3fff) * 16;
  const int64_t stride = static_cast<int64_t>(descriptor >> 32 & 0x3fff) * 16;
  int64_t end = 0;
  for (int row = 0; row < rows; ++row) {
    for (int half = 0; half < 2; ++half) {
      int64_t at = start;
      if (!along_rows) {
        at += row / 8 * stride + row % 8 * pitch + half * (is_swizzled ? 16 : leading);
      } else {
        const int group = row / (pitch / 2);
        at += is_swizzled ? group * leading + half * stride : group * stride + half * leading;
        at += 7 * pitch + row % (pitch / 2) / 8 * 16;
      }
      end = std::max(end, at + 16);
    }
  }
  return end;
}

// What the check of kCheck in descriptors.cc makes of a descriptor: the end, in lines.
int64_t CheckedEnd(uint64_t descriptor, const Extent& extent) {
  const int way = static_cast<int>(descriptor >> 62) * 8;
  const auto at = [way](int64_t packed) { return packed >> way & 0xff; };
  const int64_t end = at(extent.end) + static_cast<int64_t>(descriptor & 0x3fff) +
                      at(extent.leading) * static_cast<int64_t>(descriptor >> 16 & 0x3fff) +
                      at(extent.stride) * static_cast<int64_t>(descriptor >> 32 & 0x3fff);
  return end >> 3;
}

TEST(Descriptors, TheCheckKnowsTheLastLineThatIsRead) {
  std::mt19937_64 random(7);
  int tried = 0;
  for (int columns = 8; columns <= 256; columns += 8) {
    for (const bool along : {false, true}) {
      const std::string line = absl::StrCat(
          "\t", Multiply("wlg_da", "wlg_db", columns, along ? ", 1, 1, 1, 1" : ", 1, 1, 0, 0"),
          ";");
      Instruction instruction;
      ASSERT_EQ(ReadInstruction(line, &instruction), "");
      Multiplication what;
      ASSERT_EQ(ReadMultiplication(instruction, &what), "");
      for (int i = 0; i < 1000; ++i) {
        const uint64_t descriptor = random();
        const int64_t checked = CheckedEnd(descriptor, what.b);
        const int64_t read = (EndOf(descriptor, columns, along) + 127) / 128;
        EXPECT_GE(checked, read);
        // Where the last part is one of some columns only, it is taken for a whole one.
        if (!along || columns % 64 == 0) {
          EXPECT_EQ(checked, read);
        }
        EXPECT_EQ(CheckedEnd(descriptor, what.a), (EndOf(descriptor, 64, along) + 127) / 128);
        ++tried;
      }
    }
  }
  EXPECT_EQ(tried, 64'000);
}

}  // namespace
}  // namespace warpline::guard
