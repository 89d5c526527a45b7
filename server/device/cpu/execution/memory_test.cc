// Tests loads, stores and atomics in every state space, and accesses outside of them.
#include <cstring>
#include <vector>

#include "server/device/cpu/testing/kernel_fixture.h"

namespace warpline::cpu {
namespace {

using MemoryTest = KernelFixture;

TEST_F(MemoryTest, NarrowLoadsExtendAsTheirTypeSays) {
  Write<uint32_t>(memory_, {0x8899aabb, 0, 0, 0, 0, 0, 0, 0});
  const auto got = RunWords(KernelText(R"(
    ld.global.u8 %r1, [%l1];
    ld.global.s8 %r2, [%l1];
    ld.global.u16 %h1, [%l1+2];
    ld.global.s16 %r3, [%l1+2];
    ld.global.s32 %l2, [%l1];
    cvt.u32.u16 %r4, %h1;
    st.global.u32 [%l1+4], %r1;
    st.global.u32 [%l1+8], %r2;
    st.global.u32 [%l1+12], %r4;
    st.global.u32 [%l1+16], %r3;
    st.global.u64 [%l1+24], %l2;
    st.global.u8 [%l1+20], %r2;
  )"),
                            1, 8);
  EXPECT_EQ(got, (std::vector<uint32_t>{0x8899aabb, 0xbb, 0xffffffbb, 0x8899, 0xffff8899, 0xbb,
                                        0x8899aabb, 0xffffffff}));
}

TEST_F(MemoryTest, VectorsAndSinks) {
  Write<uint32_t>(memory_, {1, 2, 3, 4});
  const auto got = RunWords(KernelText(R"(
    ld.global.v4.u32 {%r1, _, %r3, %r4}, [%l1];
    st.global.v2.u32 [%l1+16], {%r4, %r3};
    st.global.v4.f32 [%l1+32], {0f3F800000, %r1, 2.0, %r3};
    ld.global.nc.v2.u64 {%l2, %l3}, [%l1];
    st.global.v2.b64 [%l1+48], {%l3, %l2};
  )"),
                            1, 16);
  EXPECT_EQ(got, (std::vector<uint32_t>{1, 2, 3, 4, 4, 3, 0, 0, 0x3f800000, 1, 0x40000000, 3, 3, 4,
                                        1, 2}));
}

TEST_F(MemoryTest, WindowsOfSharedLocalAndParameters) {
  const auto got = RunWords(KernelText(R"(
    .local .align 8 .b8 depot[16];
    mov.u64 %l2, tile;
    cvta.shared.u64 %l3, %l2;
    mov.u64 %l4, depot;
    cvta.local.u64 %l5, %l4;
    mov.u64 %l6, p2;
    cvta.param.u64 %l7, %l6;
    mov.u32 %r1, 11;
    mov.u32 %r2, 22;
    st.u32 [%l3+4], %r1;
    st.u32 [%l5+8], %r2;
    ld.shared.u32 %r3, [tile+4];
    ld.local.u32 %r4, [depot+8];
    ld.u32 %r5, [%l7];
    isspacep.shared %p1, %l3;
    isspacep.local %p2, %l3;
    isspacep.global %p3, %l1;
    isspacep.local %p4, %l5;
    selp.u32 %r6, 1, 0, %p1;
    selp.u32 %r7, 2, 0, %p2;
    selp.u32 %r8, 4, 0, %p3;
    selp.u32 %r9, 8, 0, %p4;
    or.b32 %r6, %r6, %r7;
    or.b32 %r6, %r6, %r8;
    or.b32 %r6, %r6, %r9;
    cvta.to.shared.u64 %l8, %l3;
    cvt.u32.u64 %r10, %l8;
    ld.shared.u32 %r11, [%r10+4];
    st.global.v4.u32 [%l1], {%r3, %r4, %r5, %r6};
    st.u32 [%l1+16], %r11;
  )",
                                       ".shared .align 8 .b8 tile[64];\n"),
                            1, 5);
  EXPECT_EQ(got, (std::vector<uint32_t>{11, 22, 7, 13, 11}));
}

TEST_F(MemoryTest, LocalMemoryBelongsToEachThread) {
  const auto got = RunWords(KernelText(R"(
    .local .align 4 .b8 depot[64];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 15;
    mul.wide.u32 %l2, %r2, 4;
    mov.u64 %l3, depot;
    add.u64 %l4, %l3, %l2;
    st.local.u32 [%l4], %r1;
    bar.sync 0;
    ld.local.u32 %r3, [%l4];
    mul.wide.u32 %l5, %r1, 4;
    add.u64 %l6, %l1, %l5;
    st.global.u32 [%l6], %r3;
  )"),
                            64, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(got[i], i);
}

TEST_F(MemoryTest, DynamicSharedMemoryFollowsTheStatic) {
  const device::KernelId kernel =
      Load(KernelText(R"(
    mov.u32 %r1, small;
    mov.u32 %r2, dyn;
    mov.u32 %r3, %dynamic_smem_size;
    mov.u32 %r4, %total_smem_size;
    st.shared.u32 [dyn+252], %r3;
    ld.shared.u32 %r5, [dyn+252];
    st.global.v4.u32 [%l1], {%r1, %r2, %r5, %r4};
  )",
                      ".shared .align 4 .b8 small[20];\n.extern .shared .align 16 .b8 dyn[];\n"));
  ASSERT_EQ(Launch(kernel, {1, 1, 1}, {1, 1, 1}, 256, memory_, memory_, 0u), CudaResult::kSuccess);
  ASSERT_EQ(Sync(), CudaResult::kSuccess);
  EXPECT_EQ(Read<uint32_t>(memory_, 4), (std::vector<uint32_t>{0, 32, 256, 288}));
}

TEST_F(MemoryTest, AtomicsOfEveryKind) {
  Write<uint32_t>(memory_, {5, 5, 100, 7, 0xf0, 3, 0, 0x3f800000, 0, 0, 40, 0});
  const auto got = RunWords(KernelText(R"(
    atom.global.inc.u32 %r1, [%l1], 5;
    atom.global.dec.u32 %r2, [%l1+4], 9;
    atom.global.min.s32 %r3, [%l1+8], -3;
    atom.global.max.u32 %r4, [%l1+12], -3;
    red.global.and.b32 [%l1+16], 0x3c;
    atom.or.b32 %r5, [%l1+20], 8;
    atom.relaxed.gpu.global.xor.b32 %r6, [%l1+24], %r5;
    atom.global.add.f32 %f1, [%l1+28], 0f40000000;
    atom.global.add.f64 %d1, [%l1+32], 0d3FF0000000000000;
    atom.global.add.u64 %l2, [%l1+40], -1;
    cvt.u32.u64 %r7, %l2;
    mov.u32 %r9, 1;
    atom.shared.add.u32 %r8, [tile], %r9;
    ld.shared.u32 %r10, [tile];
    atom.global.exch.b32 _, [%l1+48], %r10;
    mov.b32 %r11, %f1;
    st.global.u32 [%l1+52], %r11;
    st.global.u32 [%l1+56], %r7;
  )",
                                       ".shared .b32 tile;\n"),
                            1, 15);
  EXPECT_EQ(got, (std::vector<uint32_t>{0, 4, 0xfffffffd, 0xfffffffd, 0x30, 11, 3, 0x40400000, 0,
                                        0x3ff00000, 39, 0, 1, 0x3f800000, 40}));
}

TEST_F(MemoryTest, AtomicsAreAtomicAcrossBlocks) {
  const device::KernelId kernel = Load(KernelText(R"(
    mov.u32 %r1, 1;
    red.global.add.u32 [%l1], %r1;
    atom.global.add.f32 %f1, [%l1+4], 0f3F800000;
  )"));
  ASSERT_EQ(Launch(kernel, {64, 2, 1}, {33, 2, 1}, 0, memory_, memory_, 0u), CudaResult::kSuccess);
  ASSERT_EQ(Sync(), CudaResult::kSuccess);
  const auto got = Read<uint32_t>(memory_, 2);
  EXPECT_EQ(got[0], 64u * 2 * 33 * 2);
  float sum;
  std::memcpy(&sum, &got[1], sizeof(sum));
  EXPECT_EQ(sum, 64.0f * 2 * 33 * 2);
}

TEST_F(MemoryTest, ParametersByRegister) {
  const auto got = RunWords(KernelText(R"(
    mov.b64 %l2, p1;
    add.s64 %l3, %l2, 8;
    ld.param.u32 %r1, [%l3];
    ld.param.u32 %r2, [%l2+8];
    st.global.v2.u32 [%l1], {%r1, %r2};
  )"),
                            1, 2);
  EXPECT_EQ(got, (std::vector<uint32_t>{7, 7}));
}

struct Fault {
  const char* body;
  CudaResult result;
};
class FaultTest : public KernelFixture, public ::testing::WithParamInterface<Fault> {};

TEST_P(FaultTest, EndsTheContextWithTheErrorOfCuda) {
  const std::string text = KernelText(GetParam().body, ".shared .align 8 .b8 tile[64];\n");
  EXPECT_EQ(RunToEnd(text, 1), GetParam().result);
  // The error is sticky: nothing works any more.
  device::StreamId stream{};
  EXPECT_EQ(context_->CreateStream(0, 0, &stream), GetParam().result);
  EXPECT_EQ(context_->Memset(memory_, 0, 1, 1, device::kLegacyStream), GetParam().result);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, FaultTest,
    ::testing::Values(
        Fault{"ld.global.u32 %r1, [%l1+-4];", CudaResult::kIllegalAddress},
        Fault{"ld.global.u32 %r1, [%l1+4194304];", CudaResult::kIllegalAddress},
        Fault{"mov.u64 %l2, 0;\nst.global.u32 [%l2], 1;", CudaResult::kIllegalAddress},
        Fault{"mov.u64 %l2, -8;\nld.u64 %l3, [%l2];", CudaResult::kIllegalAddress},
        Fault{"ld.global.u32 %r1, [%l1+2];", CudaResult::kMisalignedAddress},
        Fault{"ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%l1+8];", CudaResult::kMisalignedAddress},
        Fault{"atom.global.add.u32 %r1, [%l1+1], 1;", CudaResult::kMisalignedAddress},
        Fault{"ld.shared.u32 %r1, [tile+64];", CudaResult::kIllegalAddress},
        Fault{"mov.u32 %r2, -4;\nst.shared.u32 [%r2], 1;", CudaResult::kIllegalAddress},
        // What lies before shared memory, all around, is global memory, %l1 of which is mapped.
        Fault{"cvta.to.shared.u64 %l2, %l1;\nmbarrier.init.shared.b64 [%l2], 1;",
              CudaResult::kIllegalAddress},
        Fault{"cvta.to.shared.u64 %l2, %l1;\ncp.async.ca.shared.global [%l2], [%l1], 16;",
              CudaResult::kIllegalAddress},
        Fault{"mov.u64 %l2, tile;\ncvta.shared.u64 %l2, %l2;\nld.u32 %r1, [%l2+64];",
              CudaResult::kIllegalAddress},
        Fault{".local .b32 depot[4];\nmov.u64 %l2, depot;\nld.local.u32 %r1, [%l2+4096];",
              CudaResult::kIllegalAddress},
        Fault{"mov.b64 %l2, p0;\nld.param.u32 %r1, [%l2+4096];", CudaResult::kIllegalAddress},
        Fault{"mov.b64 %l2, p0;\ncvta.param.u64 %l2, %l2;\nst.u32 [%l2], 1;",
              CudaResult::kIllegalAddress},
        Fault{"trap;", CudaResult::kLaunchFailed}));

}  // namespace
}  // namespace warpline::cpu
