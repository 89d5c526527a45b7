// Tests calls of device functions.
#include <vector>

#include "server/device/cpu/testing/kernel_fixture.h"

namespace warpline::cpu {
namespace {

using CallTest = KernelFixture;

constexpr char kStore[] =
    "mov.u32 %r31, %tid.x;\nmul.wide.u32 %l31, %r31, 4;\nadd.u64 %l31, %l1, %l31;\n"
    "st.global.u32 [%l31], %r0;\n";

constexpr char kFibonacci[] = R"(
.func (.param .b32 out) fib(.param .b32 n)
{
  .reg .pred p;
  .reg .b32 %r<9>;
  ld.param.u32 %r1, [n];
  setp.lt.u32 p, %r1, 2;
  @p bra LEAF;
  sub.u32 %r2, %r1, 1;
  {
    .param .b32 a;
    .param .b32 v;
    st.param.b32 [a], %r2;
    call.uni (v), fib, (a);
    ld.param.b32 %r3, [v];
  }
  sub.u32 %r2, %r1, 2;
  {
    .param .b32 a;
    .param .b32 v;
    st.param.b32 [a], %r2;
    call.uni (v), fib, (a);
    ld.param.b32 %r4, [v];
  }
  add.u32 %r1, %r3, %r4;
LEAF:
  st.param.b32 [out], %r1;
  ret;
}
)";

TEST_F(CallTest, RecursionOfDifferentDepthInEveryLane) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    and.b32 %r1, %r1, 15;
    {
      .param .b32 a;
      .param .b32 v;
      st.param.b32 [a+0], %r1;
      call.uni (v), fib, (a);
      ld.param.b32 %r0, [v+0];
    }
  )") + kStore,
                                       kFibonacci),
                            64, 64);
  const uint32_t fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610};
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(got[i], fib[i & 15]) << i;
}

TEST_F(CallTest, EndlessRecursionOverflowsTheStack) {
  EXPECT_EQ(RunToEnd(KernelText("call.uni deep;", R"(
.func deep()
{
  .reg .b32 %r<2>;
  call.uni deep;
  mov.u32 %r1, %tid.x;
  ret;
}
)"),
                     1),
            CudaResult::kHardwareStackError);
}

TEST_F(CallTest, StructuresAndAddressesOfParameters) {
  const auto got = RunWords(KernelText(R"(
    {
      .param .align 8 .b8 a[16];
      .param .align 8 .b8 v[16];
      st.param.v2.b32 [a], {3, 4};
      st.param.b64 [a+8], 100;
      call.uni (v), swap, (a);
      ld.param.b64 %l2, [v];
      ld.param.v2.b32 {%r1, %r2}, [v+8];
    }
    st.global.u64 [%l1], %l2;
    st.global.v2.u32 [%l1+8], {%r1, %r2};
  )",
                                       R"(
.func (.param .align 8 .b8 out[16]) swap(.param .align 8 .b8 in[16])
{
  .reg .b32 %r<4>;
  .reg .b64 %l<4>;
  mov.b64 %l1, in;
  ld.param.v2.b32 {%r1, %r2}, [%l1];
  ld.param.b64 %l2, [in+8];
  add.u64 %l2, %l2, 1;
  st.param.b64 [out], %l2;
  st.param.v2.b32 [out+8], {%r1, %r2};
  ret;
}
)"),
                            1, 4);
  EXPECT_EQ(got, (std::vector<uint32_t>{101, 0, 3, 4}));
}

TEST_F(CallTest, RegisterParameters) {
  const auto got = RunWords(KernelText(R"(
    mov.u32 %r1, 40;
    call (%r2), add2, (%r1, 2);
    st.global.u32 [%l1], %r2;
  )",
                                       R"(
.func (.reg .b32 out) add2(.reg .b32 a, .reg .b32 b)
{
  add.u32 out, a, b;
  ret;
}
)"),
                            1, 1);
  EXPECT_EQ(got[0], 42u);
}

// Some lanes call from one place, some from another, and some not at all; all meet in the end.
TEST_F(CallTest, CallsFromDifferentPlacesReturnToWhereTheyCameFrom) {
  const auto got = RunWords(KernelText(std::string(R"(
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 3;
    mov.u32 %r0, 5;
    setp.eq.u32 %p1, %r2, 0;
    setp.eq.u32 %p2, %r2, 1;
    .param .b32 a;
    .param .b32 v;
    st.param.b32 [a], %r1;
    @%p1 bra ONE;
    @%p2 bra TWO;
    bra END;
  ONE:
    call.uni (v), twice, (a);
    ld.param.b32 %r0, [v];
    add.u32 %r0, %r0, 1000;
    bra END;
  TWO:
    call.uni (v), twice, (a);
    ld.param.b32 %r0, [v];
    add.u32 %r0, %r0, 2000;
  END:
    vote.sync.ballot.b32 %r3, 1, 0xffffffff;
    setp.ne.u32 %p3, %r3, 0xffffffff;
    @%p3 mov.u32 %r0, 0;
  )") + kStore,
                                       R"(
.func (.param .b32 out) twice(.param .b32 n)
{
  .reg .b32 %r<4>;
  .reg .pred q;
  ld.param.b32 %r1, [n];
  shl.b32 %r2, %r1, 1;
  setp.gt.u32 q, %r1, 8;
  @q ret;
  st.param.b32 [out], %r2;
  ret;
}
)"),
                            32, 8);
  EXPECT_EQ(got, (std::vector<uint32_t>{1000, 2002, 5, 5, 1008, 2010, 5, 5}));
}

}  // namespace
}  // namespace warpline::cpu
