// What a hardened kernel has to keep to as a whole: its loops ask whether to stop, and it begins by
// zeroing shared memory. That its blocks ask where they begin is tested in entry_poll_test.cc.
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "guard/verify/verify_testing.h"

namespace warpline::guard {
namespace {

constexpr Policy kStops = {.arena_bits = 36, .hardened = true, .stops = true, .zeroes = false};
constexpr Policy kZeroes = {.arena_bits = 36, .hardened = true, .stops = false, .zeroes = true};

constexpr char kIterations[] = "\tmov.b32 wlg_n, 65535;\n";

// What closes a loop at L while %p1 holds.
const Statements kCounted = {
    "setp.gt.and.s32 wlg_pl, wlg_n, 0, %p1",
    "@wlg_pl bra L",
};
const Statements kPoll = {
    "ld.param.b64 wlg_at, [wlg_launch+24]",
    "ld.volatile.global.b32 wlg_t, [wlg_at]",
    "setp.lt.s32 wlg_ps, wlg_t, 0",
    "@wlg_ps exit",
    "setp.eq.s32 wlg_ps, wlg_t, 0",
    "selp.b32 wlg_n, 65535, 1, wlg_ps",
    "nanosleep.u32 wlg_t",
};
const Statements kLoop =
    Joined({{"AGAIN:", "max.s32 wlg_n, wlg_n, 1", "L:", "add.s32 wlg_n, wlg_n, -1"},
            kCounted,
            {"@!%p1 bra AFTER"},
            kPoll,
            {"bra AGAIN", "AFTER:"}});

// A loop whose threads ask first after `first` iterations, and then after 65535. Grids of up to
// `blocks` blocks do not ask where a block begins.
std::string Asking(int first, int blocks) {
  return absl::StrReplaceAll(
      BehindPrologue(Beginning(absl::StrCat("\tmov.b32 wlg_n, ", first, ";\n"), kLoop), kEntryPoll),
      {{"wlg_t, 16;", absl::StrCat("wlg_t, ", blocks, ";")}});
}

std::string Counted(const Statements& statements) { return Beginning(kIterations, statements); }

std::string Looping(const Statements& statements) {
  return BehindPrologue(Counted(statements), kEntryPoll);
}

Statements Without(const Statements& statements, size_t left_out) {
  Statements rest = statements;
  rest.erase(rest.begin() + static_cast<ptrdiff_t>(left_out));
  return rest;
}

Statements EachReplaced(
    Statements statements,
    std::initializer_list<std::pair<absl::string_view, absl::string_view>> replacements) {
  for (std::string& one : statements) one = absl::StrReplaceAll(one, replacements);
  return statements;
}

struct Change {
  const char* from;
  const char* to;
};

// With each of the changes alone.
void ExpectEachRefused(const std::string& text, absl::Span<const Change> changes) {
  for (const Change& change : changes) {
    SCOPED_TRACE(change.to);
    ExpectRefused(BehindPrologue(Replaced(text, change.from, change.to), kEntryPoll), kStops);
  }
}

TEST(WholeKernel, BlocksThatDoNotAskCountWithTheirFirstIterations) {
  ExpectAccepted(Asking(1, 1 << 20), kStops);
  ExpectAccepted(Asking(15, 1 << 20), kStops);
  ExpectAccepted(Asking(65535, 1 << 9), kStops);
  ExpectRefused(Asking(65535, 1 << 20), kStops);
}

// A loop of such a function may be entered in its midst, where an iteration that the function began
// with would take it round once more than its text says.
TEST(WholeKernel, FunctionsThatAreCalledBeginWithoutIterations) {
  const auto module = [](const char* iterations) {
    return absl::StrCat(kPreamble, ".func f ()\n{\n", kRegisters, "\tmov.b32 wlg_n, ", iterations,
                        ";\n", WriteAll(),
                        Replaced(Body(kLoop), "ld.param.b64 wlg_at, [wlg_launch+24]",
                                 "ld.const.b64 wlg_at, [wlg_const+40]"),
                        "\tret;\n}\n");
  };
  ExpectAccepted(module("0"), kStops);
  ExpectRefused(module("1"), kStops);
  ExpectRefused(module("63"), kStops);
}

TEST(WholeKernel, FunctionsThatAreCalledHaveNoLaunchesWord) {
  const std::string text =
      absl::StrCat(kPreamble, ".func f ()\n{\n", kRegisters, "\tmov.b32 wlg_n, 0;\n", WriteAll(),
                   Body(kLoop), "\tret;\n}\n");
  ExpectRefused(text, kStops);
  ExpectRefused(Replaced(text, "[wlg_launch+24]", "[wlg_const+40]"), kStops);
}

TEST(WholeKernel, AcceptsLoopsThatPoll) {
  ExpectAccepted(Looping(kLoop), kStops);
  ExpectAccepted(Looping(Joined({{"L:"}, kPoll, {"@%p1 bra L"}})), kStops);
  ExpectAccepted(Looping(Joined({{"L:", "add.s32 wlg_n, wlg_n, -1", "setp.gt.s32 wlg_pl, wlg_n, 0",
                                  "@wlg_pl bra L"},
                                 kPoll,
                                 {"bra L"}})),
                 kStops);
  ExpectAccepted(Looping({"@%p1 bra L", "mov.b32 %r1, %r2", "L:"}), kStops);
}

TEST(WholeKernel, RefusesLoopsThatDoNot) {
  for (const Statements& loop : {Statements{"L:", "bra L"}, Statements{"L:", "@%p1 bra L"},
                                 Statements{"L:", "@wlg_pl bra L"}}) {
    ExpectRefused(Looping(loop), kStops);
  }
  ExpectAccepted(Module({"L:", "bra L"}), kHardened);
  // No statement of a loop may be missing.
  for (size_t i = 1; i < kLoop.size(); ++i) {
    if (kLoop[i].find("bra") != std::string::npos || kLoop[i].find("max") != std::string::npos) {
      continue;
    }
    ExpectRefused(Looping(Without(kLoop, i)), kStops);
  }
}

TEST(WholeKernel, RefusesAlteredLoops) {
  const Change kChanges[] = {
      {"@wlg_pl bra L", "@!wlg_pl bra L"},
      {"@wlg_pl bra L", "@wlg_ps bra L"},
      {"@wlg_pl bra L", "@%p1 bra L"},
      {"add.s32 wlg_n, wlg_n, -1", "add.s32 wlg_n, wlg_n, 1"},
      {"add.s32 wlg_n, wlg_n, -1", "mov.b32 wlg_n, 5"},
      {"wlg_pl, wlg_n, 0, %p1", "wlg_pl, wlg_n, -5, %p1"},
      {"setp.gt.and.s32", "setp.gt.or.s32"},
      {"setp.gt.and.s32", "setp.gt.and.u32"},
      {"[wlg_launch+24]", "[wlg_launch+16]"},
      {"[wlg_launch+24]", "[wlg_launch+32]"},
      {"ld.param.b64 wlg_at, [wlg_launch+24]", "ld.const.b64 wlg_at, [wlg_const+40]"},
      {"ld.volatile.global.b32 wlg_t, [wlg_at]", "ld.global.b32 wlg_t, [wlg_at]"},
      {"ld.volatile.global.b32 wlg_t, [wlg_at]", "ld.volatile.global.b32 %r1, [wlg_at]"},
      {"@wlg_ps exit", "@!wlg_ps exit"},
      {"@wlg_ps exit", "@wlg_pl exit"},
      {"@wlg_ps exit", "@%p1 exit"},
      {"selp.b32 wlg_n, 65535, 1", "selp.b32 wlg_n, 65536, 1"},
      {"selp.b32 wlg_n, 65535, 1", "selp.b32 wlg_n, 65535, 2"},
      {"selp.b32 wlg_n, 65535, 1", "selp.b32 wlg_n, 0, 1"},
      {"selp.b32 wlg_n, 65535, 1", "selp.b32 wlg_n, %r1, 1"},
      {"65535, 1, wlg_ps", "65535, 1, %p1"},
      {"selp.b32 wlg_n, 65535, 1, wlg_ps", "mov.b32 wlg_n, 65535"},
      {"setp.lt.s32 wlg_ps, wlg_t, 0", "setp.ne.s32 wlg_ps, wlg_t, 0"},
      {"setp.lt.s32 wlg_ps, wlg_t, 0", "setp.eq.s32 wlg_ps, wlg_t, 0"},
      {"setp.eq.s32 wlg_ps, wlg_t, 0", "setp.lt.s32 wlg_ps, wlg_t, 0"},
      {"\tselp", "\tisspacep.shared wlg_ps, %rd1;\n\tselp"},
      {"nanosleep.u32 wlg_t", "nanosleep.u32 0"},
      {"nanosleep.u32 wlg_t", "nanosleep.u32 %r1"},
      {"nanosleep.u32 wlg_t", "@%p1 nanosleep.u32 wlg_t"},
      {"\tnanosleep", "\tactivemask.b32 wlg_t;\n\tnanosleep"},
      {"\tnanosleep", "M:\n\tnanosleep"},
      {"\tbra AGAIN;", "M:\n\tbra AGAIN;"},
      {"max.s32 wlg_n, wlg_n, 1", "max.s32 wlg_n, wlg_n, 2"},
      {"max.s32 wlg_n, wlg_n, 1", "max.u32 wlg_n, wlg_n, 1"},
      {"\tsetp.gt.and", "\tmax.s32 wlg_n, wlg_n, 1;\n\tsetp.gt.and"},
      {"\tsetp.gt.and", "\tmax.s32 wlg_n, wlg_n, 1;\nM:\n\tsetp.gt.and"},
      {"L:\n\tadd.s32", "L:\n\tmov.b32 %r1, %r2;\n\tadd.s32"},
      {"L:\n\tadd.s32", "L:\nM:\n\tadd.s32"},
      {"\t@wlg_pl bra L", "M:\n\t@wlg_pl bra L"},
      {"\t@wlg_pl bra L", "\tisspacep.local wlg_pl, %rd1;\n\t@wlg_pl bra L"},
      {"\t@wlg_ps exit", "\tisspacep.shared wlg_ps, %rd1;\n\t@wlg_ps exit"},
      {kIterations, ""},
  };
  const std::string text = Counted(kLoop);
  ExpectAccepted(BehindPrologue(text, kEntryPoll), kStops);
  ExpectEachRefused(text, kChanges);
}

// A store through the stop word's address would leave the arena.
TEST(WholeKernel, TheStopWordIsOnlyRead) {
  const Statements address = {kPoll[0]};
  for (const char* const access :
       {"st.global.b32 [wlg_at], %r1", "ld.global.b32 %r1, [wlg_at]",
        "atom.global.add.u32 %r1, [wlg_at], 1", "st.b32 [wlg_at], %r1"}) {
    ExpectRefused(Looping(Joined({address, {access}})), kHardened);
    ExpectRefused(
        Looping(
            Joined({kAlignedArena4, kHardenedSharedLeg4, address, kHardenedLocalLeg4, {access}})),
        kHardened);
  }
  ExpectRefused(Looping(kPoll), kPlain);
}

// A loop whose passes are taken from the iterations beforehand.
const Statements kPasses =
    Joined({{"AGAIN:", "sub.s32 %r2, %r3, %r1", "max.s32 wlg_n, wlg_n, 1",
             "min.u32 wlg_passes, wlg_n, %r2", "max.u32 wlg_passes, wlg_passes, 1",
             "sub.s32 wlg_n, wlg_n, wlg_passes", "L:", "add.s32 wlg_passes, wlg_passes, -1",
             "add.s32 %r1, %r1, 1", "setp.lt.s32 %p1, %r1, %r3",
             "setp.gt.s32 wlg_pl, wlg_passes, 0", "@wlg_pl bra L", "@!%p1 bra AFTER"},
            kPoll,
            {"bra AGAIN", "AFTER:"}});

TEST(WholeKernel, AcceptsLoopsThatCountTheirPasses) {
  ExpectAccepted(Looping(kPasses), kStops);
  // A way out, and one after the other.
  Statements leaves = kPasses;
  leaves.insert(leaves.begin() + 8, "@%p2 bra AFTER");
  ExpectAccepted(Looping(leaves), kStops);
  const Statements second =
      EachReplaced(kPasses, {{"AGAIN", "M"}, {"AFTER", "END"}, {"L:", "N:"}, {"bra L", "bra N"}});
  ExpectAccepted(Looping(Joined({kPasses, second})), kStops);
  // One that asks in each pass.
  Statements asks = kPasses;
  asks.insert(asks.end() - 2, {"setp.gt.s32 wlg_pl, wlg_passes, 0", "@wlg_pl bra L"});
  ExpectAccepted(Looping(asks), kStops);
}

TEST(WholeKernel, RefusesLoopsThatMiscountTheirPasses) {
  // No statement of the guard's may be missing, and none may stand twice.
  for (size_t i = 1; i < kPasses.size(); ++i) {
    const bool is_way = kPasses[i].find("bra") != std::string::npos;
    if (is_way || kPasses[i].find("wlg_") == std::string::npos) continue;
    ExpectRefused(Looping(Without(kPasses, i)), kStops);
    Statements twice = kPasses;
    twice.insert(twice.begin() + static_cast<ptrdiff_t>(i), kPasses[i]);
    // To compare or to ask again does no harm.
    const bool is_harmless = kPasses[i].starts_with("setp") || kPasses[i].starts_with("ld") ||
                             kPasses[i].starts_with("@wlg_ps") || kPasses[i].starts_with("selp") ||
                             kPasses[i].starts_with("max.s32 wlg_n");
    if (!is_harmless) ExpectRefused(Looping(twice), kStops);
  }
  const Change kChanges[] = {
      {"min.u32 wlg_passes, wlg_n, %r2", "min.u32 wlg_passes, %r1, %r2"},
      {"min.u32 wlg_passes, wlg_n, %r2", "min.s32 wlg_passes, wlg_n, %r2"},
      {"min.u32 wlg_passes, wlg_n, %r2", "max.u32 wlg_passes, wlg_n, %r2"},
      {"min.u32 wlg_passes, wlg_n, %r2", "mov.b32 wlg_passes, %r2"},
      {"min.u32 wlg_passes, wlg_n, %r2", "@%p2 min.u32 wlg_passes, wlg_n, %r2"},
      {"min.u32 wlg_passes, wlg_n, %r2", "min.u32 wlg_passes, wlg_n, wlg_t"},
      {"max.u32 wlg_passes, wlg_passes, 1", "max.u32 wlg_passes, wlg_passes, 2"},
      {"max.u32 wlg_passes, wlg_passes, 1", "max.s32 wlg_passes, wlg_passes, 1"},
      {"sub.s32 wlg_n, wlg_n, wlg_passes", "sub.s32 wlg_n, wlg_passes, wlg_n"},
      {"sub.s32 wlg_n, wlg_n, wlg_passes", "add.s32 wlg_n, wlg_n, wlg_passes"},
      {"sub.s32 wlg_n, wlg_n, wlg_passes", "@%p2 sub.s32 wlg_n, wlg_n, wlg_passes"},
      {"add.s32 wlg_passes, wlg_passes, -1", "add.s32 wlg_passes, wlg_passes, 1"},
      {"add.s32 wlg_passes, wlg_passes, -1", "add.s32 wlg_n, wlg_n, -1"},
      {"setp.gt.s32 wlg_pl, wlg_passes, 0", "setp.gt.s32 wlg_pl, wlg_n, 0"},
      {"setp.gt.s32 wlg_pl, wlg_passes, 0", "setp.ge.s32 wlg_pl, wlg_passes, 0"},
      {"setp.gt.s32 wlg_pl, wlg_passes, 0", "setp.gt.u32 wlg_pl, wlg_passes, -1"},
      {"setp.gt.s32 wlg_pl, wlg_passes, 0", "isspacep.local wlg_pl, %rd1"},
      {"@wlg_pl bra L", "@!wlg_pl bra L"},
      {"@wlg_pl bra L", "@%p1 bra L"},
      {"@wlg_pl bra L", "bra L"},
      {"@wlg_pl bra L", "setp.gt.s32 wlg_pl, wlg_n, 0;\n\t@wlg_pl bra L"},
      {"@wlg_pl bra L", "isspacep.local wlg_pl, %rd1;\n\t@wlg_pl bra L"},
      // What stands between what is given and what is taken, or counted.
      {"\tmin.u32", "\tmov.b32 %r2, 5;\n\tmin.u32"},
      {"\tmin.u32", "M:\n\tmin.u32"},
      {"\tmax.u32", "M:\n\tmax.u32"},
      {"\tsub.s32 wlg_n", "M:\n\tsub.s32 wlg_n"},
      {"L:\n\tadd.s32", "L:\n\tmov.b32 %r2, 5;\n\tadd.s32"},
      {"L:\n\tadd.s32", "L:\nM:\n\tadd.s32"},
      {"\tadd.s32 %r1, %r1, 1", "\tadd.s32 wlg_passes, wlg_passes, -1;\n\tadd.s32 %r1, %r1, 1"},
      // Passes that are left when the loop is left would be there for another way back.
      {"\tadd.s32 %r1, %r1, 1", "M:\n\tadd.s32 %r1, %r1, 1"},
      {"\tsetp.gt.s32 wlg_pl", "\t@%p2 bra M;\nM:\n\tsetp.gt.s32 wlg_pl"},
      // Another way in: from above, from below behind a poll, or counted by iterations.
      {"AGAIN:", "\t@%p2 bra L;\nAGAIN:"},
      {"\tbra AGAIN", "\t@%p2 bra L;\n\tbra AGAIN"},
      {"\tbra AGAIN", "\tsetp.gt.s32 wlg_pl, wlg_n, 0;\n\t@wlg_pl bra L;\n\tbra AGAIN"},
      {"\tbra AGAIN", "M:\n\tsetp.gt.s32 wlg_pl, wlg_passes, 0;\n\t@wlg_pl bra L;\n\tbra AGAIN"},
      {"AFTER:", "AFTER:\n\tsetp.gt.s32 wlg_pl, wlg_passes, 0;\n\t@wlg_pl bra L;"},
      {"AFTER:", "AFTER:\n\tsetp.gt.s32 wlg_pl, wlg_passes, 0;\n\t@wlg_pl bra AFTER;"},
      {kIterations, ""},
  };
  // Passes of one loop are not for another.
  const Statements other = EachReplaced(kPasses, {{"AGAIN", "M"}, {"AFTER", "END"}, {"L:", "N:"}});
  ExpectRefused(Looping(Joined({kPasses, other})), kStops);
  // Lanes that vote on their passes leave the loop with those that they have.
  const Statements kVote = {"bar.warp.sync -1",
                            "activemask.b32 wlg_t",
                            "setp.ne.s32 wlg_ps, wlg_t, -1",
                            "@wlg_ps exit",
                            "setp.gt.s32 wlg_pl, wlg_passes, 0",
                            "vote.sync.all.pred wlg_pl, wlg_pl, -1"};
  Statements votes = kPasses;
  votes.insert(votes.begin() + 10, kVote.begin(), kVote.end());
  ExpectRefused(Looping(votes), kStops);
  const std::string text = Counted(kPasses);
  ExpectEachRefused(text, kChanges);
  ExpectRefused(Looping(kPasses), kPlain);
  // Where nobody is stopped they may count as they like, but not read what was never written.
  ExpectAccepted(Counted(kPasses), kHardened);
}

// Functions that call others twice, and those others twice, and so on, take as long as a loop.
TEST(WholeKernel, CallsAreBoundedLikeLoops) {
  const auto module = [](int depth, const char* ask) {
    std::string text(kPreamble);
    for (int i = 0; i < depth; ++i) {
      absl::StrAppend(&text, ".func f", i, " ()\n{\n");
      for (int call = 0; i > 0 && call < 2; ++call) {
        absl::StrAppend(&text, "\tcall f", i - 1, ";\n");
      }
      absl::StrAppend(&text, "\tret;\n}\n");
    }
    return absl::StrCat(text, ".entry k (" WARPLINE_LAUNCH ")\n{\n", kRegisters, ask, "\tcall f",
                        depth - 1, ";\n\tret;\n}\n");
  };
  ExpectAccepted(module(20, kEntryPoll), kStops);
  ExpectRefused(module(40, kEntryPoll), kStops);
  ExpectAccepted(module(40, ""), kHardened);
}

// Instructions that take long count as often as an addition would take as long.
TEST(WholeKernel, LongInstructionsCountMore) {
  const auto loop = [](const char* instruction, int count, int iterations) {
    Statements statements = {"AGAIN:", "max.s32 wlg_n, wlg_n, 1", "L:", "add.s32 wlg_n, wlg_n, -1"};
    for (int i = 0; i < count; ++i) statements.push_back(instruction);
    const Statements end = Joined({kCounted, {"@!%p1 bra AFTER"}, kPoll, {"bra AGAIN", "AFTER:"}});
    statements.insert(statements.end(), end.begin(), end.end());
    return absl::StrReplaceAll(Looping(statements), {{"65535", absl::StrCat(iterations)}});
  };
  const struct {
    const char* instruction;
    int most;  // Iterations with one of them, about
  } kCases[] = {{"nanosleep.u32 1000000", 63},
                {"membar.sys", 40000},
                {"fence.acq_rel.gpu", 40000},
                {"atom.shared.add.u32 %r1, [sm], 1", 20000},
                {"red.shared.add.u32 [sm], 1", 20000}};
  for (const auto& one : kCases) {
    ExpectAccepted(loop(one.instruction, 1, one.most), kStops);
    ExpectRefused(loop(one.instruction, 2, one.most), kStops);
  }
  ExpectAccepted(loop("div.u32 %r1, %r2, %r3", 8, 65535), kStops);
  ExpectRefused(loop("div.u32 %r1, %r2, %r3", 64, 65535), kStops);
  ExpectAccepted(loop("ld.shared.b32 %r1, [sm]", 500, 65535), kStops);
  ExpectRefused(loop("ld.local.b32 %r1, [wlg_locals]", 32, 65535), kStops);
}

constexpr char kZeroing[] =
    "\tmov.u32 wlg_s, %reserved_smem_offset_end;\n"
    "\tadd.u32 wlg_s, wlg_s, 15;\n"
    "\tand.b32 wlg_s, wlg_s, -16;\n"
    "\tmad.lo.u32 wlg_s, wlg_tid, 16, wlg_s;\n"
    "\tsetp.ge.u32 wlg_ps, wlg_s, wlg_smem;\n"
    "\t@wlg_ps bra wlg_zeroed;\n"
    "wlg_zero:\n"
    "\tst.shared.v4.b32 [wlg_s], {0, 0, 0, 0};\n"
    "\tld.param.b32 wlg_t, [wlg_launch+16];\n"
    "\tadd.u32 wlg_s, wlg_s, wlg_t;\n"
    "\tsetp.lt.u32 wlg_ps, wlg_s, wlg_smem;\n"
    "\t@wlg_ps bra wlg_zero;\n"
    "wlg_zeroed:\n";
constexpr char kAwaiting[] =
    "\tmov.u32 wlg_s, %reserved_smem_offset_end;\n"
    "\tsetp.lt.u32 wlg_ps, wlg_s, wlg_smem;\n"
    "\t@wlg_ps barrier.sync 0;\n";

// The statements, with `between` in front of what awaits the zeroing.
std::string Zeroing(const Statements& statements, const std::string& between = "") {
  return absl::StrReplaceAll(
      Beginning(kPlacingPoll, statements),
      {{kZeroLocals, absl::StrCat(kZeroLocals, kZeroing, between, kAwaiting)}});
}

TEST(WholeKernel, SharedMemoryIsZeroedBeforeItIsUsed) {
  for (const Fenced& fenced : AllFenced()) {
    if (!fenced.policy.hardened) continue;
    const bool uses = fenced.access.find("global") == std::string::npos &&
                      fenced.access.find("local") == std::string::npos &&
                      fenced.access.find("param") == std::string::npos &&
                      fenced.access.find("const") == std::string::npos;
    ExpectAccepted(Zeroing(fenced.All()), kZeroes);
    if (uses) {
      ExpectRefused(Module(fenced.All()), kZeroes);
    } else if (fenced.access.find("shared") == std::string::npos) {
      ExpectAccepted(Module(fenced.All()), kZeroes);
    }
  }
  ExpectRefused(Module({"ld.shared.b32 %r1, [sm]"}), kZeroes);
  ExpectRefused(Module({"ld.shared.b32 %r1, [word]"}), kZeroes);
}

TEST(WholeKernel, NoStatementOfItMayBeMissingOrElsewhere) {
  const std::string use = "ld.shared.b32 %r1, [sm]";
  const std::string text = Zeroing({use});
  ExpectAccepted(text, kZeroes);
  const std::string zeroing(kZeroing);
  for (size_t begin = 0; begin < zeroing.size();) {
    const size_t end = zeroing.find('\n', begin) + 1;
    const std::string less = zeroing.substr(0, begin) + zeroing.substr(end);
    ExpectRefused(absl::StrReplaceAll(text, {{kZeroing, less}}), kZeroes);
    begin = end;
  }
  const std::string awaiting(kAwaiting);
  for (size_t begin = 0; begin < awaiting.size();) {
    const size_t end = awaiting.find('\n', begin) + 1;
    const std::string less = awaiting.substr(0, begin) + awaiting.substr(end);
    ExpectRefused(absl::StrReplaceAll(text, {{kAwaiting, less}}), kZeroes);
    const std::string more = awaiting.substr(0, end) + "\tmov.b32 %r1, %r2;\n";
    if (end < awaiting.size()) {
      ExpectRefused(absl::StrReplaceAll(text, {{kAwaiting, more + awaiting.substr(end)}}), kZeroes);
    }
    begin = end;
  }
  // Threads know their numbers only behind the poll that says so.
  ExpectRefused(Replaced(text, kPlacingPoll, ""), kZeroes);
  ExpectRefused(Replaced(text, kPlacingPoll, kEntryPoll), kZeroes);
  const std::string late = absl::StrReplaceAll(
      Beginning(kPlacingPoll, {use}),
      {{kWriteParameters, absl::StrCat(kWriteParameters, kZeroing, kAwaiting)}});
  ExpectRefused(late, kZeroes);
  ExpectRefused(absl::StrReplaceAll(text, {{kAwaiting, absl::StrCat(kAwaiting, kAwaiting)}}),
                kZeroes);
  ExpectRefused(absl::StrReplaceAll(text, {{kSmemPrologue, ""}}), kZeroes);
  ExpectRefused(absl::StrReplaceAll(text, {{kZeroing, absl::StrCat(kZeroing, kZeroing)}}), kZeroes);
  ExpectRefused(Zeroing({use, "bra wlg_zeroed"}), kZeroes);
}

// Loads from elsewhere need not wait.
TEST(WholeKernel, NobodyUsesSharedMemoryOrPartsBeforeAllHaveZeroedIt) {
  const std::string use = "ld.shared.b32 %r1, [sm]";
  for (const char* const fine : {"\tmov.u32 %r1, %tid.x;\n", "\tld.param.b64 %rd1, [p];\n",
                                 "\tld.local.b32 %r1, [wlg_locals];\n"}) {
    ExpectAccepted(Zeroing({use}, fine), kZeroes);
  }
  for (const char* const early :
       {"\tld.shared.b32 %r1, [sm];\n", "M:\n", "\tbra L;\n", "\t@%p1 bra L;\n", "\texit;\n",
        "\t@%p1 exit;\n", "\tret;\n", "\tbarrier.sync 0;\n", "\tbarrier.sync 1;\n",
        "\tbar.warp.sync -1;\n", "\t@wlg_ps barrier.sync 0;\n"}) {
    ExpectRefused(Zeroing({use, "L:"}, absl::StrCat("\tsetp.ne.s32 %p1, 1, 0;\n", early)), kZeroes);
  }
  ExpectAccepted(Zeroing({use, "L:"}, "\tsetp.ne.s32 %p1, 1, 0;\n"), kZeroes);
}

// The barrier behind the zeroing is one of those that a kernel has.
TEST(WholeKernel, TheBarrierBehindTheZeroingIsOneOfSeveral) {
  ExpectAccepted(Zeroing({"barrier.sync 0", "L:", "@%p1 barrier.sync 0"}), kZeroes);
  ExpectRefused(Zeroing({"barrier.sync 1"}), kZeroes);
  ExpectRefused(Zeroing({"barrier.red.popc.u32 %r1, 1, %p1"}), kZeroes);
  ExpectAccepted(Zeroing(Joined({kWholeWarp, {"barrier.sync 1, 64"}})), kZeroes);
  ExpectRefused(Zeroing(Joined({kWholeWarp, {"barrier.sync 0, 64"}})), kZeroes);
  ExpectRefused(Zeroing(Joined({kWholeWarp, {"barrier.red.popc.u32 %r1, 0, %p1"}})), kZeroes);
  ExpectRefused(Zeroing(Joined({kWholeWarp, {"barrier.sync 1", "@wlg_ps barrier.sync 0"}})),
                kZeroes);
}

// The function that uses it is called by another.
TEST(WholeKernel, AlsoByFunctionsThatAreCalled) {
  const std::string functions = absl::StrCat(
      kPreamble, ".shared .b32 word;\n.func g ()\n{\n\t.reg .b32 %r1;\n",
      "\tld.shared.b32 %r1, [word];\n\tret;\n}\n.func f ()\n{\n\tcall g;\n\tret;\n}\n");
  const std::string registers =
      "\t.reg .b32 wlg_lo;\n\t.reg .b32 wlg_hi;\n\t.reg .b32 wlg_s;\n\t.reg .b32 wlg_t;\n"
      "\t.reg .pred wlg_ps;\n\t.reg .b32 wlg_smem;\n\t.reg .b32 wlg_tid;\n\t.reg .b64 wlg_at;\n";
  const auto module = [&](const std::string& first) {
    return absl::StrCat(functions, ".entry k (" WARPLINE_LAUNCH ")\n{\n", registers, first,
                        "\tcall f;\n\tret;\n}\n");
  };
  ExpectRefused(module(""), kZeroes);
  const std::string first = absl::StrCat(kSmemPrologue, kPlacingPoll);
  ExpectRefused(module(absl::StrCat(first, kZeroing)), kZeroes);
  ExpectAccepted(module(absl::StrCat(first, kZeroing, kAwaiting)), kZeroes);
}

}  // namespace
}  // namespace warpline::guard
