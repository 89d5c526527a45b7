// Hardened kernels go at the pace that the pace word says, and have the same results at any.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "guard/guard.h"
#include "tests/guard/two_arenas.h"

namespace warpline::guard {
namespace {

constexpr uint32_t kThreads = 64;
// More than a thread makes without asking, and so many that nobody waits for them at naps of a
// millisecond.
constexpr uint32_t kIterations = 60'000;

// Thread 0 says in the first word how many iterations it has made; each thread leaves a result
// behind it.
std::string Loop(const std::string& body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
         ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .shared .align 16 .b8 tile[256];\n"
         "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, 4, %r2;\n"
         "ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;\n"
         "setp.eq.u32 %p1, %r1, 0; mov.u32 %r3, 0; mov.u32 %r4, %r1; st.shared.u32 [%r2], %r1;\n"
         "L:\nadd.u32 %r3, %r3, 1; mad.lo.u32 %r4, %r4, 5, %r3;\n@%p1 st.volatile.global.u32 "
         "[%rd1], %r3;\n" +
         body + "setp.lt.u32 %p2, %r3, " + std::to_string(kIterations) +
         ";\n@%p2 bra L;\nst.global.u32 [%rd2+64], %r4;\nret;\n}\n";
}

class PaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto arenas = TwoArenas::Open("cpu");
    ASSERT_TRUE(arenas.ok()) << arenas.status();
    arenas_ = *std::move(arenas);
    ASSERT_EQ(context().CreateStream(/*CU_STREAM_NON_BLOCKING*/ 1, 0, &other_),
              CudaResult::kSuccess);
  }

  device::Context& context() { return arenas_->context(); }
  TwoArenas::Tenant& tenant() { return arenas_->attacker(); }

  void Load(const std::string& text) {
    const auto guarded = Guard(text, {.arena_bits = TwoArenas::kArenaBits, .hardened = true});
    ASSERT_TRUE(guarded.ok()) << guarded.status();
    ASSERT_EQ(guarded->kernels.size(), 1u) << guarded->refusals[0].reason;
    const auto kernel = arenas_->LoadFor(tenant(), *guarded, "k");
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    kernel_ = *kernel;
  }

  void SetPace(uint32_t word) {
    ASSERT_EQ(context().CopyToDevice(tenant().pace, &word, sizeof(word), other_),
              CudaResult::kSuccess);
    AwaitOther();
  }

  void Launch(uint32_t blocks, bool asks = false) {
    ASSERT_EQ(arenas_->Write(tenant().memory, std::vector<uint32_t>(kWords)), CudaResult::kSuccess);
    std::vector<std::byte> params(8);
    std::memcpy(params.data(), &tenant().memory, 8);
    ASSERT_EQ(arenas_->Launch(kernel_, blocks, {kThreads, 1, 1}, 0, params, asks),
              CudaResult::kSuccess);
    ASSERT_EQ(context().CreateEvent(2, &done_), CudaResult::kSuccess);
    ASSERT_EQ(context().RecordEvent(done_, device::kLegacyStream), CudaResult::kSuccess);
  }
  bool running() { return context().QueryEvent(done_) == CudaResult::kNotReady; }
  void Await() {
    while (running()) {
    }
    EXPECT_EQ(context().QueryEvent(done_), CudaResult::kSuccess);
  }
  // While the kernel runs.
  uint32_t Progress() {
    uint32_t word = 0;
    EXPECT_EQ(context().CopyFromDevice(&word, tenant().memory, sizeof(word), other_),
              CudaResult::kSuccess);
    AwaitOther();
    return word;
  }
  // Until thread 0 is past the iterations that it makes before it asks first.
  void AwaitNaps() {
    while (Progress() <= kUnasked && running()) {
    }
  }
  std::vector<uint32_t> Results() {
    std::vector<uint32_t> words;
    EXPECT_EQ(arenas_->Read(tenant().memory, kWords, &words), CudaResult::kSuccess);
    return words;
  }

  static constexpr size_t kWords = 8192;
  static constexpr uint32_t kUnasked = 63;

 private:
  void AwaitOther() {
    device::EventId event{};
    ASSERT_EQ(context().CreateEvent(2, &event), CudaResult::kSuccess);
    ASSERT_EQ(context().RecordEvent(event, other_), CudaResult::kSuccess);
    while (context().QueryEvent(event) == CudaResult::kNotReady) {
    }
    context().DestroyEvent(event);
  }

  std::unique_ptr<TwoArenas> arenas_;
  device::StreamId other_{};
  device::KernelId kernel_{};
  device::EventId done_{};
};

constexpr char kBarriers[] =
    "bar.sync 0;\nxor.b32 %r5, %r2, 128; ld.shared.u32 %r6, [%r5]; add.u32 %r4, %r4, %r6;\n"
    "bar.sync 0;\nst.shared.u32 [%r2], %r4;\n";

TEST_F(PaceTest, AKernelGoesSlowlyAndThenOnWithTheSameResults) {
  for (const char* const body : {"", kBarriers}) {
    ASSERT_NO_FATAL_FAILURE(Load(Loop(body)));
    ASSERT_NO_FATAL_FAILURE(Launch(1));
    Await();
    const std::vector<uint32_t> expected = Results();
    ASSERT_NO_FATAL_FAILURE(SetPace(kLongestNapNs));
    ASSERT_NO_FATAL_FAILURE(Launch(1));
    AwaitNaps();
    EXPECT_TRUE(running());
    EXPECT_LT(Progress(), kIterations);
    ASSERT_NO_FATAL_FAILURE(SetPace(kFullPace));
    Await();
    EXPECT_EQ(Results(), expected);
  }
}

TEST_F(PaceTest, AStopEndsAKernelThatNaps) {
  for (const char* const body : {"", kBarriers}) {
    ASSERT_NO_FATAL_FAILURE(SetPace(kLongestNapNs));
    ASSERT_NO_FATAL_FAILURE(Load(Loop(body)));
    ASSERT_NO_FATAL_FAILURE(Launch(1));
    AwaitNaps();
    ASSERT_NO_FATAL_FAILURE(SetPace(kStopKernels));
    Await();
    EXPECT_LT(Results()[0], kIterations);
  }
}

// Each block leaves its number.
constexpr char kBlocks[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
    ".reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
    "mov.u32 %r1, %ctaid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4;\n"
    "add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r1;\nret;\n}\n";

TEST_F(PaceTest, BlocksOfAGridWithoutLoopsAskWhereTheLaunchSaysSo) {
  ASSERT_NO_FATAL_FAILURE(Load(kBlocks));
  ASSERT_NO_FATAL_FAILURE(SetPace(kStopKernels));
  ASSERT_NO_FATAL_FAILURE(Launch(kWords, /*asks=*/true));
  Await();
  for (const uint32_t result : Results()) EXPECT_EQ(result, 0u);
  ASSERT_NO_FATAL_FAILURE(Launch(kWords));
  Await();
  std::vector<uint32_t> results = Results();
  for (uint32_t block = 0; block < kWords; ++block) EXPECT_EQ(results[block], block);
  ASSERT_NO_FATAL_FAILURE(SetPace(100'000));
  ASSERT_NO_FATAL_FAILURE(Launch(2063, /*asks=*/true));
  Await();
  results = Results();
  for (uint32_t block = 0; block < 2063; ++block) EXPECT_EQ(results[block], block);
}

}  // namespace
}  // namespace warpline::guard
