// Blocks of hardened kernels ask where they begin whether to stop, but in small grids.
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "guard/verify/verify_testing.h"

namespace warpline::guard {
namespace {

constexpr Policy kStops = {.arena_bits = 36, .hardened = true, .stops = true, .zeroes = false};

// A kernel without loops whose grids of up to so many blocks do not ask.
std::string Asking(const std::string& blocks, const Statements& statements = {}) {
  return Replaced(Beginning(kEntryPoll, statements), "wlg_t, 16;",
                  absl::StrCat("wlg_t, ", blocks, ";"));
}

TEST(EntryPoll, KernelsThatAreToStopHaveIt) {
  ExpectAccepted(Beginning(kEntryPoll, {}), kStops);
  ExpectRefused(Module({}), kStops);
  ExpectRefused(absl::StrCat(kPreamble, ".entry k (" WARPLINE_LAUNCH ")\n{\n}\n"), kStops);
  ExpectAccepted(Module({}), kHardened);
  ExpectAccepted(Module({}), kPlain);
}

TEST(EntryPoll, OthersDoNot) {
  ExpectRefused(Beginning(kEntryPoll, {}), kHardened);
  ExpectRefused(Beginning(kEntryPoll, {}), kPlain);
  const auto module = [](const std::string& ask) {
    return absl::StrCat(kPreamble, ".func f ()\n{\n", kRegisters, ask, "\tret;\n}\n");
  };
  ExpectAccepted(module(""), kStops);
  ExpectRefused(module(kEntryPoll), kStops);
}

TEST(EntryPoll, EachKernelOfAModuleHasIt) {
  const auto entry = [](const char* name, const std::string& ask) {
    return absl::StrCat(".entry ", name, " (" WARPLINE_LAUNCH ")\n{\n", kRegisters, ask,
                        "\tret;\n}\n");
  };
  ExpectAccepted(absl::StrCat(kPreamble, entry("k", kEntryPoll), entry("l", kEntryPoll)), kStops);
  ExpectRefused(absl::StrCat(kPreamble, entry("k", kEntryPoll), entry("l", "")), kStops);
}

TEST(EntryPoll, NoStatementOfItMayBeMissing) {
  for (const std::string poll : {kEntryPoll, kPlacingPoll}) {
    ExpectAccepted(Beginning(poll, {}), kStops);
    for (size_t begin = 0; begin < poll.size();) {
      const size_t end = poll.find('\n', begin) + 1;
      ExpectRefused(Beginning(poll.substr(0, begin) + poll.substr(end), {}), kStops);
      const std::string more = poll.substr(0, end) + "\tmov.b32 %r1, 1;\n" + poll.substr(end);
      if (end < poll.size()) ExpectRefused(Beginning(more, {}), kStops);
      begin = end;
    }
  }
}

TEST(EntryPoll, NoStatementOfItMayBeAnother) {
  struct Change {
    const char* from;
    const char* to;
  };
  const Change kInBoth[] = {
      {"setp.le.u32", "setp.ge.u32"},
      {"setp.le.u32", "setp.le.s32"},
      {"@wlg_ps bra wlg_entered", "@!wlg_ps bra wlg_entered"},
      {"@wlg_ps bra wlg_entered", "bra wlg_entered"},
      {"@wlg_ps bra wlg_entered", "@wlg_ps bra L"},
      {"[wlg_launch+24]", "[wlg_launch+16]"},
      {"ld.param.b64 wlg_at, [wlg_launch+24]", "ld.const.b64 wlg_at, [wlg_const+40]"},
      {"ld.volatile.global.b32", "ld.global.b32"},
      {"setp.lt.s32 wlg_ps, wlg_t, 0", "setp.ne.s32 wlg_ps, wlg_t, 0"},
      {"wlg_t, wlg_t, 0, 31, -1", "wlg_t, wlg_t, 0, 31, 1"},
      {"wlg_t, wlg_t, 0, 31, -1", "wlg_t, wlg_t, 1, 31, -1"},
      {"max.s32 wlg_t, wlg_t, 0", "max.s32 wlg_t, wlg_t, 1000000"},
      {"nanosleep.u32 wlg_t", "@wlg_ps nanosleep.u32 wlg_t"},
      {"nanosleep.u32 wlg_t", "nanosleep.u32 1000000"},
      {"barrier.red.or.pred", "barrier.red.and.pred"},
      {"barrier.red.or.pred wlg_ps, 0, wlg_ps", "barrier.red.or.pred wlg_ps, 1, wlg_ps"},
      {"barrier.red.or.pred wlg_ps, 0, wlg_ps", "barrier.red.or.pred wlg_ps, 0, !wlg_ps"},
      {"@wlg_ps exit", "@!wlg_ps exit"},
      {"@wlg_ps exit", "@wlg_pl exit"},
      {"@wlg_ps exit", "@wlg_ps ret"},
  };
  for (const char* const poll : {kEntryPoll, kPlacingPoll}) {
    const std::string text = Beginning(poll, {"L:"});
    ExpectAccepted(text, kStops);
    for (const Change& change : kInBoth) {
      ExpectRefused(Replaced(text, change.from, change.to), kStops);
    }
  }
  // The word that says more of a block than the number of blocks is not that of the others.
  ExpectRefused(Replaced(Beginning(kEntryPoll, {}), "[wlg_launch+8]", "[wlg_launch+12]"), kStops);
  const Change kWherePlaced[] = {
      {"[wlg_launch+12]", "[wlg_launch+8]"},
      {"mov.u32 wlg_tid, %tid.x", "mov.u32 wlg_tid, %tid.y"},
      {"and.b32 wlg_t, wlg_t, 2147483647", "and.b32 wlg_t, wlg_t, 1"},
      {"@wlg_ps bra wlg_asked", "@wlg_ps bra wlg_entered"},
      {"@wlg_ps bra wlg_asked", "bra wlg_asked"},
      {"wlg_t, 16;\n\t@wlg_ps bra wlg_asked", "wlg_t, 17;\n\t@wlg_ps bra wlg_asked"},
      {"mov.u32 wlg_hi, %tid.z;\n\tmov.u32 wlg_lo, %ntid.y",
       "mov.u32 wlg_hi, %tid.z;\n\tmov.u32 wlg_lo, %ntid.x"},
      {"mad.lo.u32 wlg_tid, wlg_hi, wlg_lo, wlg_tid", "mov.u32 wlg_tid, wlg_hi"},
  };
  for (const Change& change : kWherePlaced) {
    ExpectRefused(Replaced(Beginning(kPlacingPoll, {}), change.from, change.to), kStops);
  }
}

TEST(EntryPoll, NothingStandsBeforeItButThePrologue) {
  for (const char* const early :
       {"\tmov.b32 %r1, 1;\n", "\tbra L;\n", "\texit;\n", "\tret;\n", "M:\n", "\tbarrier.sync 0;\n",
        "\t.pragma \"nounroll\";\n", "\tadd.s64 wlg_x, %rd1, 8;\n", "\tmov.b32 wlg_s, word;\n"}) {
    ExpectRefused(Beginning(absl::StrCat(early, kEntryPoll), {"L:"}), kStops);
    ExpectAccepted(Beginning(kEntryPoll, {"L:"}), kStops);
  }
  // It belongs to the prologue, which ends where the poll begins.
  ExpectRefused(Replaced(Module({}), kLocalPrologue, absl::StrCat(kEntryPoll, kLocalPrologue)),
                kStops);
  ExpectRefused(Replaced(Module({}), kZeroLocals, absl::StrCat(kZeroLocals, kEntryPoll)), kStops);
  ExpectRefused(Counting(kCountLanes, {}), kStops);
  ExpectAccepted(
      Replaced(Counting(kCountLanes, {}), kSmemPrologue, absl::StrCat(kSmemPrologue, kEntryPoll)),
      kStops);
}

TEST(EntryPoll, StandsThereOnce) {
  ExpectRefused(Beginning(absl::StrCat(kEntryPoll, kEntryPoll), {}), kStops);
  ExpectRefused(Beginning(kEntryPoll, {"bra wlg_entered"}), kStops);
  ExpectRefused(Beginning(kEntryPoll, {"wlg_entered:"}), kStops);
}

TEST(EntryPoll, WhatItHasReadIsForgotten) {
  for (const char* const use :
       {"setp.lt.s32 wlg_ps, wlg_t, 0", "setp.eq.s32 wlg_ps, wlg_t, 0",
        "setp.ne.s32 wlg_ps, wlg_t, 0", "ld.volatile.global.b32 wlg_t, [wlg_at]",
        "ld.global.b32 %r1, [wlg_at]", "mov.b32 %r1, wlg_lo", "@wlg_ps bra L"}) {
    ExpectRefused(Beginning(kEntryPoll, {use, "L:"}), kStops);
  }
}

TEST(EntryPoll, TheBoundIsANumberOfBlocks) {
  for (const char* const blocks : {"1", "2", "1048576"}) ExpectAccepted(Asking(blocks), kStops);
  for (const char* const blocks :
       {"0", "-1", "1048577", "4294967296", "9223372036854775807", "%rd1", "wlg_at", "1.0", ""}) {
    ExpectRefused(Asking(blocks), kStops);
  }
}

// The blocks that do not ask may take no longer than 2^34 additions together.
TEST(EntryPoll, LongBlocksAskInSmallerGrids) {
  const Statements sleeps(32, "nanosleep.u32 1000000");  // 2^25
  ExpectAccepted(Asking("511", sleeps), kStops);
  ExpectRefused(Asking("512", sleeps), kStops);
}

// The iterations that a thread may make until it first asks in a loop count.
TEST(EntryPoll, IterationsThatDoNotAskCount) {
  const auto looping = [](int iterations, int blocks) {
    return absl::StrReplaceAll(
        Beginning(absl::StrCat("\tmov.b32 wlg_n, ", iterations, ";\n", kEntryPoll), {}),
        {{"wlg_t, 16;", absl::StrCat("wlg_t, ", blocks, ";")}});
  };
  ExpectAccepted(looping(1, 1 << 20), kStops);
  ExpectAccepted(looping(65535, 512), kStops);
  ExpectRefused(looping(65535, 1 << 20), kStops);
}

}  // namespace
}  // namespace warpline::guard
