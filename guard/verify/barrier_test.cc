// Barriers of a block, of which a hardened kernel may have several.
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "guard/verify/verify_testing.h"

namespace warpline::guard {
namespace {

constexpr char kReduce[] = "barrier.red.popc.u32 %r1, 1, %p1";

void ExpectRefusedFor(const std::string& text, std::string_view why) {
  const absl::Status status = Verify(text, kHardened);
  EXPECT_TRUE(absl::StrContains(status.message(), std::string(why))) << status << "\n" << text;
}

TEST(Barriers, MayBeAnywhereWhereThereIsOne) {
  ExpectAccepted(Module({"barrier.sync 0", "L:", "barrier.sync 0", "@%p1 barrier.sync 0"}),
                 kHardened);
  ExpectAccepted(Module({"@%p1 bra L", kReduce, "L:", kReduce}), kHardened);
  ExpectAccepted(Module({"barrier.cta.sync 1, 64", "L:", "barrier.sync 1, 64"}), kHardened);
}

TEST(Barriers, SeveralAreForWholeWarps) {
  constexpr std::string_view kWhy = "a barrier in a warp that may not be whole, where there are";
  const struct {
    const char* one;
    const char* other;
  } pairs[] = {
      {"barrier.sync 0", kReduce},
      {"barrier.sync 0", "barrier.sync 1"},
      {"barrier.sync 1, 64", "barrier.sync 2, 64"},
      {"barrier.sync 1, 64", "barrier.arrive 1, 64"},
      {"barrier.red.and.pred %p2, 3, 32, %p1", "barrier.arrive 1, 64"},
  };
  for (const auto& [one, other] : pairs) {
    SCOPED_TRACE(absl::StrCat(one, " and ", other));
    ExpectAccepted(Module(Joined({kWholeWarp, {one, other, one}})), kHardened);
    ExpectAccepted(Module(Joined({kWholeWarp, {one, "L:"}, kWholeWarp, {other}})), kHardened);
    ExpectAccepted(Module(Joined({kWholeWarp, {one, "wlg_w0:", other, one}})), kHardened);
    ExpectRefusedFor(Module({one, other}), kWhy);
    ExpectRefusedFor(Module(Joined({{one}, kWholeWarp, {other}})), kWhy);
    ExpectRefusedFor(Module(Joined({kWholeWarp, {one, "L:", other}})), kWhy);
    ExpectRefusedFor(Module(Joined({kWholeWarp, {one, "@%p1 bra L", other, "L:"}})), kWhy);
    ExpectRefusedFor(Module(Joined({kWholeWarp, {one, "bar.warp.sync 3", other}})), kWhy);
    ExpectRefusedFor(Module(Joined({kWholeWarp, {one, absl::StrCat("@%p1 ", other)}})), kWhy);
    ExpectRefusedFor(Module(Joined({kWholeWarp, {absl::StrCat("@%p1 ", one), other}})), kWhy);
    ExpectAccepted(Module({one, other}), kPlain);
  }
  // Which comes first does not matter.
  ExpectRefusedFor(Module(Joined({{"barrier.sync 0", "L:"}, kWholeWarp, {"barrier.sync 1"}})),
                   kWhy);
}

TEST(Barriers, ANumberStandsForOne) {
  const auto refused = [](const char* one, const char* other, std::string_view why) {
    SCOPED_TRACE(absl::StrCat(one, " and ", other));
    ExpectRefusedFor(Module(Joined({kWholeWarp, {one, other}})), why);
    ExpectRefusedFor(Module(Joined({kWholeWarp, {other, one}})), why);
    ExpectAccepted(Module({one, other}), kPlain);
  };
  constexpr std::string_view kThreads = "one number of barriers for different numbers of threads";
  refused("barrier.sync 1, 64", "barrier.sync 1, 96", kThreads);
  refused("barrier.sync 1, 64", "barrier.sync 1", kThreads);
  refused("barrier.sync 1, 64", "barrier.arrive 1, 96", kThreads);
  refused("barrier.red.popc.u32 %r1, 1, 64, %p1", kReduce, kThreads);
  constexpr std::string_view kKinds = "one number of barriers that reduce and of others";
  refused("barrier.sync 1", kReduce, kKinds);
  refused("barrier.arrive 1, 64", "barrier.red.popc.u32 %r1, 1, 64, %p1", kKinds);
}

TEST(Barriers, SayWhichTheyAre) {
  for (const char* const barrier : {"barrier 0", "barrier.cta 0", "barrier.sync.arrive 1, 64",
                                    "barrier.red.sync.popc.u32 %r1, 1, %p1"}) {
    ExpectRefused(Module({barrier}), kHardened);
  }
}

// A kernel has those of the functions that it calls, and not those of other kernels.
TEST(Barriers, AreThoseOfAKernel) {
  const auto text = [](const std::string& callee, const std::string& entry,
                       const std::string& other) {
    const char* const registers = "\t.reg .b32 wlg_t;\n\t.reg .pred wlg_ps;\n";
    return absl::StrCat(kPreamble, ".func f ()\n{\n", registers, callee, "\tret;\n}\n",
                        ".func g ()\n{\n\tcall f;\n\tret;\n}\n.entry k ()\n{\n", registers, entry,
                        "\tcall g;\n\tret;\n}\n.entry l ()\n{\n", other, "\tret;\n}\n");
  };
  const std::string whole = Body(kWholeWarp);
  const std::string zero = "\tbarrier.sync 0;\n";
  const std::string one = "\tbarrier.sync 1;\n";
  ExpectAccepted(text(zero, zero, one), kHardened);
  ExpectAccepted(text(zero, "", "\tbarrier.sync 0, 64;\n"), kHardened);
  ExpectAccepted(text(whole + zero, whole + one, ""), kHardened);
  ExpectRefused(text(zero, whole + one, ""), kHardened);
  ExpectRefused(text(whole + zero, one, ""), kHardened);
  ExpectRefused(text(whole + zero, whole + "\tbarrier.sync 0, 64;\n", ""), kHardened);
  ExpectRefused(text(zero, zero, zero + one), kHardened);
}

}  // namespace
}  // namespace warpline::guard
