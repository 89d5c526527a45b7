// Tests a guarded session's code on the CPU device: kernels that stray stay in the window,
// variables are found in the arena, and records become text and errors.
#include "server/worker/code/guarded_code.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "guard/guard.h"
#include "proto/guard.h"
#include "server/device/device.h"
#include "server/worker/memory/small_copies.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kMiB = uint64_t{1} << 20;
// The last base is one that ThreadSanitizer allows.
constexpr uint64_t kBases[] = {0x300000000000, 0x200000000000, 0x7e9000000000};

constexpr char kText[] = R"(.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 4 .b32 counter = 40;
.const .align 4 .b32 step = 2;
.global .align 1 .b8 format[7] = {116, 32, 37, 117, 10, 0};
.visible .entry count(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.global.u32 %r1, [counter];
  ld.const.u32 %r2, [step];
  add.u32 %r1, %r1, %r2;
  st.global.u32 [counter], %r1;
  ld.param.u64 %rd1, [out];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry prints(.param .u64 traps)
{
  .local .align 8 .b8 depot[8];
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<9>;
  .param .b64 f;
  .param .b64 a;
  .param .b32 r;
  mov.u64 %rd1, depot;
  cvta.local.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  st.local.u32 [%rd1], %r1;
  mov.u64 %rd3, format;
  cvta.global.u64 %rd4, %rd3;
  st.param.b64 [f], %rd4;
  st.param.b64 [a], %rd2;
  call.uni (r), vprintf, (f, a);
  ld.param.u64 %rd5, [traps];
  setp.ne.u64 %p1, %rd5, 0;
  @%p1 trap;
  ret;
}
.func falls()
{
  call falls;
  ret;
}
.visible .entry falls_deep(.param .u64 unused)
{
  call falls;
  ret;
}
.visible .entry moves(.param .u64 unused)
{
  .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x;
  movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
  ret;
}
.visible .entry spins(.param .u64 word)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [word];
again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
}
.visible .entry jumps(.param .u64 target)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [target];
  call %rd1, _, (), nothing;
  ret;
}
)";

class GuardedCodeTest : public testing::TestWithParam<GuardMode> {
 protected:
  void SetUp() override {
    auto backend = device::OpenBackend("cpu");
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    auto contexts = backend_->OpenContexts({0});
    ASSERT_TRUE(contexts.ok()) << contexts.status();
    contexts_ = *std::move(contexts);
    for (const uint64_t base : kBases) {
      if (context().ReserveArena(base, 4 * kGiB) != CudaResult::kSuccess) continue;
      arena_ = base;
      break;
    }
    ASSERT_NE(arena_, 0u);
    ASSERT_EQ(context().MapOwn(arena_, 2 * kMiB), CudaResult::kSuccess);
    GuardedCode::Options options;
    options.mode = GetParam();
    options.sm = 90;
    options.arena_base = arena_;
    options.arena_bytes = 4 * kGiB;
    options.on_load = [this](size_t device, bool begins) {
      EXPECT_EQ(device, 0u);
      loads_.push_back(begins);
    };
    code_ = std::make_unique<GuardedCode>(options, std::vector{&context()}, nullptr);
    ASSERT_EQ(modules().LoadModule(kText, &module_), CudaResult::kSuccess);
  }

  device::Context& context() { return *contexts_[0]; }
  device::Modules& modules() { return *code_->modules(0); }

  void Run(const std::string& name, uint64_t argument, uint32_t threads = 1) {
    device::EventId event{};
    ASSERT_NO_FATAL_FAILURE(
        Launch(name, argument, threads, /*stop=*/0, device::kLegacyStream, &event));
    Await(event);
  }

  // `*event` is recorded behind the kernel.
  void Launch(const std::string& name, uint64_t argument, uint32_t threads, uint32_t stop,
              device::StreamId stream, device::EventId* event) {
    device::KernelId kernel{};
    ASSERT_EQ(modules().FindKernel(module_, name, &kernel), CudaResult::kSuccess);
    const device::LaunchConfig config = {{1, 1, 1}, {threads, 1, 1}, 0};
    std::string params(reinterpret_cast<const char*>(&argument), sizeof(argument));
    modules().added_parameter()->AddTo(&params, config, stop);
    ASSERT_EQ(context().Launch(kernel, config,
                               {reinterpret_cast<const std::byte*>(params.data()), params.size()},
                               stream),
              CudaResult::kSuccess);
    ASSERT_EQ(context().CreateEvent(2, event), CudaResult::kSuccess);
    ASSERT_EQ(context().RecordEvent(*event, stream), CudaResult::kSuccess);
  }

  void Await(device::EventId event) {
    CudaResult result;
    while ((result = context().QueryEvent(event)) == CudaResult::kNotReady) {
      std::this_thread::yield();
    }
    EXPECT_EQ(result, CudaResult::kSuccess);
    context().DestroyEvent(event);
  }

  uint32_t WordAt(uint64_t address) {
    uint32_t word = 0;
    SmallCopies copies(&context());
    EXPECT_EQ(copies.Read(address, &word, sizeof(word)), CudaResult::kSuccess);
    return word;
  }

  CudaResult Collect(bool at_rest) {
    texts_.clear();
    return code_->output()->Collect(
        at_rest, [this](int descriptor, std::string_view text) { texts_[descriptor] += text; });
  }

  std::unique_ptr<device::Backend> backend_;
  std::vector<std::unique_ptr<device::Context>> contexts_;
  uint64_t arena_ = 0;
  std::vector<bool> loads_;  // Whether each call of Options::on_load was of a beginning.
  std::unique_ptr<GuardedCode> code_;
  device::ModuleId module_{};
  std::map<int, std::string> texts_;
};

// The module, and in hardened modes that of the pace word.
TEST_P(GuardedCodeTest, SaysWhenCodeIsBroughtOntoTheDevice) {
  const std::vector<bool> one = {true, false};
  const std::vector<bool> two = {true, false, true, false};
  EXPECT_EQ(loads_, GetParam() == GuardMode::kHardened ? two : one);
  loads_.clear();
  device::ModuleId other{};
  ASSERT_EQ(modules().LoadModule(kText, &other), CudaResult::kSuccess);
  EXPECT_EQ(loads_, one);
}

// Programs tell by it what they may use: code for sm_75 has no griddepcontrol, whose absence makes
// programmatic launches unsafe.
TEST_P(GuardedCodeTest, KernelsShowWhatTheTenantsTextWasMadeFor) {
  EXPECT_EQ(modules().PtxVersion(module_), 75);
  EXPECT_EQ(modules().PtxVersion({}), 0);
}

TEST_P(GuardedCodeTest, VariablesLieInTheArena) {
  uint64_t counter = 0, step = 0, bytes = 0;
  ASSERT_EQ(modules().FindGlobal(module_, "counter", &counter, &bytes), CudaResult::kSuccess);
  EXPECT_EQ(bytes, 4u);
  EXPECT_GE(counter, arena_ + 4 * kGiB - ModuleRoomBytes(4 * kGiB));
  EXPECT_LT(counter, arena_ + 4 * kGiB);
  EXPECT_EQ(WordAt(counter), 40u);
  ASSERT_EQ(modules().FindGlobal(module_, "step", &step, &bytes), CudaResult::kSuccess);
  EXPECT_EQ(WordAt(step), 2u);
  EXPECT_EQ(modules().FindGlobal(module_, "wlg_const", &step, &bytes), CudaResult::kNotFound);
  EXPECT_EQ(modules().FindGlobal(module_, "$guard_words", &step, &bytes), CudaResult::kNotFound);
  Run("count", arena_ + 64);
  EXPECT_EQ(WordAt(counter), 42u);
  EXPECT_EQ(WordAt(arena_ + 64), 42u);
  EXPECT_EQ(modules().UnloadModule(module_), CudaResult::kSuccess);
}

TEST_P(GuardedCodeTest, StrayStoresComeBackIntoTheArena) {
  // The same place of another 4 GiB.
  Run("count", arena_ + 8 * kGiB + 128);
  EXPECT_EQ(WordAt(arena_ + 128), 42u);
}

// The guard's words stand before the constants, in one block of the driver's. With another arena in
// them, every fence would lead there.
TEST_P(GuardedCodeTest, CommandsReachConstantsAndNotTheGuardsWords) {
  uint64_t step = 0, bytes = 0;
  ASSERT_EQ(modules().FindGlobal(module_, "step", &step, &bytes), CudaResult::kSuccess);
  device::Context& device = context();
  const auto stream = device::kLegacyStream;
  uint32_t word = 3;
  ASSERT_EQ(device.CopyToDevice(step, &word, 4, stream), CudaResult::kSuccess);
  for (uint64_t at = step - 64; at < step + 8; at += 4) {
    if (at == step) continue;
    SCOPED_TRACE(at - step);
    EXPECT_EQ(device.CopyToDevice(at, &word, 4, stream), CudaResult::kInvalidValue);
    EXPECT_EQ(device.CopyFromDevice(&word, at, 4, stream), CudaResult::kInvalidValue);
    EXPECT_EQ(device.CopyOnDevice(at, arena_, 4, stream), CudaResult::kInvalidValue);
    EXPECT_EQ(device.CopyOnDevice(arena_, at, 4, stream), CudaResult::kInvalidValue);
    EXPECT_EQ(device.Memset(at, 0, 1, 4, stream), CudaResult::kInvalidValue);
    EXPECT_EQ(device.MemsetRows(at, 4, 0, 1, 4, 1, stream), CudaResult::kInvalidValue);
    EXPECT_EQ(device.CopyBoxToDevice({at, 4, 4}, &word, {4, 1, 1}, stream),
              CudaResult::kInvalidValue);
    EXPECT_EQ(device.CopyBoxFromDevice(&word, {at, 4, 4}, {4, 1, 1}, stream),
              CudaResult::kInvalidValue);
    EXPECT_EQ(device.CopyBoxOnDevice({at, 4, 4}, {arena_, 4, 4}, {4, 1, 1}, stream),
              CudaResult::kInvalidValue);
    EXPECT_EQ(device.CopyBoxOnDevice({arena_, 4, 4}, {at, 4, 4}, {4, 1, 1}, stream),
              CudaResult::kInvalidValue);
    const device::MemOp write = {device::MemOp::kWrite32, 0, at, 0};
    EXPECT_EQ(device.MemOps({&write, 1}, stream), CudaResult::kInvalidValue);
  }
  // Spans and boxes that begin or end in the constant.
  EXPECT_EQ(device.Memset(step - 64, 0, 1, 68, stream), CudaResult::kInvalidValue);
  EXPECT_EQ(device.Memset(step, 0, 1, 8, stream), CudaResult::kInvalidValue);
  EXPECT_EQ(device.MemsetRows(step, uint64_t{0} - 64, 0, 1, 4, 2, stream),
            CudaResult::kInvalidValue);
  Run("count", arena_ + 8 * kGiB + 128);
  EXPECT_EQ(WordAt(arena_ + 128), 43u) << "40 and the constant, in the arena";
}

TEST_P(GuardedCodeTest, ConstantsEndWithTheirModule) {
  uint64_t step = 0, bytes = 0;
  ASSERT_EQ(modules().FindGlobal(module_, "step", &step, &bytes), CudaResult::kSuccess);
  EXPECT_EQ(WordAt(step), 2u);
  ASSERT_EQ(modules().UnloadModule(module_), CudaResult::kSuccess);
  uint32_t word = 0;
  EXPECT_EQ(context().CopyFromDevice(&word, step, 4, device::kLegacyStream),
            CudaResult::kInvalidValue);
  // Memory of modules that were loaded without the guard is not the tenant's either.
  device::ModuleId bare{};
  ASSERT_EQ(context().LoadModule(".version 8.0\n.target sm_75\n.address_size 64\n"
                                 ".global .align 4 .b32 open = 1;\n",
                                 &bare),
            CudaResult::kSuccess);
  ASSERT_EQ(context().FindGlobal(bare, "open", &step, &bytes), CudaResult::kSuccess);
  EXPECT_EQ(context().CopyFromDevice(&word, step, 4, device::kLegacyStream),
            CudaResult::kInvalidValue);
}

TEST_P(GuardedCodeTest, AVariableIsWrittenByItsName) {
  const uint32_t word = 5;
  const std::string_view bytes(reinterpret_cast<const char*>(&word), sizeof(word));
  const auto write = [&](const std::string& name, std::string_view what) {
    return modules().WriteVariable(module_, name, what, device::kLegacyStream);
  };
  EXPECT_EQ(write("step", bytes), CudaResult::kSuccess);
  EXPECT_EQ(write("step", "five bytes"), CudaResult::kInvalidValue);
  EXPECT_EQ(write("wlg_const", bytes), CudaResult::kNotFound);
  Run("count", arena_ + 64);
  EXPECT_EQ(WordAt(arena_ + 64), 45u);
}

TEST_P(GuardedCodeTest, ANextModuleHasTheFirstOnesPlaceOnceThatIsGone) {
  uint64_t first = 0, second = 0, third = 0, bytes = 0;
  ASSERT_EQ(modules().FindGlobal(module_, "counter", &first, &bytes), CudaResult::kSuccess);
  Run("count", arena_);
  device::ModuleId other{};
  ASSERT_EQ(modules().LoadModule(kText, &other), CudaResult::kSuccess);
  ASSERT_EQ(modules().FindGlobal(other, "counter", &second, &bytes), CudaResult::kSuccess);
  EXPECT_NE(first, second);
  EXPECT_EQ(modules().UnloadModule(module_), CudaResult::kSuccess);
  ASSERT_EQ(modules().LoadModule(kText, &module_), CudaResult::kSuccess);
  ASSERT_EQ(modules().FindGlobal(module_, "counter", &third, &bytes), CudaResult::kSuccess);
  EXPECT_EQ(first, third);
  EXPECT_EQ(WordAt(third), 40u);
}

TEST_P(GuardedCodeTest, WhatKernelsPrintIsReadOnce) {
  EXPECT_TRUE(modules().LeavesRecords(module_));
  Run("prints", 0, 2);
  EXPECT_EQ(Collect(false), CudaResult::kSuccess);
  EXPECT_EQ(texts_[1].size(), 8u) << texts_[1];
  EXPECT_NE(texts_[1].find("t 1\n"), std::string::npos) << texts_[1];
  EXPECT_EQ(Collect(true), CudaResult::kSuccess);
  EXPECT_EQ(texts_[1], "");
  // More than the ring has room for, in several looks at rest.
  for (int i = 0; i < 10; ++i) {
    Run("prints", 0, 1000);
    EXPECT_EQ(Collect(true), CudaResult::kSuccess);
    EXPECT_EQ(std::count(texts_[1].begin(), texts_[1].end(), '\n'), 1000);
  }
}

TEST_P(GuardedCodeTest, ATrapIsTheSessionsFault) {
  Run("prints", 1);
  EXPECT_EQ(Collect(true), CudaResult::kLaunchFailed);
  EXPECT_NE(texts_[2].find("a kernel trapped at line "), std::string::npos) << texts_[2];
}

TEST_P(GuardedCodeTest, AFunctionThatCallsItselfTooOftenIsTheSessionsFault) {
  Run("falls_deep", 0);
  EXPECT_EQ(Collect(true), CudaResult::kHardwareStackError);
  EXPECT_NE(texts_[2].find("a function called itself more than 16 levels deep at line "),
            std::string::npos)
      << texts_[2];
}

TEST_P(GuardedCodeTest, AWarpThatIsNotWholeIsTheSessionsFault) {
  Run("moves", 0, 64);
  EXPECT_EQ(Collect(true), CudaResult::kSuccess);
  EXPECT_EQ(texts_[2], "");
  Run("moves", 0, 40);
  EXPECT_EQ(Collect(false), CudaResult::kLaunchFailed);
  EXPECT_EQ(texts_[2],
            "warpline: guard: a kernel came to line 57 of its PTX, a barrier or a matrix "
            "instruction, with a part of a warp, whose threads ended\n");
  EXPECT_EQ(Collect(true), CudaResult::kLaunchFailed);
  EXPECT_EQ(texts_[2], "") << "once";
  EXPECT_EQ(Collect(true), CudaResult::kSuccess);
}

TEST_P(GuardedCodeTest, KernelsOfOneNumberStopAndOthersGoOn) {
  device::KernelStops* const stops = modules().kernel_stops();
  ASSERT_EQ(stops != nullptr, GetParam() == GuardMode::kHardened);
  if (stops == nullptr) return;
  const uint32_t one = stops->Take(), other = stops->Take();
  ASSERT_NE(one, other);
  device::StreamId stream{}, second{};
  ASSERT_EQ(context().CreateStream(1, 0, &stream), CudaResult::kSuccess);
  ASSERT_EQ(context().CreateStream(1, 0, &second), CudaResult::kSuccess);
  device::EventId first_ends{}, second_ends{};
  ASSERT_NO_FATAL_FAILURE(Launch("spins", arena_, 1, one, stream, &first_ends));
  ASSERT_NO_FATAL_FAILURE(Launch("spins", arena_, 1, other, second, &second_ends));
  // A pace, and numbers that come later, change nothing of that.
  ASSERT_EQ(stops->Set(one, true), CudaResult::kSuccess);
  Await(first_ends);
  code_->SetNap(1000);
  EXPECT_NE(stops->Take(), one);
  EXPECT_EQ(context().QueryEvent(second_ends), CudaResult::kNotReady);
  code_->SetNap(0);
  // The stream goes on, and is stopped again.
  ASSERT_EQ(stops->Set(one, false), CudaResult::kSuccess);
  ASSERT_NO_FATAL_FAILURE(Launch("spins", arena_, 1, one, stream, &first_ends));
  ASSERT_EQ(stops->Set(other, true), CudaResult::kSuccess);
  Await(second_ends);
  EXPECT_EQ(context().QueryEvent(first_ends), CudaResult::kNotReady);
  ASSERT_EQ(stops->Set(one, true), CudaResult::kSuccess);
  Await(first_ends);
  stops->Give(other);
  EXPECT_EQ(stops->Take(), other);
}

TEST_P(GuardedCodeTest, NumbersComeToAnEnd) {
  device::KernelStops* const stops = modules().kernel_stops();
  if (stops == nullptr) return;
  for (size_t i = 1; i < guard::kPaceWords; ++i) EXPECT_NE(stops->Take(), 0u);
  EXPECT_EQ(stops->Take(), 0u);
  stops->Give(7);
  EXPECT_EQ(stops->Take(), 7u);
}

TEST_P(GuardedCodeTest, WhatIsRefusedIsSaid) {
  device::KernelId kernel{};
  EXPECT_EQ(modules().FindKernel(module_, "jumps", &kernel), CudaResult::kNotSupported);
  EXPECT_EQ(modules().FindKernel(module_, "no_such", &kernel), CudaResult::kNotFound);
  device::ModuleId other{};
  EXPECT_EQ(modules().LoadModule("\x7f"
                                 "ELF",
                                 &other),
            CudaResult::kInvalidImage);
  EXPECT_NE(modules().LoadModule(".version 8.0\nnonsense", &other), CudaResult::kSuccess);
  std::string notes;
  code_->output()->CollectNotes([&](int, std::string_view text) { notes += text; });
  EXPECT_NE(notes.find("warpline: guard: kernel jumps is refused: "), std::string::npos) << notes;
  EXPECT_NE(notes.find("a module is refused: "), std::string::npos) << notes;
}

INSTANTIATE_TEST_SUITE_P(Modes, GuardedCodeTest,
                         testing::Values(GuardMode::kFence, GuardMode::kHardened));

class CheckedCodeTest : public GuardedCodeTest {
 protected:
  // Writes the table of what is allocated, as the client does.
  void Allocated(absl::Span<const CheckedRange> ranges) { WriteTable(CheckedTable(ranges)); }
  void WriteTable(std::string_view table) {
    SmallCopies copies(&context());
    ASSERT_EQ(copies.Write(CheckedTables(arena_, 4 * kGiB), table), CudaResult::kSuccess);
  }
  std::string Hex(uint64_t address) { return absl::StrCat("0x", absl::Hex(address)); }
};

TEST_P(CheckedCodeTest, AllocationsAndVariablesMayBeUsed) {
  // Until the client has said what there is, everything may.
  Run("count", arena_ + 1024);
  EXPECT_EQ(Collect(true), CudaResult::kSuccess) << texts_[2];
  Allocated({{arena_ + 64, arena_ + 68}, {arena_ + 128, arena_ + 256}});
  Run("count", arena_ + 64);
  Run("count", arena_ + 252);
  EXPECT_EQ(Collect(true), CudaResult::kSuccess) << texts_[2];
  EXPECT_EQ(WordAt(arena_ + 64), 44u);
  EXPECT_EQ(WordAt(arena_ + 252), 46u);
}

TEST_P(CheckedCodeTest, AnAccessOutsideEndsItsThreadAndIsTold) {
  Allocated({{arena_ + 64, arena_ + 66}, {arena_ + 128, arena_ + 256}});
  const uint32_t before = WordAt(arena_ + 256);
  Run("count", arena_ + 256);
  EXPECT_EQ(Collect(true), CudaResult::kIllegalAddress);
  EXPECT_NE(
      texts_[2].find("warpline: check: out-of-bounds write of 4 bytes at " + Hex(arena_ + 256) +
                     ", 0 bytes behind 128 bytes at " + Hex(arena_ + 128) + ", in count (line "),
      std::string::npos)
      << texts_[2];
  EXPECT_EQ(WordAt(arena_ + 256), before);
  Run("count", arena_ + 64, 3);
  EXPECT_EQ(Collect(true), CudaResult::kIllegalAddress);
  EXPECT_NE(texts_[2].find("which begins in and leaves 2 bytes"), std::string::npos) << texts_[2];
  EXPECT_NE(texts_[2].find("... and 2 more threads"), std::string::npos) << texts_[2];
  EXPECT_EQ(Collect(true), CudaResult::kSuccess);
}

TEST_P(CheckedCodeTest, AMisalignedAccessIsTold) {
  Run("count", arena_ + 129);
  EXPECT_EQ(Collect(true), CudaResult::kMisalignedAddress);
  EXPECT_NE(texts_[2].find("misaligned write of 4 bytes at " + Hex(arena_ + 129)),
            std::string::npos)
      << texts_[2];
}

// The table lies where the tenant may write whatever it likes.
TEST_P(CheckedCodeTest, WhateverTheTableHoldsNothingElseHappens) {
  const uint64_t counts[] = {0, kMostCheckedRanges, kMostCheckedRanges + 1, ~uint64_t{0} - 1};
  for (const uint64_t count : counts) {
    for (const char fill : {'\0', '\x7f', '\xff'}) {
      std::string table(kCheckedTableBytes, fill);
      std::memcpy(table.data(), &count, sizeof(count));
      WriteTable(table);
      Run("count", arena_ + 512);
      Collect(true);
    }
  }
  Allocated({});
  Run("count", arena_ + 512);
  EXPECT_EQ(Collect(true), CudaResult::kIllegalAddress);
}

TEST_P(CheckedCodeTest, VariablesOfModulesThatAreGoneMayNotBeUsed) {
  device::ModuleId other{};
  ASSERT_EQ(modules().LoadModule(kText, &other), CudaResult::kSuccess);
  uint64_t counter = 0, bytes = 0;
  ASSERT_EQ(modules().FindGlobal(other, "counter", &counter, &bytes), CudaResult::kSuccess);
  Allocated({});
  Run("count", counter);
  EXPECT_EQ(Collect(true), CudaResult::kSuccess) << texts_[2];
  EXPECT_EQ(modules().UnloadModule(other), CudaResult::kSuccess);
  Run("count", counter);
  EXPECT_EQ(Collect(true), CudaResult::kIllegalAddress);
}

INSTANTIATE_TEST_SUITE_P(Report, CheckedCodeTest, testing::Values(GuardMode::kReport));

}  // namespace
}  // namespace warpline::worker
