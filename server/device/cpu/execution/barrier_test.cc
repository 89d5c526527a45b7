// Tests barriers of blocks, and grids whose blocks wait for each other.
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/device/cpu/testing/kernel_fixture.h"

namespace warpline::cpu {
namespace {

using BarrierTest = KernelFixture;

constexpr char kStore[] =
    "mov.u32 %r31, %tid.x;\nmul.wide.u32 %l31, %r31, 4;\nadd.u64 %l31, %l1, %l31;\n"
    "st.global.u32 [%l31], %r0;\n";
constexpr char kShared[] = ".shared .align 4 .b32 tile[256];\n";

TEST_F(BarrierTest, OrdersSharedMemoryBetweenWarps) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    sub.u32 %r5, 255, %r1;
    shl.b32 %r5, %r5, 2;
    add.u32 %r5, %r5, %r3;
    ld.shared.u32 %r0, [%r5];
  )") + kStore,
                                       kShared),
                            256, 256);
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(got[i], 255 - i);
}

TEST_F(BarrierTest, ReducesPredicates) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 70;
    bar.red.popc.u32 %r2, 0, %p1;
    bar.red.and.pred %p2, 0, !%p1;
    bar.red.or.pred %p3, 0, %p1;
    selp.u32 %r3, 1000, 0, %p2;
    selp.u32 %r4, 2000, 0, %p3;
    add.u32 %r0, %r2, %r3;
    add.u32 %r0, %r0, %r4;
  )") + kStore),
                            100, 100);
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(got[i], 2070u);
}

// Warps 0 and 1 hand over through barrier 1; warps 2 and 3 take no part.
TEST_F(BarrierTest, NamedBarriersCountThreads) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    mov.u32 %r0, 9;
    setp.ge.u32 %p1, %r1, 64;
    @%p1 bra END;
    setp.ge.u32 %p2, %r1, 32;
    @%p2 bra CONSUME;
    mov.u32 %r2, 77;
    st.shared.u32 [tile], %r2;
    bar.arrive 1, 64;
    bra END;
  CONSUME:
    bar.sync 1, 64;
    ld.shared.u32 %r0, [tile];
  END:
  )") + kStore,
                                       kShared),
                            128, 128);
  EXPECT_EQ(got[0], 9u);
  EXPECT_EQ(got[32], 77u);
  EXPECT_EQ(got[63], 77u);
  EXPECT_EQ(got[64], 9u);
}

TEST_F(BarrierTest, HalvesOfAWarpMayArriveAtDifferentInstructions) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 1;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra EVEN;
    barrier.sync 0;
    mov.u32 %r0, 1;
    bra END;
  EVEN:
    barrier.sync 0;
    mov.u32 %r0, 2;
  END:
  )") + kStore),
                            64, 64);
  EXPECT_EQ(got[62], 2u);
  EXPECT_EQ(got[63], 1u);
}

TEST_F(BarrierTest, WarpsThatEndedAreNotWaitedFor) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, 32;
    @%p1 ret;
    bar.sync 0;
    mov.u32 %r0, 3;
  )") + kStore),
                            128, 33);
  EXPECT_EQ(got[31], 3u);
  EXPECT_EQ(got[32], 0u);
}

TEST_F(BarrierTest, ThreadsThatWaitForeverEndTheLaunch) {
  EXPECT_EQ(RunToEnd(KernelText("bar.sync 1, 64;"), 32), CudaResult::kLaunchTimeout);
}

// Two barriers to which halves of the lanes, or every other warp, come.
struct Pair {
  const char* one;
  const char* other;
  int of;  // 1 or 32
  uint32_t threads;
  CudaResult result = CudaResult::kIllegalInstruction;
};

class BarrierPairTest : public KernelFixture, public ::testing::WithParamInterface<Pair> {};

// As a GPU does.
TEST_P(BarrierPairTest, FaultsWhereAWarpIsInPartsOrFormsDiffer) {
  const Pair& pair = GetParam();
  EXPECT_EQ(RunToEnd(KernelText(absl::StrCat("mov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, ", pair.of,
                                             ";\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra L;\nbarrier.",
                                             pair.one, ";\nbra END;\nL:\nbarrier.", pair.other,
                                             ";\nEND:\n")),
                     pair.threads),
            pair.result);
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, BarrierPairTest,
    ::testing::Values(Pair{"sync 1", "sync 2", 1, 32}, Pair{"sync 1, 32", "sync 2, 32", 1, 32},
                      Pair{"arrive 1, 64", "arrive 2, 64", 1, 32},
                      Pair{"sync 1", "red.popc.u32 %r3, 1, %p1", 1, 32},
                      Pair{"sync 1, 64", "red.popc.u32 %r3, 1, 64, %p1", 32, 64},
                      Pair{"arrive 1, 64", "sync 1, 96", 32, 96},
                      // Others may be there at the same time.
                      Pair{"sync 1, 32", "sync 2, 32", 32, 64, CudaResult::kSuccess},
                      Pair{"sync 1", "sync 1, 64", 32, 64, CudaResult::kSuccess}));

TEST_F(BarrierTest, ABarrierThatDoesNotExistFaults) {
  EXPECT_EQ(RunToEnd(KernelText("mov.u32 %r1, 16;\nbar.sync %r1;"), 32),
            CudaResult::kIllegalInstruction);
}

// Later blocks wait for earlier ones, as decoupled look-back does, and an early one for a late one.
TEST_F(BarrierTest, BlocksMayWaitForOtherBlocks) {
  const device::KernelId kernel = Load(KernelText(R"(
    mov.u32 %r1, 1;
    atom.global.add.u32 %r2, [%l1], %r1;
    mov.u32 %r3, %nctaid.x;
  WAIT:
    ld.acquire.gpu.global.u32 %r4, [%l1];
    setp.lt.u32 %p1, %r4, %r3;
    @%p1 bra WAIT;
    atom.global.add.u32 %r5, [%l1+4], %r1;
  )"));
  ASSERT_EQ(Launch(kernel, {12, 1, 1}, {1, 1, 1}, 0, memory_, memory_, 0u), CudaResult::kSuccess);
  ASSERT_EQ(Sync(), CudaResult::kSuccess);
  EXPECT_EQ(Read<uint32_t>(memory_, 2), (std::vector<uint32_t>{12, 12}));
}

}  // namespace
}  // namespace warpline::cpu
