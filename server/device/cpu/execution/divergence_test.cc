// Tests lanes of a warp that part and meet: branches, loops, locks, exchanges, calls.
#include <vector>

#include "server/device/cpu/testing/kernel_fixture.h"

namespace warpline::cpu {
namespace {

using DivergenceTest = KernelFixture;

// Stores %r0 to word tid.
constexpr char kStore[] =
    "mov.u32 %r31, %tid.x;\nmul.wide.u32 %l31, %r31, 4;\nadd.u64 %l31, %l1, %l31;\n"
    "st.global.u32 [%l31], %r0;\n";

TEST_F(DivergenceTest, LoopsOfDifferentLengthMeetAgain) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
  AGAIN:
    setp.ge.u32 %p1, %r3, %r1;
    @%p1 bra DONE;
    add.u32 %r2, %r2, %r3;
    add.u32 %r3, %r3, 1;
    bra AGAIN;
  DONE:
    activemask.b32 %r4;
    setp.eq.u32 %p2, %r4, 0xffffffff;
    selp.u32 %r0, %r2, 0xdead, %p2;
  )") + kStore),
                            32, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], i == 0 ? 0 : i * (i - 1) / 2) << i;
}

TEST_F(DivergenceTest, BothSidesOfNestedBranchesRun) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 1;
    and.b32 %r3, %r1, 2;
    setp.eq.u32 %p1, %r2, 0;
    setp.eq.u32 %p2, %r3, 0;
    @%p1 bra EVEN;
    @%p2 bra ODD_LOW;
    mov.u32 %r0, 30;
    bra JOIN;
  ODD_LOW:
    mov.u32 %r0, 10;
    bra JOIN;
  EVEN:
    @!%p2 bra EVEN_HIGH;
    mov.u32 %r0, 0;
    bra JOIN;
  EVEN_HIGH:
    mov.u32 %r0, 20;
  JOIN:
    vote.sync.ballot.b32 %r4, %p1, 0xffffffff;
    add.u32 %r0, %r0, %r4;
  )") + kStore),
                            32, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], 0x55555555u + 10 * (i & 3)) << i;
}

// The winner of the lock releases it in a block before which the losers spin.
TEST_F(DivergenceTest, LanesOfOneWarpCanTakeTurnsWithASpinLock) {
  const auto got = RunWords(KernelText(R"(
    mov.u32 %r5, 0;
  TRY:
    atom.global.cas.b32 %r1, [%l1], 0, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra TRY;
    ld.volatile.global.u32 %r2, [%l1+4];
    add.u32 %r2, %r2, 1;
    st.volatile.global.u32 [%l1+4], %r2;
    membar.gl;
    atom.global.exch.b32 %r3, [%l1], 0;
  )"),
                            96, 2);
  EXPECT_EQ(got, (std::vector<uint32_t>{0, 96}));
}

TEST_F(DivergenceTest, ALaneMayWaitForAnotherOfItsWarp) {
  const auto got = RunWords(KernelText(R"(
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra WAIT;
    mov.u32 %r2, 5;
    st.release.gpu.global.u32 [%l1], %r2;
    bra END;
  WAIT:
    ld.acquire.gpu.global.u32 %r3, [%l1];
    setp.eq.u32 %p2, %r3, 0;
    @%p2 bra WAIT;
    st.global.u32 [%l1+4], %r3;
  END:
  )"),
                            2, 2);
  EXPECT_EQ(got, (std::vector<uint32_t>{5, 5}));
}

TEST_F(DivergenceTest, ShuffleWaitsForLanesThatCameAnotherWay) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 100;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra LOW;
    mov.u32 %r2, 200;
  LOW:
    add.u32 %r2, %r2, %r1;
    shfl.sync.bfly.b32 %r0, %r2, 16, 31, 0xffffffff;
  )") + kStore),
                            32, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], i < 16 ? 216 + i : 84 + i) << i;
}

TEST_F(DivergenceTest, WarpBarriersAtDifferentInstructionsMatch) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra LOW;
    mov.u32 %r2, 1;
    st.volatile.global.u32 [%l1+256], %r2;
    bar.warp.sync 0xffffffff;
    ld.volatile.global.u32 %r0, [%l1+260];
    bra JOIN;
  LOW:
    mov.u32 %r2, 2;
    st.volatile.global.u32 [%l1+260], %r2;
    bar.warp.sync 0xffffffff;
    ld.volatile.global.u32 %r0, [%l1+256];
  JOIN:
  )") + kStore),
                            32, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], i < 16 ? 1u : 2u) << i;
}

TEST_F(DivergenceTest, GroupsThatNameDifferentMembersExchangeApart) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 3;
    match.any.sync.b32 %r3, %r2, 0xffffffff;
    vote.sync.ballot.b32 %r4, 1, %r3;
    setp.lt.u32 %p1, %r1, 16;
    vote.sync.ballot.b32 %r5, %p1, %r3;
    xor.b32 %r0, %r3, %r5;
    setp.ne.u32 %p2, %r3, %r4;
    @%p2 mov.u32 %r0, 0;
  )") + kStore),
                            32, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], 0x11110000u << (i & 3)) << i;
}

TEST_F(DivergenceTest, ExitedLanesAreNotWaitedFor) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, 20;
    @%p1 exit;
    vote.sync.ballot.b32 %r0, 1, 0xffffffff;
    bar.sync 0;
  )") + kStore),
                            32, 21);
  EXPECT_EQ(got[0], 0xfffffu);
  EXPECT_EQ(got[19], 0xfffffu);
  EXPECT_EQ(got[20], 0u);
}

TEST_F(DivergenceTest, PartOfAWarpHasOnlyItsLanes) {
  const auto got = RunWords(KernelText(std::string("activemask.b32 %r0;\n") + kStore), 37, 37);
  EXPECT_EQ(got[0], 0xffffffffu);
  EXPECT_EQ(got[36], 0x1fu);
}

TEST_F(DivergenceTest, LabelsOfInnerBlocksShadow) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r0, 0;
    {
      .reg .b32 %r0;
      .reg .pred q;
      mov.u32 %r0, 5;
    AGAIN:
      sub.u32 %r0, %r0, 1;
      setp.ne.u32 q, %r0, 0;
      @q bra AGAIN;
    }
    {
      .reg .pred q;
    AGAIN:
      add.u32 %r0, %r0, 1;
      setp.lt.u32 q, %r0, 7;
      @q bra AGAIN;
    }
  )") + kStore),
                            1, 1);
  EXPECT_EQ(got[0], 7u);
}

TEST_F(DivergenceTest, AnEndlessLoopStopsWithItsContext) {
  const device::KernelId kernel = Load(KernelText("FOREVER: bra FOREVER;"));
  ASSERT_EQ(Launch(kernel, {100, 1, 1}, {64, 1, 1}, 0, memory_, memory_, 0u), CudaResult::kSuccess);
  ASSERT_EQ(Launch(kernel, {1, 1, 1}, {64, 1, 1}, 0, memory_, memory_, 0u), CudaResult::kSuccess);
  context_.reset();
}

}  // namespace
}  // namespace warpline::cpu
