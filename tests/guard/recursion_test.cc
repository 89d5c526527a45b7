// Functions that call themselves, which the rewriter makes levels of copies of: they compute what
// they would, and threads that go too deep end and say so.
#include "guard/rewrite/recursion.h"

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

constexpr uint32_t kThreads = 32;
constexpr uint32_t kRoom = 40;

// Each thread gives its number to `first`, and stores what comes back in a word of its own.
constexpr char kKernel[] = R"(
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  .param .b32 a;
  .param .b32 v;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.param.b32 [a], %r1;
  call.uni (v), first, (a);
  ld.param.b32 %r2, [v];
  st.global.u32 [%rd1], %r2;
  ret;
}
)";

constexpr char kRegisters[] = R"({
  .reg .pred %p<3>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<3>;
  .param .b32 a;
  .param .b32 v;
  ld.param.u32 %r1, [n];
)";

class RecursionTest : public ::testing::TestWithParam<bool> {
 protected:
  // Runs a module with such functions, and fills `results_` and `records_`.
  void Run(const std::string& functions) {
    auto arenas = TwoArenas::Open("cpu");
    ASSERT_TRUE(arenas.ok()) << arenas.status();
    const auto guarded =
        Guard(".version 8.0\n.target sm_90\n.address_size 64\n" + functions + std::string(kKernel),
              {.arena_bits = TwoArenas::kArenaBits, .hardened = GetParam()});
    ASSERT_TRUE(guarded.ok()) << guarded.status();
    ASSERT_EQ(guarded->kernels.size(), 1u) << guarded->refusals[0].reason;
    EXPECT_TRUE(guarded->leaves_records);
    TwoArenas::Tenant& tenant = (*arenas)->attacker();
    ASSERT_EQ((*arenas)->Write(tenant.records, {0, kRoom}), CudaResult::kSuccess);
    const auto kernel = (*arenas)->LoadFor(tenant, *guarded, "k");
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    std::vector<std::byte> params(8);
    std::memcpy(params.data(), &tenant.memory, 8);
    ASSERT_EQ((*arenas)->Run(*kernel, kThreads, 0, params), CudaResult::kSuccess);
    ASSERT_EQ((*arenas)->Read(tenant.memory, kThreads, &results_), CudaResult::kSuccess);
    std::vector<uint32_t> words;
    ASSERT_EQ((*arenas)->Read(tenant.records, (64 + kRoom * 320) / 4, &words),
              CudaResult::kSuccess);
    records_.resize(words[0]);
    ASSERT_LE(records_.size(), kRoom);
    std::memcpy(static_cast<void*>(records_.data()), words.data() + 16,
                records_.size() * sizeof(Record));
  }

  // Whether the threads from `first` on have ended, and nobody else.
  void ExpectTooDeepFrom(uint32_t first) {
    EXPECT_EQ(records_.size(), kThreads - first);
    for (const Record& record : records_) {
      EXPECT_EQ(record.kind, static_cast<uint32_t>(RecordKind::kTooDeep));
      EXPECT_GE(record.thread[0], first);
      EXPECT_GT(record.line, 4u);
    }
    for (uint32_t i = first; i < kThreads; ++i) EXPECT_EQ(results_[i], 0u) << i;
  }

  std::vector<uint32_t> results_;
  std::vector<Record> records_;
};

TEST_P(RecursionTest, AFactorial) {
  ASSERT_NO_FATAL_FAILURE(
      Run(std::string(".func (.param .b32 r) first(.param .b32 n)\n") + kRegisters + R"(
  mov.u32 %r2, 1;
  setp.lt.u32 %p1, %r1, 2;
  @%p1 bra DONE;
  sub.u32 %r3, %r1, 1;
  st.param.b32 [a], %r3;
  call.uni (v), first, (a);
  ld.param.b32 %r4, [v];
  mul.lo.u32 %r2, %r4, %r1;
DONE:
  st.param.b32 [r], %r2;
  ret;
})"));
  uint32_t product = 1;
  for (uint32_t i = 0; i <= kMostLevels; ++i) {
    product *= i > 1 ? i : 1;
    EXPECT_EQ(results_[i], product) << i;
  }
  ExpectTooDeepFrom(kMostLevels + 1);
  for (const Record& record : records_) EXPECT_EQ(record.text, uint64_t{kMostLevels});
}

TEST_P(RecursionTest, Fibonacci) {
  ASSERT_NO_FATAL_FAILURE(
      Run(std::string(".func (.param .b32 r) first(.param .b32 n)\n") + kRegisters + R"(
  mov.u32 %r2, %r1;
  setp.lt.u32 %p1, %r1, 2;
  @%p1 bra DONE;
  sub.u32 %r3, %r1, 1;
  st.param.b32 [a], %r3;
  call.uni (v), first, (a);
  ld.param.b32 %r4, [v];
  sub.u32 %r3, %r1, 2;
  st.param.b32 [a], %r3;
  call.uni (v), first, (a);
  ld.param.b32 %r5, [v];
  add.u32 %r2, %r4, %r5;
DONE:
  st.param.b32 [r], %r2;
  ret;
})"));
  ASSERT_FALSE(records_.empty());
  const auto levels = static_cast<uint32_t>(records_[0].text);
  EXPECT_GE(levels, 8u);
  uint32_t last = 0, sum = 1;
  for (uint32_t i = 0; i <= levels; ++i) {
    EXPECT_EQ(results_[i], last) << i;
    sum += last;
    last = sum - last;
  }
  ExpectTooDeepFrom(levels + 1);
}

// Whether a number is even: zero is, and one is odd if the one before is even.
TEST_P(RecursionTest, FunctionsThatCallEachOther) {
  const auto function = [](const std::string& name, const std::string& other, int at_zero) {
    return ".func (.param .b32 r) " + name + "(.param .b32 n)\n" + kRegisters + "mov.u32 %r2, " +
           std::to_string(at_zero) + ";\n" + R"(
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  sub.u32 %r1, %r1, 1;
  st.param.b32 [a], %r1;
  call.uni (v), )" +
           other + R"(, (a);
  ld.param.b32 %r2, [v];
DONE:
  st.param.b32 [r], %r2;
  ret;
}
)";
  };
  ASSERT_NO_FATAL_FAILURE(Run(".func (.param .b32 r) odd(.param .b32 n);\n" +
                              function("first", "odd", 2) + function("odd", "first", 1)));
  for (uint32_t i = 0; i < kMostLevels; ++i) EXPECT_EQ(results_[i], i % 2 == 0 ? 2u : 1u) << i;
  ExpectTooDeepFrom(kMostLevels);
}

// Each level writes its own array before it calls, and sums it up behind the call; it reads the
// caller's through its address.
TEST_P(RecursionTest, EachLevelHasLocalsOfItsOwn) {
  const std::string inner = R"(
.func (.param .b32 r) level(.param .b32 n, .param .b64 callers)
{
  .reg .pred %p<3>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<6>;
  .local .align 8 .b8 mine[24];
  .param .b32 a;
  .param .b64 b;
  .param .b32 v;
  ld.param.u32 %r1, [n];
  ld.param.u64 %rd1, [callers];
  mov.u64 %rd2, mine;
  cvta.local.u64 %rd3, %rd2;
  st.local.u32 [%rd2], %r1;
  st.local.u32 [%rd2+20], %r1;
  mov.u32 %r2, 0;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  sub.u32 %r3, %r1, 1;
  st.param.b32 [a], %r3;
  st.param.b64 [b], %rd3;
  call.uni (v), level, (a, b);
  ld.param.b32 %r2, [v];
DONE:
  ld.local.u32 %r4, [%rd2];
  add.u32 %r2, %r2, %r4;
  ld.local.u32 %r4, [%rd2+20];
  add.u32 %r2, %r2, %r4;
  setp.eq.s64 %p2, %rd1, 0;
  @%p2 bra NONE;
  ld.u32 %r5, [%rd1+20];
  mul.lo.u32 %r5, %r5, 1000;
  add.u32 %r2, %r2, %r5;
NONE:
  st.param.b32 [r], %r2;
  ret;
}
)";
  ASSERT_NO_FATAL_FAILURE(
      Run(inner + ".func (.param .b32 r) first(.param .b32 n)\n" + kRegisters + R"(
  .param .b64 b;
  mov.u64 %rd1, 0;
  st.param.b32 [a], %r1;
  st.param.b64 [b], %rd1;
  call.uni (v), level, (a, b);
  ld.param.b32 %r2, [v];
  st.param.b32 [r], %r2;
  ret;
})"));
  for (uint32_t i = 0; i < kMostLevels; ++i) {
    // Twice the numbers up to i, and a thousand times those of all callers, which are not 0.
    EXPECT_EQ(results_[i], (2 + 1000) * (i * (i + 1) / 2)) << i;
  }
  ExpectTooDeepFrom(kMostLevels);
}

// The call has a predicate, and what is behind it is done where it does not hold.
TEST_P(RecursionTest, ACallWithAPredicate) {
  ASSERT_NO_FATAL_FAILURE(Run(R"(
.global .align 4 .b32 calls[32];
.func down(.param .b32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<4>;
  .param .b32 a;
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mov.u64 %rd1, calls;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd1, %rd1, %rd2;
  ld.global.u32 %r3, [%rd1];
  add.u32 %r3, %r3, 1;
  st.global.u32 [%rd1], %r3;
  setp.ne.u32 %p1, %r1, 0;
  sub.u32 %r1, %r1, 1;
  st.param.b32 [a], %r1;
  @%p1 call down, (a);
  ld.global.u32 %r3, [%rd1];
  add.u32 %r3, %r3, 100;
  st.global.u32 [%rd1], %r3;
  ret;
}
.func (.param .b32 r) first(.param .b32 n)
)" + std::string(kRegisters) + R"(
  st.param.b32 [a], %r1;
  call.uni down, (a);
  mov.u32 %r2, %tid.x;
  mov.u64 %rd1, calls;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd1, %rd1, %rd2;
  ld.global.u32 %r3, [%rd1];
  st.param.b32 [r], %r3;
  ret;
})"));
  for (uint32_t i = 0; i < kMostLevels; ++i) EXPECT_EQ(results_[i], 101 * (i + 1)) << i;
  ExpectTooDeepFrom(kMostLevels);
}

INSTANTIATE_TEST_SUITE_P(Modes, RecursionTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "hardened" : "fence"; });

}  // namespace
}  // namespace warpline::guard
