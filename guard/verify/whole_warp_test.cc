// Instructions of a warp, and the labels to which only whole warps come.
#include <string>
#include <string_view>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "guard/verify/verify_testing.h"

namespace warpline::guard {
namespace {

constexpr Policy kStops = {.arena_bits = 36, .hardened = true, .stops = true, .zeroes = false};

const Statements kMove = {"movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2"};
constexpr char kVote[] = "vote.sync.any.pred wlg_pu, %p1, -1";

// A loop that all lanes of a warp leave together.
const Statements kLoop =
    Joined({kWholeWarp, {"wlg_w0:"}, kMove, {kVote, "@wlg_pu bra wlg_w0"}, kMove});

// One that can be stopped.
const Statements kStoppable = Joined(
    {kWholeWarp,
     {"wlg_w1:", "max.s32 wlg_n, wlg_n, 1", "wlg_w0:", "add.s32 wlg_n, wlg_n, -1"},
     kMove,
     {kVote, "setp.gt.and.s32 wlg_pl, wlg_n, 0, wlg_pu", "vote.sync.all.pred wlg_pl, wlg_pl, -1",
      "@wlg_pl bra wlg_w0", "@!wlg_pu bra wlg_w2", "ld.param.b64 wlg_at, [wlg_launch+24]",
      "ld.volatile.global.b32 wlg_t, [wlg_at]", "setp.lt.s32 wlg_ps, wlg_t, 0",
      "vote.sync.any.pred wlg_ps, wlg_ps, -1", "@wlg_ps exit", "setp.eq.s32 wlg_ps, wlg_t, 0",
      "selp.b32 wlg_n, 65535, 1, wlg_ps", "nanosleep.u32 wlg_t", "bra wlg_w1", "wlg_w2:"},
     kMove});

std::string Stoppable(const Statements& statements) {
  return Beginning(absl::StrCat("\tmov.b32 wlg_n, 65535;\n", kEntryPoll), statements);
}

Statements Without(const Statements& statements, size_t left_out) {
  Statements rest = statements;
  rest.erase(rest.begin() + static_cast<ptrdiff_t>(left_out));
  return rest;
}

TEST(WholeWarp, StaysTogetherWhereItsLanesHaveVoted) {
  ExpectAccepted(Module(kLoop), kPlain);
  ExpectAccepted(Stoppable(kStoppable), kStops);
  // Forward, by all lanes or by none; the way that does not lead there ends before.
  ExpectAccepted(
      Module(Joined({kWholeWarp,
                     {kVote, "@wlg_pu bra wlg_w7", "mov.b32 %r1, %r2", "bra wlg_w7", "wlg_w7:"},
                     kMove})),
      kPlain);
  ExpectAccepted(Module(Joined({kWholeWarp, {kVote, "@!wlg_pu exit"}, kMove})), kPlain);
}

TEST(WholeWarp, NeedsEveryStatementOfIt) {
  for (size_t i = 0; i < kLoop.size(); ++i) {
    const std::string_view left_out = kLoop[i];
    if (left_out == kMove[0] || left_out == "@wlg_pu bra wlg_w0") continue;
    if (left_out == "wlg_w0:") continue;  // The branch leads nowhere then.
    SCOPED_TRACE(kLoop[i]);
    ExpectRefused(Module(Without(kLoop, i)), kPlain);
  }
  for (size_t i = 0; i < kStoppable.size(); ++i) {
    // Without these the code does something else, which is allowed as well.
    static const Statements kOther = {kMove[0],
                                      "wlg_w0:",
                                      "wlg_w1:",
                                      "wlg_w2:",
                                      "max.s32 wlg_n, wlg_n, 1",
                                      kVote,
                                      "@wlg_pl bra wlg_w0",
                                      "@!wlg_pu bra wlg_w2",
                                      "bra wlg_w1"};
    if (absl::c_linear_search(kOther, kStoppable[i])) continue;
    SCOPED_TRACE(kStoppable[i]);
    ExpectRefused(Stoppable(Without(kStoppable, i)), kStops);
  }
}

TEST(WholeWarp, ALabelOfWholeWarpsIsReachedByNobodyElse) {
  const auto refused = [](const Statements& before, const Statements& after) {
    ExpectRefused(Module(Joined({before, {"wlg_w0:"}, kMove, after})), kPlain);
  };
  refused({}, {});
  refused({"L:"}, {});
  refused(Joined({kWholeWarp, {"L:"}}), {});
  refused(Joined({kWholeWarp, {"@%p1 exit"}}), {});
  refused(Joined({kWholeWarp, {"@%p1 bra L", "L:"}}), {});
  refused({"@%p1 bra wlg_w0", "bar.warp.sync -1", "activemask.b32 wlg_t",
           "setp.ne.s32 wlg_ps, wlg_t, -1", "@wlg_ps exit"},
          {});
  refused(kWholeWarp, {"@%p1 bra wlg_w0"});
  refused(kWholeWarp, {"L:", "bra wlg_w0"});
  refused(kWholeWarp, {"@%p1 exit", "bra wlg_w0"});
  refused(kWholeWarp, {"@%p1 exit", kVote, "@wlg_pu bra wlg_w0"});
  // The predicate is not what was voted on any more.
  refused(kWholeWarp, {kVote, "L:", "@wlg_pu bra wlg_w0"});
  refused(kWholeWarp, {"isspacep.shared wlg_ps, %rd1", "@wlg_ps bra wlg_w0"});
  refused(kWholeWarp, {"isspacep.local wlg_pl, %rd1", "@wlg_pl bra wlg_w0"});
  refused(kWholeWarp, {"vote.sync.any.pred %p2, %p1, -1", "@%p2 bra wlg_w0"});
}

TEST(WholeWarp, VotesAreOfOneForm) {
  for (const char* const vote :
       {"vote.sync.any.pred wlg_pu, %p1, 1", "vote.sync.any.pred wlg_pu, %p1, %r1",
        "vote.sync.all.pred wlg_pu, %p1, -1", "vote.any.pred wlg_pu, %p1",
        "vote.sync.any.pred wlg_ps, %p1, -1", "vote.sync.any.pred wlg_pl, %p1, -1",
        "vote.sync.any.pred wlg_pu, wlg_pu, -1", "vote.sync.any.pred wlg_pu, %r1, -1",
        "mov.pred wlg_pu, %p1", "@%p2 vote.sync.any.pred wlg_pu, %p1, -1"}) {
    ExpectRefused(Module(Joined({kWholeWarp,
                                 {"isspacep.shared wlg_ps, %rd1", "isspacep.local wlg_pl, %rd1",
                                  kVote, vote}})),
                  kPlain);
  }
  ExpectRefused(Module({kVote}), kPlain);
  ExpectAccepted(Module(Joined({kWholeWarp, {kVote}})), kPlain);
}

// Where one lane has iterations left and goes on, another takes more than it has, without end.
TEST(WholeWarp, GoesOnWhileAllItsLanesHaveIterationsLeft) {
  const auto voting = [](const std::string& vote) {
    return Replaced(Stoppable(kStoppable), "vote.sync.all.pred wlg_pl, wlg_pl, -1", vote);
  };
  ExpectAccepted(voting("vote.sync.all.pred wlg_pl, wlg_pl, -1"), kStops);
  for (const char* const vote :
       {"vote.sync.any.pred wlg_pl, wlg_pl, -1", "vote.sync.all.pred wlg_pl, !wlg_pl, -1",
        "vote.sync.all.pred wlg_pl, wlg_pl, 4294967295", "vote.sync.all.pred wlg_pl, wlg_pu, -1",
        "vote.sync.uni.pred wlg_pl, wlg_pl, -1"}) {
    ExpectRefused(voting(vote), kStops);
  }
  ExpectRefused(Replaced(Stoppable(kStoppable), "vote.sync.any.pred wlg_ps, wlg_ps, -1",
                         "vote.sync.all.pred wlg_ps, wlg_ps, -1"),
                kStops);
}

// What some lanes do alone leaves them apart, although all go the same way.
TEST(WholeWarp, PartsWhereSomeLanesWaitForEachOther) {
  for (const char* const together :
       {"bar.warp.sync -1", "bar.warp.sync 4294967295", "vote.sync.any.pred %p2, %p1, -1",
        "vote.sync.ballot.b32 %r1, %p1, 4294967295", "match.any.sync.b32 %r1, %r2, -1",
        "redux.sync.add.s32 %r1, %r2, -1", "shfl.sync.idx.b32 %r1, %r2, %r3, 31, -1",
        "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1", "nanosleep.u32 %r1", "barrier.sync 0",
        "barrier.sync 1, 64", "barrier.arrive 1, 64", "barrier.red.popc.u32 %r1, 0, 64, %p1",
        "@%p1 mov.b32 %r1, 1"}) {
    ExpectAccepted(Module(Joined({kWholeWarp, {together}, kMove})), kPlain);
    ExpectAccepted(Module(Joined({kWholeWarp, {together}, kMove})), kHardened);
  }
  for (const char* const apart :
       {"bar.warp.sync 1", "bar.warp.sync %r1", "bar.warp.sync 2147483647",
        "vote.sync.any.pred %p2, %p1, %r3", "vote.any.pred %p2, %p1",
        "match.any.sync.b32 %r1, %r2, 65535", "redux.sync.add.s32 %r1, %r2, %r3",
        "shfl.sync.idx.b32 %r1, %r2, %r3, 31, %r4", "shfl.idx.b32 %r1, %r2, %r3, -1",
        "@%p1 bar.warp.sync -1", "@%p1 vote.sync.any.pred %p2, %p1, -1",
        "@%p1 shfl.sync.idx.b32 %r1, %r2, %r3, 31, -1", "@%p1 nanosleep.u32 %r1",
        "@%p1 barrier.sync 0", "@%p1 barrier.red.popc.u32 %r1, 0, 64, %p1"}) {
    ExpectRefused(Module(Joined({kWholeWarp, {apart}, kMove})), kPlain);
    ExpectAccepted(Module(Joined({kWholeWarp, {apart}, kWholeWarp, kMove})), kPlain);
    ExpectRefused(Module(Joined({kWholeWarp, {apart, kVote}})), kPlain);
    ExpectRefused(Module(Joined({kWholeWarp, {apart, "wlg_w0:"}})), kPlain);
  }
  for (const char* const barrier :
       {"barrier.sync %r1, 32", "barrier.sync 1, %r1", "barrier.arrive %r1, 32",
        "barrier.red.popc.u32 %r2, %r1, %p1", "barrier.red.and.pred %p2, 1, %r1, %p1"}) {
    ExpectAccepted(Module({barrier}), kPlain);
    ExpectRefused(Module(Joined({kWholeWarp, {barrier}, kMove})), kPlain);
  }
}

TEST(WholeWarp, IsWholeBehindASecondCheckToo) {
  ExpectAccepted(Module(Joined({kWholeWarp, kWholeWarp, kMove, kWholeWarp, kMove})), kPlain);
  for (size_t i = 0; i < kWholeWarp.size(); ++i) {
    const bool ends = i + 1 == kWholeWarp.size();
    // Without its end it ends nobody, and the warp is as whole as it was.
    const std::string text = Module(Joined({kWholeWarp, Without(kWholeWarp, i), kMove}));
    if (ends) {
      ExpectAccepted(text, kPlain);
    } else {
      ExpectRefused(text, kPlain);
    }
    ExpectRefused(Module(Joined({kWholeWarp, {"L:"}, Without(kWholeWarp, i), kMove})), kPlain);
  }
}

TEST(WholeWarp, LabelsOfTheGuardsHaveNumbers) {
  for (const char* const label : {"wlg_w:", "wlg_wx:", "wlg_w01:", "wlg_w-1:", "wlg_x0:"}) {
    ExpectRefused(Module(Joined({kWholeWarp, {label}})), kPlain);
  }
  ExpectRefused(Module(Joined({kWholeWarp, {"wlg_w0:", "wlg_w0:"}})), kPlain);
  ExpectRefused(Module(Joined({kWholeWarp, {"bra wlg_w0"}})), kPlain);
  ExpectRefused(Module(Joined({kWholeWarp, {".reg .b32 wlg_w0"}})), kPlain);
}

// Who is called may part.
TEST(WholeWarp, IsForgottenBehindACall) {
  const std::string text = absl::StrCat(
      kPreamble,
      ".func f ()\n{\n\tret;\n}\n.entry k (" WARPLINE_LAUNCH ")\n{\n\t.reg .b32 %r<3>;\n",
      "\t.reg .b32 wlg_t;\n\t.reg .pred wlg_ps;\n\tmov.b32 %r2, 0;\n", Body(kWholeWarp),
      "\tcall f;\n", Body(kMove), "\tret;\n}\n");
  ExpectRefused(text, kPlain);
  ExpectAccepted(Replaced(text, "\tcall f;\n", ""), kPlain);
}

}  // namespace
}  // namespace warpline::guard
