// Tests modules: what loads, what is refused with which error, and how variables start.
#include <vector>

#include "server/device/cpu/testing/kernel_fixture.h"

namespace warpline::cpu {
namespace {

using ModuleTest = KernelFixture;

TEST_F(ModuleTest, VariablesStartAsInitialised) {
  const auto got = RunWords(KernelText(R"(
    mov.u64 %l2, table;
    ld.global.u16 %r1, [%l2+2];
    ld.global.f32 %f1, [scale];
    ld.const.f64 %d1, [factor];
    ld.global.u64 %l3, [pointer];
    ld.u16 %r2, [%l3];
    ld.global.u8 %r3, [pieces+1];
    shr.u64 %l4, %l2, 8;
    cvt.u32.u64 %r4, %l4;
    and.b32 %r4, %r4, 255;
    setp.eq.u32 %p1, %r3, %r4;
    selp.u32 %r5, 1, 0, %p1;
    ld.global.u32 %r6, [rest+8];
    mov.u64 %l5, table[2];
    sub.u64 %l5, %l5, %l2;
    cvt.u32.u64 %r7, %l5;
    add.u32 %r6, %r6, %r7;
    cvt.rzi.u32.f32 %r8, %f1;
    cvt.rzi.u32.f64 %r9, %d1;
    st.global.v4.u32 [%l1], {%r1, %r2, %r5, %r6};
    st.global.v2.u32 [%l1+16], {%r8, %r9};
  )",
                                       R"(
.global .align 4 .u16 table[4] = {1, 2, 3, 4};
.global .f32 scale = 2.5;
.const .f64 factor = 0d4014000000000000;
.global .align 8 .u64 pointer = generic(table)+4;
.global .align 8 .b8 pieces[8] = {0xFF(table), 0xFF00(table), 0xFF0000(table)};
.global .u32 rest[4] = {9};
)"),
                            1, 6);
  EXPECT_EQ(got, (std::vector<uint32_t>{2, 3, 1, 4, 2, 5}));
}

TEST_F(ModuleTest, UnsupportedInstructionsRefuseTheirKernelOnly) {
  const std::string text = std::string(".version 8.0\n.target sm_80\n.address_size 64\n") + R"(
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.entry good() { ret; }
.entry bad() { .reg .b64 %l<2>; .reg .f32 %f<9>;
  tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%l1, {%f4,%f5}];
  ret; }
.entry wrong() { .reg .b32 %r<2>; add.u32 %r1, nothing, 1; ret; }
)";
  device::KernelId kernel{};
  ASSERT_EQ(context_->LoadModule(text, &module_), CudaResult::kSuccess);
  EXPECT_EQ(context_->FindKernel(module_, "good", &kernel), CudaResult::kSuccess);
  EXPECT_EQ(context_->FindKernel(module_, "bad", &kernel), CudaResult::kNotSupported);
  EXPECT_EQ(context_->FindKernel(module_, "none", &kernel), CudaResult::kNotFound);
  std::vector<std::string> names;
  ASSERT_EQ(context_->Kernels(module_, &names), CudaResult::kSuccess);
  EXPECT_EQ(names, (std::vector<std::string>{"bad", "good", "wrong"}));
  EXPECT_EQ(context_->FindKernel(module_, "wrong", &kernel), CudaResult::kInvalidPtx);
}

TEST_F(ModuleTest, ImagesThatCannotRunSayWhy) {
  EXPECT_EQ(
      context_->LoadModule(".version 8.0\n.target sm_75\n.address_size 64\n.entry k( {", &module_),
      CudaResult::kInvalidPtx);
  EXPECT_EQ(context_->LoadModule(".version 8.0\n.target sm_75\n.address_size 32\n", &module_),
            CudaResult::kInvalidPtx);
  EXPECT_EQ(context_->LoadModule("garbage", &module_), CudaResult::kInvalidImage);
  device::JitLog log;
  EXPECT_EQ(context_->LoadModuleJit("// of 2031\n.version 99.1\n.target sm_1000\n.quantum q;\n", {},
                                    &log, &module_),
            CudaResult::kUnsupportedPtxVersion);
  EXPECT_EQ(log.errors,
            "line 2: .version 99.1 is later than the latest that this device reads, 9.0");
  EXPECT_EQ(context_->LoadModule(".version 9.1\n.target sm_75\n.address_size 64\n", &module_),
            CudaResult::kUnsupportedPtxVersion);
  log.errors.clear();
  EXPECT_EQ(context_->LoadModuleJit(".version 9.0\n.target sm_75\n.address_size 64\nfoo\n", {},
                                    &log, &module_),
            CudaResult::kInvalidPtx);
  EXPECT_NE(log.errors, "");
  std::string cubin =
      "\x7f"
      "ELF";
  cubin.resize(64, '\0');
  EXPECT_EQ(context_->LoadModule(cubin, &module_), CudaResult::kNoBinaryForGpu);
}

TEST_F(ModuleTest, LaunchesAreCheckedAgainstTheKernel) {
  const device::KernelId kernel = Load(
      ".version 8.0\n.target sm_75\n.address_size 64\n"
      ".shared .align 4 .b8 tile[1024];\n"
      ".entry k(.param .u64 a, .param .align 8 .b8 s[12])\n.maxntid 64, 2, 1\n"
      "{ .reg .b32 %r<2>; mov.u32 %r1, tile; ret; }");
  std::vector<device::ParamLayout> params;
  ASSERT_EQ(context_->Params(kernel, &params), CudaResult::kSuccess);
  ASSERT_EQ(params.size(), 2u);
  EXPECT_EQ(params[1].offset, 8u);
  EXPECT_EQ(params[1].size, 12u);
  int value = 0;
  const auto attribute = [&](int id) {
    EXPECT_EQ(context_->GetKernelAttribute(kernel, id, &value), CudaResult::kSuccess);
    return value;
  };
  EXPECT_EQ(attribute(0), 128);
  EXPECT_EQ(attribute(1), 1024);
  EXPECT_EQ(attribute(8), 47 << 10);
  const auto params_bytes = std::vector<std::byte>(20);
  const auto launch = [&](uint32_t threads, uint32_t shared) {
    return context_->Launch(kernel, {{1, 1, 1}, {threads, 1, 1}, shared}, params_bytes,
                            device::kLegacyStream);
  };
  EXPECT_EQ(launch(128, 47 << 10), CudaResult::kSuccess);
  EXPECT_EQ(launch(129, 0), CudaResult::kInvalidValue);
  EXPECT_EQ(launch(1, (47 << 10) + 1), CudaResult::kInvalidValue);
  EXPECT_EQ(context_->SetKernelAttribute(kernel, 8, 99 << 10), CudaResult::kInvalidValue);
  EXPECT_EQ(context_->SetKernelAttribute(kernel, 8, 98 << 10), CudaResult::kSuccess);
  EXPECT_EQ(launch(1, 98 << 10), CudaResult::kSuccess);
  EXPECT_EQ(context_->Launch(kernel, {{1, 1, 1}, {1, 1, 1}, 0},
                             absl::MakeSpan(params_bytes).subspan(1), device::kLegacyStream),
            CudaResult::kInvalidValue);
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
}

TEST_F(ModuleTest, UnloadingWaitsForItsKernels) {
  const device::KernelId kernel = Load(KernelText(R"(
    mov.u32 %r1, 0;
  AGAIN:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 100000;
    @%p1 bra AGAIN;
    ld.global.u32 %r2, [value];
    st.global.u32 [%l1], %r2;
  )",
                                                  ".global .u32 value = 6;\n"));
  ASSERT_EQ(Launch(kernel, {1, 1, 1}, {1, 1, 1}, 0, memory_, memory_, 0u), CudaResult::kSuccess);
  ASSERT_EQ(context_->UnloadModule(module_), CudaResult::kSuccess);
  EXPECT_EQ(Read<uint32_t>(memory_, 1)[0], 6u);
  EXPECT_EQ(Launch(kernel, {1, 1, 1}, {1, 1, 1}, 0, memory_, memory_, 0u),
            CudaResult::kInvalidHandle);
}

TEST_F(ModuleTest, UnloadingDoesNotWaitForOtherModules) {
  const device::KernelId spin = Load(KernelText(R"(
  AGAIN:
    ld.volatile.global.u32 %r2, [%l1];
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra AGAIN;
  )"));
  device::ModuleId other{};
  ASSERT_EQ(context_->LoadModule(KernelText(""), &other), CudaResult::kSuccess);
  device::StreamId stream{};
  ASSERT_EQ(context_->CreateStream(1, 0, &stream), CudaResult::kSuccess);
  ASSERT_EQ(context_->Launch(spin, {{1, 1, 1}, {1, 1, 1}, 0}, Pack(memory_, memory_, 0u), stream),
            CudaResult::kSuccess);
  EXPECT_EQ(context_->UnloadModule(other), CudaResult::kSuccess);
  Write<uint32_t>(memory_, {1});
  EXPECT_EQ(SyncStream(stream), CudaResult::kSuccess);
}

TEST_F(ModuleTest, SpecialRegistersOfBlocksInThreeDimensions) {
  const device::KernelId kernel = Load(KernelText(R"(
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, %tid.z;
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ctaid.y;
    mov.u32 %r6, %ctaid.z;
    mov.u32 %r7, %ntid.x;
    mov.u32 %r8, %ntid.y;
    mov.u32 %r9, %ntid.z;
    mov.u32 %r10, %nctaid.x;
    mov.u32 %r11, %nctaid.y;
    mad.lo.u32 %r12, %r6, %r11, %r5;
    mad.lo.u32 %r12, %r12, %r10, %r4;
    mul.lo.u32 %r13, %r7, %r8;
    mul.lo.u32 %r13, %r13, %r9;
    mul.lo.u32 %r12, %r12, %r13;
    mad.lo.u32 %r14, %r3, %r8, %r2;
    mad.lo.u32 %r14, %r14, %r7, %r1;
    add.u32 %r12, %r12, %r14;
    mul.wide.u32 %l2, %r12, 4;
    add.u64 %l3, %l1, %l2;
    st.global.u32 [%l3], %r12;
  )"));
  ASSERT_EQ(Launch(kernel, {3, 2, 2}, {5, 3, 3}, 0, memory_, memory_, 0u), CudaResult::kSuccess);
  const auto got = Read<uint32_t>(memory_, size_t{12} * 45);
  for (uint32_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i);
}

}  // namespace
}  // namespace warpline::cpu
