// Guarded loops whose passes are computed beforehand (guard/rewrite/counted_loops.h) make as many
// as they would, whatever their counters begin and end with.
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "guard/guard.h"
#include "tests/guard/two_arenas.h"

namespace warpline::guard {
namespace {

constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kSign = uint32_t{1} << 31;
// More than a thread makes without asking, before its first poll and behind it.
constexpr uint32_t kManyPasses = 20'000;

struct Shape {
  std::string_view comparison;  // "lt.s32"
  bool negated = false;         // The branch is taken where it does not hold.
  int32_t step = 1;
  std::optional<uint32_t> bound;  // A number in the text; otherwise each thread has its own.
};

// Thread i has the words in[2i] and in[2i + 1] for a counter and a bound, and leaves its passes and
// the counter there.
std::string Kernel(const Shape& shape) {
  const std::string bound =
      shape.bound.has_value() ? absl::StrCat(static_cast<int32_t>(*shape.bound)) : "%r3";
  return absl::StrCat(
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 words)\n{\n"
      ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>;\n"
      "ld.param.u64 %rd1, [words]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8;\n"
      "add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r2, [%rd1]; ld.global.u32 %r3, [%rd1+4];\n"
      "mov.u32 %r4, 0;\nL:\nadd.u32 %r4, %r4, 1;\nadd.s32 %r2, %r2, ",
      shape.step, ";\nsetp.", std::string(shape.comparison), " %p1, %r2, ", bound, ";\n@",
      shape.negated ? "!" : "", "%p1 bra L;\n",
      "st.global.u32 [%rd1], %r4; st.global.u32 [%rd1+4], %r2;\nret;\n}\n");
}

bool Holds(std::string_view comparison, uint32_t a, uint32_t b) {
  const bool is_signed = comparison.ends_with("s32");
  const int64_t x = is_signed ? static_cast<int32_t>(a) : int64_t{a};
  const int64_t y = is_signed ? static_cast<int32_t>(b) : int64_t{b};
  const std::string_view how = comparison.substr(0, 2);
  return how == "lt"   ? x < y
         : how == "le" ? x <= y
         : how == "gt" ? x > y
         : how == "ge" ? x >= y
         : how == "eq" ? x == y
                       : x != y;
}

// The passes of the loop; none where they are more than kManyPasses.
std::optional<uint32_t> PassesOf(const Shape& shape, uint32_t counter, uint32_t bound) {
  for (uint32_t passes = 1; passes <= kManyPasses; ++passes) {
    counter += static_cast<uint32_t>(shape.step);
    if (Holds(shape.comparison, counter, bound) == shape.negated) return passes;
  }
  return std::nullopt;
}

std::string GuardedOf(const std::string& text) {
  const auto guarded = Guard(text, {.arena_bits = TwoArenas::kArenaBits, .hardened = true});
  return guarded.ok() && guarded->kernels.size() == 1 ? guarded->text : std::string();
}

bool IsCounted(const Shape& shape) {
  return GuardedOf(Kernel(shape)).find("wlg_passes") != std::string::npos;
}

class CountedLoopsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto arenas = TwoArenas::Open("cpu");
    ASSERT_TRUE(arenas.ok()) << arenas.status();
    arenas_ = *std::move(arenas);
  }

  void Load(const std::string& text) {
    const auto guarded = Guard(text, {.arena_bits = TwoArenas::kArenaBits, .hardened = true});
    ASSERT_TRUE(guarded.ok()) << guarded.status();
    ASSERT_EQ(guarded->kernels.size(), 1u) << guarded->refusals[0].reason;
    const auto kernel = arenas_->LoadFor(arenas_->attacker(), *guarded, "k");
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    kernel_ = *kernel;
  }

  // A thread for each counter and bound of which the loop ends in time.
  void ExpectThePassesOf(const Shape& shape, const std::vector<uint32_t>& words) {
    SCOPED_TRACE(Kernel(shape));
    std::vector<uint32_t> counters = words, given, expected;
    const uint32_t bound = shape.bound.value_or(words.back());
    counters.push_back(bound - 3 * static_cast<uint32_t>(shape.step));
    for (const uint32_t counter : counters) {
      for (const uint32_t end : shape.bound.has_value() ? std::vector{bound} : words) {
        const std::optional<uint32_t> passes = PassesOf(shape, counter, end);
        if (!passes.has_value() || given.size() == 2 * kMostThreads) continue;
        given.insert(given.end(), {counter, end});
        expected.insert(expected.end(),
                        {*passes, counter + *passes * static_cast<uint32_t>(shape.step)});
      }
    }
    ASSERT_FALSE(given.empty());
    ASSERT_NO_FATAL_FAILURE(Load(Kernel(shape)));
    const uint64_t memory = arenas_->attacker().memory;
    ASSERT_EQ(arenas_->Write(memory, given), CudaResult::kSuccess);
    std::vector<std::byte> params(sizeof(memory));
    std::memcpy(params.data(), &memory, sizeof(memory));
    ASSERT_EQ(arenas_->Run(kernel_, given.size() / 2, 0, params), CudaResult::kSuccess);
    std::vector<uint32_t> left;
    ASSERT_EQ(arenas_->Read(memory, expected.size(), &left), CudaResult::kSuccess);
    EXPECT_EQ(left, expected);
  }

  static constexpr size_t kMostThreads = 256;
  std::unique_ptr<TwoArenas> arenas_;
  device::KernelId kernel_{};
};

TEST_F(CountedLoopsTest, MakeThePassesThatTheyWould) {
  // What lies next to where numbers come round, and a loop of many passes.
  const std::vector<uint32_t> words = {0,         1,         2,         5,      64,
                                       130,       kMost,     kMost - 4, kSign,  kSign + 3,
                                       kSign - 1, kSign - 6, 16'000,    16'001, 256};
  const struct {
    std::string_view comparison;
    std::string_view otherwise;
    bool upwards;
  } kComparisons[] = {{"ne.s32", "eq.s32", true},  {"ne.b32", "eq.b32", false},
                      {"lt.s32", "ge.s32", true},  {"le.s32", "gt.s32", true},
                      {"gt.s32", "le.s32", false}, {"ge.s32", "lt.s32", false},
                      {"lt.u32", "ge.u32", true},  {"le.u32", "gt.u32", true},
                      {"gt.u32", "le.u32", false}, {"ge.u32", "lt.u32", false}};
  for (const auto& one : kComparisons) {
    for (const int32_t size : {1, 2, 64, 3, 1000}) {
      const int32_t step = one.upwards ? size : -size;
      for (const Shape& shape :
           {Shape{one.comparison, false, step, {}}, Shape{one.otherwise, true, step, {}},
            Shape{one.comparison, false, step, 64}, Shape{one.comparison, false, step, 128}}) {
        EXPECT_TRUE(IsCounted(shape)) << Kernel(shape);
        ExpectThePassesOf(shape, words);
      }
    }
  }
}

// Those of which it cannot be said beforehand are loops like others, and as right.
TEST_F(CountedLoopsTest, OthersAreNotCounted) {
  const std::vector<uint32_t> words = {0, 1, 7, 300, kMost, kMost - 9};
  for (const Shape& shape : {Shape{"lt.s32", false, -1, {}}, Shape{"eq.s32", false, 1, {}},
                             Shape{"gt.u32", false, 1, {}}, Shape{"lt.u32", false, 1, kMost},
                             Shape{"lt.s32", false, 0, 0}}) {
    EXPECT_FALSE(IsCounted(shape)) << Kernel(shape);
    ExpectThePassesOf(shape, words);
  }
  const auto counts = [](const std::string& loop) {
    const std::string text = GuardedOf(absl::StrCat(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
        ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>;\nmov.u32 %r1, %tid.x;\n"
        "mov.u32 %r2, 0;\nmov.u32 %r3, 9;\nsetp.eq.u32 %p2, %r1, 0;\n",
        loop, "\nret;\n}\n"));
    EXPECT_NE(text, "") << loop;
    return text.find("wlg_passes") != std::string::npos;
  };
  const std::string kPass = "add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, %r3; ";
  EXPECT_TRUE(counts(absl::StrCat("L: ", kPass, "@%p1 bra L;")));
  EXPECT_TRUE(counts(absl::StrCat("L: @%p2 mov.u32 %r4, 1; ", kPass, "@%p1 bra L;")));
  // The counter, the bound or the predicate changes otherwise, or not in each pass.
  EXPECT_FALSE(counts(absl::StrCat("L: @%p2 mov.u32 %r2, 1; ", kPass, "@%p1 bra L;")));
  EXPECT_FALSE(counts(absl::StrCat("L: mov.b64 {%r2, %r4}, 1; ", kPass, "@%p1 bra L;")));
  EXPECT_FALSE(counts(absl::StrCat("L: add.s32 %r3, %r3, 1; ", kPass, "@%p1 bra L;")));
  EXPECT_FALSE(counts(absl::StrCat("L: ", kPass, "setp.eq.s32 %p1, %r1, 1; @%p1 bra L;")));
  EXPECT_FALSE(counts("L: @%p2 add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, %r3; @%p1 bra L;"));
  EXPECT_FALSE(counts("L: add.s32 %r2, %r2, 1; @%p2 setp.lt.s32 %p1, %r2, %r3; @%p1 bra L;"));
  EXPECT_FALSE(counts("L: setp.lt.s32 %p1, %r2, %r3; add.s32 %r2, %r2, 1; @%p1 bra L;"));
  EXPECT_FALSE(counts("L: add.s32 %r2, %r1, 1; setp.lt.s32 %p1, %r2, %r3; @%p1 bra L;"));
  EXPECT_FALSE(counts("L: add.s32 %r2, %r2, 1; setp.lt.and.s32 %p1, %r2, %r3, %p2; @%p1 bra L;"));
  // Another way in, out or through.
  EXPECT_FALSE(counts(absl::StrCat("@%p2 bra L; mov.u32 %r2, 3; L: ", kPass, "@%p1 bra L;")));
  EXPECT_FALSE(counts(absl::StrCat("L: ", kPass, "@%p2 bra L; @%p1 bra L;")));
  EXPECT_FALSE(counts(absl::StrCat("L: @%p2 bra M; ", kPass, "M: @%p1 bra L;")));
  EXPECT_FALSE(counts(absl::StrCat("L: @%p2 exit; ", kPass, "@%p1 bra L;")));
  EXPECT_FALSE(counts(absl::StrCat("L: ", kPass, "bra L;")));
  // One within another is entered again and again.
  EXPECT_FALSE(counts(absl::StrCat("mov.u32 %r4, 0; M: mov.u32 %r2, 0; L: ", kPass,
                                   "@%p1 bra L; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 5; "
                                   "@%p2 bra M;")));
  EXPECT_TRUE(
      counts(absl::StrCat("M: add.u32 %r3, %r3, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra M; L: ", kPass,
                          "@%p1 bra L; @%p2 bra N; mov.u32 %r4, 1; N:")));
  // Threads that have counted differently would not meet there.
  for (const char* const meeting :
       {"bar.sync 0;", "bar.warp.sync -1;", "activemask.b32 %r4;",
        "vote.sync.any.pred %p2, %p2, -1;", "shfl.sync.bfly.b32 %r4, %r4, 1, 31, -1;"}) {
    EXPECT_FALSE(counts(absl::StrCat("mov.u32 %r4, 0; L: ", meeting, kPass, "@%p1 bra L;")));
  }
  // It shall not be unrolled, or would not be, which is what passes are counted for.
  std::string longer;
  for (int i = 0; i < 24; ++i) absl::StrAppend(&longer, "mul.lo.u32 %r4, %r4, %r4; ");
  EXPECT_FALSE(counts(absl::StrCat("mov.u32 %r4, 0; L: ", longer, kPass, "@%p1 bra L;")));
  EXPECT_FALSE(
      counts(absl::StrCat("mov.u32 %r4, 9; L: div.u32 %r4, %r4, %r1; ", kPass, "@%p1 bra L;")));
  EXPECT_FALSE(counts(absl::StrCat("L: .pragma \"nounroll\"; ", kPass, "@%p1 bra L;")));
}

// What stands behind a counted loop need not know of its passes.
TEST_F(CountedLoopsTest, WaysBackBehindThemAreAllowed) {
  const Shape shape = {"lt.s32", false, 1, {}};
  std::string slow = Kernel(shape);
  slow.replace(slow.find("L:\n"), 3, "setp.gt.s32 %p2, %r2, 99;\n@%p2 bra SLOW;\nL:\n");
  slow.replace(slow.find("st.global"), 9, "JOIN:\nst.global");
  slow.replace(slow.find("ret;\n}"), 6, "ret;\nSLOW:\nadd.u32 %r4, %r4, 7;\nbra JOIN;\n}");
  EXPECT_NE(GuardedOf(slow).find("wlg_passes"), std::string::npos) << slow;
}

// A loop that goes on for ever asks like others.
TEST_F(CountedLoopsTest, OneWithoutEndIsStopped) {
  const Shape endless = {"ne.s32", false, 2, {}};
  ASSERT_TRUE(IsCounted(endless));
  ASSERT_NO_FATAL_FAILURE(Load(Kernel(endless)));
  const TwoArenas::Tenant& tenant = arenas_->attacker();
  ASSERT_EQ(arenas_->Write(tenant.memory, {0, 1}), CudaResult::kSuccess);
  std::vector<std::byte> params(sizeof(tenant.memory));
  std::memcpy(params.data(), &tenant.memory, sizeof(tenant.memory));
  EXPECT_EQ(arenas_->RunAndStop(kernel_, tenant, params), CudaResult::kSuccess);
}

}  // namespace
}  // namespace warpline::guard
