// Barriers of a block, of which a hardened kernel may have several.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

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
    return absl::StrCat(
        kPreamble, ".func f ()\n{\n", registers, callee, "\tret;\n}\n",
        ".func g ()\n{\n\tcall f;\n\tret;\n}\n.entry k (" WARPLINE_LAUNCH ")\n{\n", registers,
        entry, "\tcall g;\n\tret;\n}\n.entry l (" WARPLINE_LAUNCH ")\n{\n", other, "\tret;\n}\n");
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

// Threads that end may say where.
TEST(Barriers, ThoseWhoseWarpIsNotWholeMayLeaveALine) {
  const auto check = [](const Statements& besides) {
    Statements all = kAlignedArena4;
    all.insert(all.end(), kWholeWarp.begin(), kWholeWarp.end() - 1);
    all.insert(all.end(), besides.begin(), besides.end());
    all.insert(all.end(), {kWholeWarp.back(), "barrier.sync 0", "barrier.sync 1"});
    return Module(all);
  };
  ExpectAccepted(check({"@wlg_ps st.global.b32 [wlg_at+8], 7"}), kHardened);
  ExpectAccepted(check({}), kHardened);
  for (const Statements& other : std::vector<Statements>{
           {"st.global.b32 [wlg_at+8], 7"},
           {"@%p1 st.global.b32 [wlg_at+8], 7"},
           {"@wlg_ps st.global.b32 [wlg_at+6], 7"},
           {"@wlg_ps st.global.b32 [%rd1+8], 7"},
           {"@wlg_ps st.global.b32 [wlg_at+8], 7", "@wlg_ps st.global.b32 [wlg_at+8], 7"},
           {"@wlg_ps st.global.b32 [wlg_at+8], 7", "mov.b32 %r1, 7"},
           {"mov.b32 %r1, 7"}}) {
    ExpectRefused(check(other), kHardened);
  }
}

const Statements kTwo = {"barrier.sync 0", "barrier.sync 1"};

TEST(LiveLanes, AreThoseThatThereAre) {
  ExpectAccepted(Counting(kCountLanes, Joined({kLiveWarp, kTwo})), kHardened);
  ExpectAccepted(Counting(kCountLanes, Joined({kWholeWarp, kTwo})), kHardened);
  ExpectRefused(Module(Joined({kLiveWarp, kTwo})), kHardened);
  for (size_t i = 0; i < kCountLanes.size(); ++i) {
    SCOPED_TRACE(kCountLanes[i]);
    Statements count = kCountLanes;
    count.erase(count.begin() + static_cast<ptrdiff_t>(i));
    ExpectRefused(Counting(count, Joined({kLiveWarp, kTwo})), kHardened);
    count = kCountLanes;
    count.insert(count.begin() + static_cast<ptrdiff_t>(i), "mov.b32 %r1, 1");
    ExpectRefused(Counting(count, Joined({kLiveWarp, kTwo})), kHardened);
    count[i] = "L:";
    ExpectRefused(Counting(count, Joined({kLiveWarp, kTwo})), kHardened);
    count[i] = absl::StrCat("@%p1 ", kCountLanes[i]);
    count.erase(count.begin() + static_cast<ptrdiff_t>(i) + 1);
    ExpectRefused(Counting(count, Joined({kLiveWarp, kTwo})), kHardened);
  }
  // Once, and before anything of the tenant's.
  ExpectRefused(Counting(Joined({kCountLanes, kCountLanes}), Joined({kLiveWarp, kTwo})), kHardened);
  ExpectRefused(Module(Joined({kCountLanes, kLiveWarp, kTwo})), kHardened);
  for (const char* const other :
       {"mov.b32 wlg_live, 1", "mov.u32 wlg_live, %r1", "and.b32 wlg_live, wlg_live, %r1",
        "and.b32 wlg_live, wlg_live, wlg_t", "activemask.b32 wlg_live",
        "vote.sync.ballot.b32 wlg_live, %p1, -1", "not.b32 wlg_live, wlg_live"}) {
    ExpectRefused(Counting(kCountLanes, Joined({{other}, kLiveWarp, kTwo})), kHardened);
  }
}

TEST(LiveLanes, NeedEveryStatementOfTheCheck) {
  for (size_t i = 0; i < kLiveWarp.size(); ++i) {
    if (i == 3) continue;  // Without it all 32 have to be there.
    SCOPED_TRACE(kLiveWarp[i]);
    Statements check = kLiveWarp;
    check.erase(check.begin() + static_cast<ptrdiff_t>(i));
    ExpectRefused(Counting(kCountLanes, Joined({check, kTwo})), kHardened);
  }
  Statements twice = kLiveWarp;
  twice.insert(twice.begin() + 3, twice[3]);
  ExpectRefused(Counting(kCountLanes, Joined({twice, kTwo})), kHardened);
}

// ptxas takes it for granted that all 32 lanes come to them.
TEST(LiveLanes, AreNotEnoughForInstructionsOfAWarp) {
  const Statements move = {"movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2"};
  ExpectAccepted(Module(Joined({kWholeWarp, move})), kHardened);
  ExpectRefused(Counting(kCountLanes, Joined({kLiveWarp, move})), kHardened);
  ExpectRefused(Counting(kCountLanes, Joined({kWholeWarp, move})), kHardened);
}

TEST(LiveLanes, BecomeFewerWhereSomeLeave) {
  const auto with = [](const Statements& leave) {
    return Counting(kCountLanes, Joined({kLiveWarp, leave, kTwo}));
  };
  const Statements leave = {"vote.sync.ballot.b32 wlg_t, !%p1, -1",
                            "and.b32 wlg_live, wlg_live, wlg_t", "@%p1 exit"};
  ExpectAccepted(with(leave), kHardened);
  ExpectAccepted(with({"vote.sync.ballot.b32 wlg_t, %p2, -1", leave[1], "@!%p2 exit"}), kHardened);
  ExpectAccepted(with(Joined({leave, {"wlg_w0:"}, leave})), kHardened);
  for (size_t i = 0; i < leave.size(); ++i) {
    SCOPED_TRACE(leave[i]);
    Statements rest = leave;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(i));
    ExpectRefused(with(rest), kHardened);
    for (const char* const other : {"mov.b32 %r1, 1", "L:", "wlg_w0:", "mov.pred %p1, %p2"}) {
      if (i == 0) continue;
      Statements broken = leave;
      broken.insert(broken.begin() + static_cast<ptrdiff_t>(i), other);
      ExpectRefused(with(broken), kHardened);
    }
  }
  // Others leave than those that are not counted.
  for (const char* const exit :
       {"@!%p1 exit", "@%p2 exit", "exit", "ret", "@%p1 ret", "@%p1 bra L", "@wlg_ps exit"}) {
    ExpectRefused(with({leave[0], leave[1], exit, "L:"}), kHardened);
  }
  for (const char* const vote :
       {"vote.sync.ballot.b32 wlg_t, !%p1, 1", "vote.sync.ballot.b32 wlg_t, !%p1, %r1",
        "vote.sync.ballot.b32 wlg_t, !wlg_ps, -1", "@%p2 vote.sync.ballot.b32 wlg_t, !%p1, -1",
        "activemask.b32 wlg_t"}) {
    ExpectRefused(with({vote, leave[1], leave[2]}), kHardened);
  }
  // Lanes elsewhere have no vote.
  ExpectRefused(with(Joined({{"L:"}, leave, kLiveWarp})), kHardened);
  ExpectRefused(Counting(kCountLanes, Joined({leave, kLiveWarp, kTwo})), kHardened);
  ExpectRefused(with(Joined({{"@%p2 exit"}, leave, kLiveWarp})), kHardened);
  // Where lanes are not counted.
  ExpectRefused(Module(Joined({kWholeWarp, leave, kTwo})), kHardened);
}

}  // namespace
}  // namespace warpline::guard
