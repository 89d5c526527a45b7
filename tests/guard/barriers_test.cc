// Kernels with several barriers of a block, which get numbers of their own where they are hardened,
// and whole warps: they compute what they did, or say why not.
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "guard/guard.h"
#include "guard/records.h"
#include "tests/guard/two_arenas.h"

namespace warpline::guard {
namespace {

constexpr uint32_t kThreads = 128;

// %r1 is the number of the thread, %r2 the address of its word in `tile`, in shared memory. What is
// in %r3 at the end is its result. %p1 holds in every third thread, %p2 in the first 64.
std::string Kernel(const std::string& body, const std::string& declarations) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n" + declarations +
         ".visible .entry k(.param .u64 out)\n{\n"
         ".reg .pred %p<6>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .shared .align 16 .b8 tile[512];\n"
         "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, 4, %r2;\n"
         "rem.u32 %r4, %r1, 3; setp.eq.u32 %p1, %r4, 0; setp.lt.u32 %p2, %r1, 64; mov.u32 %r3, "
         "0;\n" +
         body +
         "\nld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;\n"
         "st.global.u32 [%rd1], %r3;\nret;\n}\n";
}

class BarriersTest : public ::testing::TestWithParam<bool> {
 protected:
  // Returns the results of kThreads threads, those that there are not being 0.
  std::vector<uint32_t> Run(const std::string& body, const std::string& declarations = "",
                            const std::array<uint32_t, 3>& block = {kThreads, 1, 1}) {
    auto arenas = TwoArenas::Open("cpu");
    EXPECT_TRUE(arenas.ok()) << arenas.status();
    const auto guarded = Guard(Kernel(body, declarations),
                               {.arena_bits = TwoArenas::kArenaBits, .hardened = GetParam()});
    EXPECT_TRUE(guarded.ok()) << guarded.status();
    // Several barriers are for whole warps.
    EXPECT_EQ(guarded->text.find("activemask") != std::string::npos, GetParam()) << guarded->text;
    EXPECT_EQ(guarded->leaves_records, GetParam());
    TwoArenas::Tenant& tenant = (*arenas)->attacker();
    EXPECT_EQ((*arenas)->Write(tenant.records, {0, 0, 0}), CudaResult::kSuccess);
    EXPECT_EQ((*arenas)->Write(tenant.memory, std::vector<uint32_t>(kThreads)),
              CudaResult::kSuccess);
    const auto kernel = (*arenas)->LoadFor(tenant, *guarded, "k");
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    std::vector<std::byte> params(8);
    std::memcpy(params.data(), &tenant.memory, 8);
    EXPECT_EQ((*arenas)->RunBlock(*kernel, block, params), CudaResult::kSuccess);
    std::vector<uint32_t> words;
    EXPECT_EQ((*arenas)->Read(tenant.records, sizeof(RecordsHeader) / 4, &words),
              CudaResult::kSuccess);
    parted_line_ = words[kPartedLineOffset / 4];
    EXPECT_EQ((*arenas)->Read(tenant.memory, kThreads, &words), CudaResult::kSuccess);
    return words;
  }

  uint32_t parted_line_ = 0;  // Where threads ended since their warp was not whole; 0 if none did
};

TEST_P(BarriersTest, OneCountsAndAnotherOneWaits) {
  const auto words =
      Run("st.shared.u32 [%r2], %r1; bar.sync 0; xor.b32 %r5, %r2, 256; ld.shared.u32 %r3, [%r5];\n"
          "bar.red.popc.u32 %r6, 0, %p1; mad.lo.u32 %r3, %r6, 1000, %r3;");
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(words[i], 43000 + (i ^ 64)) << i;
}

TEST_P(BarriersTest, HalvesOfABlockHaveTheirOwn) {
  const auto words =
      Run("st.shared.u32 [%r2], %r1; xor.b32 %r5, %r2, 128; @%p2 bra LOW;\n"
          "bar.sync 2, 64; ld.shared.u32 %r3, [%r5]; bra BOTH;\n"
          "LOW: bar.sync 1, 64; ld.shared.u32 %r3, [%r5]; add.u32 %r3, %r3, 500;\n"
          "BOTH: bar.sync 0;");
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(words[i], (i ^ 32) + (i < 64 ? 500 : 0)) << i;
}

TEST_P(BarriersTest, SomeArriveAndOthersWait) {
  const auto words =
      Run("@!%p2 bra READ; st.shared.u32 [%r2], %r1; bar.arrive 1, 128; bra END;\n"
          "READ: bar.sync 1, 128; xor.b32 %r5, %r2, 256; ld.shared.u32 %r3, [%r5];\nEND:");
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(words[i], i < 64 ? 0 : i - 64) << i;
}

TEST_P(BarriersTest, InLoopsAndWithPredicates) {
  const auto words = Run(
      "mov.u32 %r6, 0; xor.b32 %r5, %r2, 128;\n"
      "L: add.u32 %r7, %r1, %r6; st.shared.u32 [%r2], %r7; @%p2 bar.sync 3, 64; @!%p2 bar.sync 4, "
      "64;\n"
      "ld.shared.u32 %r8, [%r5]; add.u32 %r3, %r3, %r8; bar.sync 0;\n"
      "add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 5; @%p3 bra L;");
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(words[i], 5 * (i ^ 32) + 10) << i;
}

TEST_P(BarriersTest, AlsoInFunctions) {
  const auto words =
      Run("{ .param .b32 r; call (r), votes, (); ld.param.b32 %r3, [r]; }\n"
          "bar.sync 0; bar.red.popc.u32 %r6, 0, %p1; add.u32 %r3, %r3, %r6;",
          ".func (.param .b32 o) votes() {.reg .pred %p<3>; .reg .b32 %r<3>; mov.u32 %r1, %tid.x;\n"
          "setp.gt.u32 %p1, %r1, 99; bar.red.or.pred %p2, 0, %p1; selp.b32 %r2, 100, 0, %p2;\n"
          "st.param.b32 [o], %r2; ret;}\n");
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(words[i], 143u) << i;
}

// What each thread reads from the one before, and how many of all are every third.
constexpr char kShift[] =
    "st.shared.u32 [%r2], %r1; bar.sync 0; add.u32 %r5, %r1, 1; mov.u32 %r6, %ntid.x;\n"
    "rem.u32 %r5, %r5, %r6; mov.u32 %r6, tile; mad.lo.u32 %r5, %r5, 4, %r6;\n"
    "ld.shared.u32 %r3, [%r5]; bar.red.popc.u32 %r6, 0, %p1; mad.lo.u32 %r3, %r6, 1000, %r3;\n";

// The last warp of the block has fewer than 32 lanes.
TEST_P(BarriersTest, ABlockMayEndWithAPartOfAWarp) {
  for (const uint32_t threads : {1u, 20u, 33u, 100u, 127u}) {
    SCOPED_TRACE(threads);
    const auto words = Run(kShift, "", {threads, 1, 1});
    for (uint32_t i = 0; i < threads; ++i) {
      EXPECT_EQ(words[i], (threads + 2) / 3 * 1000 + (i + 1) % threads) << i;
    }
    EXPECT_EQ(parted_line_, 0u);
  }
}

TEST_P(BarriersTest, ABlockMayHaveSeveralRows) {
  // Each thread has its number in the block in %r1.
  const std::string number =
      "mov.u32 %r5, %tid.z; mov.u32 %r6, %ntid.y; mov.u32 %r7, %tid.y; mad.lo.u32 %r5, %r5, %r6, "
      "%r7; mov.u32 %r6, %ntid.x; mad.lo.u32 %r1, %r5, %r6, %r1; mov.u32 %r2, tile; mad.lo.u32 "
      "%r2, "
      "%r1, 4, %r2; rem.u32 %r4, %r1, 3; setp.eq.u32 %p1, %r4, 0;\n";
  const auto words =
      Run(number +
              "st.shared.u32 [%r2], %r1; bar.sync 0; mov.u32 %r5, tile; mad.lo.u32 %r6, %r1, -4, "
              "%r5; ld.shared.u32 %r3, [%r6+416];\n"
              "bar.red.popc.u32 %r6, 0, %p1; mad.lo.u32 %r3, %r6, 1000, %r3;",
          "", {7, 5, 3});
  for (uint32_t i = 0; i < 105; ++i) EXPECT_EQ(words[i], 35104 - i) << i;
  EXPECT_EQ(parted_line_, 0u);
}

// Threads that are out of range return at once, and the others of their warp wait for each other.
TEST_P(BarriersTest, SomeLanesMayHaveReturned) {
  const std::string rest =
      "st.shared.u32 [%r2], %r1; bar.sync 0; ld.shared.u32 %r3, [%r2];\n"
      "bar.red.popc.u32 %r6, 0, %p1; mad.lo.u32 %r3, %r6, 1000, %r3;\n";
  for (const char* const early :
       {"setp.gt.u32 %p3, %r1, 69; @%p3 ret;\n", "setp.gt.u32 %p3, %r1, 69; @%p3 bra OUT;\n",
        "setp.le.u32 %p3, %r1, 69; @!%p3 exit;\n",
        "setp.gt.u32 %p3, %r1, 99; @%p3 ret; setp.gt.u32 %p3, %r1, 69; @%p3 ret;\n",
        "bar.sync 0; setp.gt.u32 %p3, %r1, 69; @%p3 ret;\n"}) {
    SCOPED_TRACE(early);
    // Nothing but the end is behind the label.
    const std::string after =
        "ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;\n"
        "st.global.u32 [%rd1], %r3;\nOUT: ret;\n";
    for (const uint32_t threads : {100u, 128u}) {
      const auto words = Run(early + rest + after, "", {threads, 1, 1});
      for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(words[i], i < 70 ? 24000 + i : 0) << i;
      EXPECT_EQ(parted_line_, 0u);
    }
  }
}

// In a loop, from which lanes leave by and by.
TEST_P(BarriersTest, LanesMayReturnInEachTurn) {
  const auto words =
      Run("mov.u32 %r6, 0; L: bar.sync 0; add.u32 %r6, %r6, 1; ld.param.u64 %rd1, [out];\n"
          "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r6;\n"
          "rem.u32 %r5, %r1, 9; setp.lt.u32 %p3, %r5, %r6; @%p3 ret;\n"
          "bar.red.popc.u32 %r3, 0, %p1; setp.lt.u32 %p4, %r6, 20; @%p4 bra L;");
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(words[i], i % 9 + 1) << i;
  EXPECT_EQ(parted_line_, 0u);
}

// Where it cannot be said which lanes are left, their threads end, and leave the line.
TEST_P(BarriersTest, ThreadsSayWhyTheyEnd) {
  const auto words =
      Run("setp.gt.u32 %p3, %r1, 50; @!%p3 bra ON;\nmov.u32 %r4, 1;\nsetp.lt.u32 %p4, %r1, 60;\n"
          "@%p4 ret;\nON: bar.sync 0;\nbar.red.popc.u32 %r3, 0, %p1;\n");
  const bool hardened = GetParam();
  for (uint32_t i = 0; i < kThreads; ++i) {
    const bool has_returned = i > 50 && i < 60;
    const bool has_ended = hardened && i >= 32 && i < 64;
    EXPECT_EQ(words[i], has_returned || has_ended ? 0 : hardened ? 32 : 40) << i;
  }
  EXPECT_EQ(parted_line_, hardened ? 13u : 0u);
}

// Parts of a warp at barriers of different numbers, which end a GPU's context.
TEST_P(BarriersTest, PartsOfAWarpSayWhyTheyEnd) {
  if (!GetParam()) return;
  const auto words = Run(
      "setp.lt.u32 %p3, %r1, 16; @%p3 bra ON;\nbar.sync 1;\nbra OUT;\nON: bar.sync 2;\nOUT:", "",
      {32, 1, 1});
  EXPECT_EQ(words, std::vector<uint32_t>(kThreads));
  EXPECT_NE(parted_line_, 0u);
}

INSTANTIATE_TEST_SUITE_P(Modes, BarriersTest, ::testing::Bool());

}  // namespace
}  // namespace warpline::guard
