// Atomic additions of all lanes to one address, which the rewriter has one lane make: the sums and
// what each lane gets must be as if every lane had made its own.
#include "guard/rewrite/warp_atomics.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "guard/guard.h"
#include "tests/guard/two_arenas.h"

namespace warpline::guard {
namespace {

constexpr uint32_t kThreads = 96;

// %rd1 is where the counters are, %rd2 where a thread's result goes, %r1 its number; %p1 holds in
// every third thread.
std::string Kernel(const std::string& body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
         ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
         "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;\n"
         "mul.wide.u32 %rd2, %r1, 8; add.s64 %rd2, %rd2, %rd1;\n"
         "rem.u32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0;\n" +
         body + "\nret;\n}\n";
}

class WarpAtomicsTest : public ::testing::TestWithParam<bool> {
 protected:
  // The counter comes first, then, from word 64 on, two words of each thread.
  std::vector<uint32_t> Run(const std::string& body, bool shall_aggregate = true) {
    auto arenas = TwoArenas::Open("cpu");
    EXPECT_TRUE(arenas.ok()) << arenas.status();
    const auto guarded =
        Guard(Kernel(body), {.arena_bits = TwoArenas::kArenaBits, .hardened = GetParam()});
    EXPECT_TRUE(guarded.ok()) << guarded.status();
    EXPECT_EQ(guarded->text.find("activemask") != std::string::npos, shall_aggregate)
        << guarded->text;
    TwoArenas::Tenant& tenant = (*arenas)->attacker();
    EXPECT_EQ((*arenas)->Write(tenant.records, {0, 0}), CudaResult::kSuccess);
    const std::vector<uint32_t> zeros(64 + 2 * kThreads);
    EXPECT_EQ((*arenas)->Write(tenant.memory, zeros), CudaResult::kSuccess);
    const auto kernel = (*arenas)->LoadFor(tenant, *guarded, "k");
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    std::vector<std::byte> params(8);
    std::memcpy(params.data(), &tenant.memory, 8);
    EXPECT_EQ((*arenas)->Run(*kernel, kThreads, 0, params), CudaResult::kSuccess);
    std::vector<uint32_t> words;
    EXPECT_EQ((*arenas)->Read(tenant.memory, zeros.size(), &words), CudaResult::kSuccess);
    return words;
  }
};

TEST_P(WarpAtomicsTest, EachLaneGetsAPlaceOfItsOwn) {
  const auto words =
      Run("@%p1 atom.global.add.u32 %r3, [%rd1+4], 1; @%p1 st.global.u32 [%rd2+256], %r3;");
  EXPECT_EQ(words[1], kThreads / 3);
  std::vector<uint32_t> places;
  for (uint32_t i = 0; i < kThreads; i += 3) places.push_back(words[64 + 2 * i]);
  std::sort(places.begin(), places.end());
  for (uint32_t i = 0; i < places.size(); ++i) EXPECT_EQ(places[i], i);
}

TEST_P(WarpAtomicsTest, APlaceIsAsWideAsWhatIsAdded) {
  const auto words =
      Run("ld.param.u64 %rd3, [out]; mov.u32 %r4, %ntid.x; mul.wide.u32 %rd4, %r4, 64;\n"
          "atom.add.global.u64 %rd5, [%rd3], %rd4; st.global.u64 [%rd2+256], %rd5;");
  EXPECT_EQ(words[0] + (uint64_t{words[1]} << 32), uint64_t{kThreads} * kThreads * 64);
  std::vector<uint64_t> places;
  for (uint32_t i = 0; i < kThreads; ++i) {
    places.push_back(words[64 + 2 * i] + (uint64_t{words[65 + 2 * i]} << 32));
  }
  std::sort(places.begin(), places.end());
  for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(places[i], uint64_t{i} * kThreads * 64);
}

TEST_P(WarpAtomicsTest, ValuesMayDifferWhereNobodyReadsTheResult) {
  EXPECT_EQ(Run("atom.global.add.u32 %r3, [%rd1], %r1;")[0], kThreads * (kThreads - 1) / 2);
  EXPECT_EQ(Run("@!%p1 red.global.add.u32 [%rd1], 5;")[0], 5 * kThreads / 3 * 2);
  EXPECT_EQ(Run("red.relaxed.gpu.global.max.s32 [%rd1], %r1;")[0], kThreads - 1);
  EXPECT_EQ(Run("red.global.or.b32 [%rd1], %r1;")[0], 127u);
}

TEST_P(WarpAtomicsTest, OneMayFollowAnother) {
  const std::string body =
      "atom.global.add.u32 %r3, [%rd1], 1; atom.global.add.u32 %r4, [%rd1], 1;\n"
      "add.u32 %r5, %r3, %r4; st.global.u32 [%rd2+256], %r5;";
  const auto words = Run(body);
  EXPECT_EQ(words[0], 2 * kThreads);
}

TEST_P(WarpAtomicsTest, OtherAtomicsStayAsTheyAre) {
  // Addresses that differ, registers that are written twice, and results that depend on the order.
  EXPECT_EQ(Run("atom.global.add.u32 %r3, [%rd2+256], 1;", false)[64], 1u);
  EXPECT_EQ(Run("ld.param.u64 %rd3, [out]; @%p1 add.s64 %rd3, %rd3, 4;\n"
                "red.global.add.u32 [%rd3], 1;",
                false)[1],
            kThreads / 3);
  EXPECT_EQ(Run("atom.global.add.u32 %r3, [%rd1], %r1; st.global.u32 [%rd2+256], %r3;", false)[0],
            kThreads * (kThreads - 1) / 2);
  // What depends on a carry differs by lane: here the last three of the threads have one.
  EXPECT_EQ(
      Run("mov.u32 %r4, 0xffffffa3; add.cc.u32 %r5, %r1, %r4; addc.u32 %r3, 0, 0;\n"
          "mul.lo.u32 %r3, %r3, 4; red.global.min.u32 [%rd1+4], 0;\n"
          "cvt.u64.u32 %rd3, %r3; add.s64 %rd3, %rd3, %rd1; red.global.inc.u32 [%rd3], 99;")[0],
      kThreads - 3);
  EXPECT_EQ(Run("atom.acq_rel.gpu.global.add.u32 %r3, [%rd1], 1;", false)[0], kThreads);
  EXPECT_EQ(Run("atom.global.inc.u32 %r3, [%rd1], 1000;", false)[0], kThreads);
}

INSTANTIATE_TEST_SUITE_P(Modes, WarpAtomicsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "hardened" : "fence"; });

}  // namespace
}  // namespace warpline::guard
