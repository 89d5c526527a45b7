#include "guard/verify/verify.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

namespace warpline::guard {
namespace {

using Statements = std::vector<std::string>;

constexpr Policy kPlain = {.arena_bits = 36, .hardened = false};
constexpr Policy kSmallArena = {.arena_bits = 32, .hardened = false};
constexpr Policy kHardened = {.arena_bits = 36, .hardened = true};

constexpr char kPreamble[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".const .align 128 .b8 wlg_const[96] = {0, 1, -2, 255};\n";

constexpr char kRegisters[] =
    "\t.reg .pred %p<9>;\n\t.reg .b16 %h<9>;\n\t.reg .b32 %r<9>;\n\t.reg .b64 %rd<9>;\n"
    "\t.reg .f32 %f<9>;\n\t.reg .f64 %fd<9>;\n"
    "\t.reg .b32 wlg_base;\n\t.reg .b32 wlg_smem;\n\t.reg .b64 wlg_globals;\n"
    "\t.reg .b64 wlg_consts;\n\t.reg .b64 wlg_params;\n\t.reg .b64 wlg_local;\n"
    "\t.reg .b32 wlg_lo;\n\t.reg .b32 wlg_hi;\n\t.reg .b32 wlg_s;\n\t.reg .b32 wlg_t;\n"
    "\t.reg .b32 wlg_stride;\n\t.reg .b64 wlg_x;\n\t.reg .b64 wlg_off;\n\t.reg .b64 wlg_at;\n"
    "\t.reg .pred wlg_ps;\n\t.reg .pred wlg_pl;\n";

constexpr char kVariables[] =
    "\t.shared .align 16 .b8 sm[64];\n\t.param .b32 a;\n\t.param .align 8 .b8 b[16];\n";

// Every register of kRegisters that is not the guard's, and what is passed.
std::string WriteAll() {
  std::string text;
  const struct {
    const char* move;
    const char* prefix;
  } kinds[] = {{"mov.pred", "%p"}, {"mov.b16", "%h"}, {"mov.b32", "%r"},
               {"mov.b64", "%rd"}, {"mov.b32", "%f"}, {"mov.b64", "%fd"}};
  for (const auto& kind : kinds) {
    for (int i = 0; i < 9; ++i)
      absl::StrAppend(&text, "\t", kind.move, " ", kind.prefix, i, ", 0;\n");
  }
  return text;
}

constexpr char kWriteParameters[] =
    "\tst.param.b32 [a], 0;\n\tst.param.b64 [b], 0;\n\tst.param.b64 [b+8], 0;\n";
constexpr char kZeroLocals[] =
    "\tst.local.v4.b32 [wlg_locals], {0, 0, 0, 0};\n"
    "\tst.local.v4.b32 [wlg_locals+16], {0, 0, 0, 0};\n"
    "\tst.local.v4.b32 [wlg_locals+32], {0, 0, 0, 0};\n"
    "\tst.local.v4.b32 [wlg_locals+48], {0, 0, 0, 0};\n";

constexpr char kLocals[] = "\t.local .align 16 .b8 wlg_locals[64];\n";

constexpr char kPrologue[] =
    "\tmov.u32 wlg_t, %laneid;\n\tand.b32 wlg_t, wlg_t, 1;\n\tshl.b32 wlg_t, wlg_t, 2;\n"
    "\tcvt.u64.u32 wlg_off, wlg_t;\n\tmov.b64 wlg_at, wlg_const;\n"
    "\tadd.s64 wlg_off, wlg_off, wlg_at;\n"
    "\tld.const.b32 wlg_base, [wlg_off];\n\tld.const.b64 wlg_globals, [wlg_const+8];\n"
    "\tmov.b64 wlg_consts, wlg_const;\n\tmov.b64 wlg_params, p;\n";
constexpr char kLocalPrologue[] = "\tmov.b64 wlg_local, wlg_locals;\n";
constexpr char kSmemPrologue[] = "\tmov.b32 wlg_smem, %aggr_smem_size;\n";

constexpr char kEntry[] =
    ".visible .entry k (.param .b64 p, .param .align 8 .b8 q[16], .param .b32 n)\n";

// Statements without tabs and semicolons; a label has its colon.
std::string Body(const Statements& statements) {
  std::string body;
  for (const std::string& statement : statements) {
    const bool is_label = absl::EndsWith(statement, ":");
    absl::StrAppend(&body, is_label ? "" : "\t", statement, is_label ? "\n" : ";\n");
  }
  return body;
}

// A module with one entry, which has wlg_locals of 64 bytes.
std::string Module(const Statements& statements) {
  return absl::StrCat(kPreamble, ".extern .shared .align 16 .b8 dyn[];\n.shared .b32 word;\n",
                      kEntry, ".maxntid 256, 1, 1\n{\n", kRegisters, kVariables, kLocals, kPrologue,
                      kLocalPrologue, kSmemPrologue, kZeroLocals, WriteAll(), kWriteParameters,
                      Body(statements), "\tret;\n}\n");
}

std::string WithoutLocals(const Statements& statements) {
  return absl::StrReplaceAll(Module(statements),
                             {{kLocals, ""}, {kLocalPrologue, ""}, {kZeroLocals, ""}});
}

// A module with a function that two others call.
std::string ModuleWithCalls() {
  return absl::StrCat(
      kPreamble, ".func (.param .b32 res) f (.param .b64 wlg_depot, .param .b32 x);\n",
      ".weak .func g (.param .b64 wlg_depot)\n{\n", kRegisters,
      "\t.param .b64 wlg_pass;\n\t.param .b32 a;\n\t.param .b32 r;\n",
      "\tld.param.b64 wlg_local, [wlg_depot];\n", WriteAll(), "\tst.param.b32 [a], %r1;\n",
      "\tst.param.b64 [wlg_pass], wlg_local;\n\tcall (r), f, (wlg_pass, a);\n",
      "\tld.param.b32 %r2, [r];\n\tret;\n}\n", kEntry, "{\n", kRegisters, kLocals,
      "\t.param .b64 wlg_pass;\n", kLocalPrologue, kZeroLocals,
      "\tst.param.b64 [wlg_pass], wlg_local;\n", "\tcall g, (wlg_pass);\n\tret;\n}\n",
      ".func (.param .b32 res) f (.param .b64 wlg_depot, .param .b32 x)\n{\n", kRegisters,
      "\tld.param.b64 wlg_local, [wlg_depot];\n\tld.param.b32 %r1, [x];\n",
      "\tld.local.b32 %r2, [wlg_local+60];\n\tst.param.b32 [res], %r1;\n\tret;\n}\n");
}

void ExpectAccepted(const std::string& text, const Policy& policy) {
  const absl::Status status = Verify(text, policy);
  EXPECT_TRUE(status.ok()) << status.message() << "\n" << text;
}

void ExpectRefused(const std::string& text, const Policy& policy) {
  EXPECT_EQ(Verify(text, policy).code(), absl::StatusCode::kInvalidArgument) << text;
}

// Replaces one line, which must be there.
std::string Replaced(const std::string& text, const std::string& from, const std::string& to) {
  EXPECT_TRUE(absl::StrContains(text, from)) << from;
  return absl::StrReplaceAll(text, {{from, to}});
}

const Statements kArena = {
    "mov.b64 {wlg_lo, wlg_hi}, %rd1",
    "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
    "mov.b64 wlg_at, {wlg_lo, wlg_hi}",
};
const Statements kSmallFence = {
    "mov.b64 {wlg_lo, wlg_hi}, %rd1",
    "mov.b64 wlg_at, {wlg_lo, wlg_base}",
};
const Statements kAlignedArena4 = {
    "mov.b64 {wlg_lo, wlg_hi}, %rd1",
    "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
    "and.b32 wlg_lo, wlg_lo, -4",
    "mov.b64 wlg_at, {wlg_lo, wlg_hi}",
};
const Statements kSharedLeg = {
    "isspacep.shared wlg_ps, %rd1",
    "cvta.to.shared.u64 wlg_off, %rd1",
    "and.b64 wlg_off, wlg_off, 262143",
    "cvta.shared.u64 wlg_off, wlg_off",
    "selp.b64 wlg_at, wlg_off, wlg_at, wlg_ps",
};
const Statements kHardenedSharedLeg4 = {
    "isspacep.shared wlg_ps, %rd1",
    "cvta.to.shared.u64 wlg_off, %rd1",
    "cvt.u32.u64 wlg_s, wlg_off",
    "sub.s32 wlg_t, wlg_smem, 4",
    "min.u32 wlg_s, wlg_s, wlg_t",
    "and.b32 wlg_s, wlg_s, -4",
    "cvt.u64.u32 wlg_off, wlg_s",
    "cvta.shared.u64 wlg_off, wlg_off",
    "selp.b64 wlg_at, wlg_off, wlg_at, wlg_ps",
};
const Statements kLocalLeg4 = {
    "isspacep.local wlg_pl, %rd1",
    "cvta.to.local.u64 wlg_off, %rd1",
    "sub.s64 wlg_off, wlg_off, wlg_local",
    "min.u64 wlg_off, wlg_off, 60",
    "add.s64 wlg_off, wlg_off, wlg_local",
    "cvta.local.u64 wlg_off, wlg_off",
    "selp.b64 wlg_at, wlg_off, wlg_at, wlg_pl",
};
const Statements kHardenedLocalLeg4 = {
    "isspacep.local wlg_pl, %rd1",         "cvta.to.local.u64 wlg_off, %rd1",
    "sub.s64 wlg_off, wlg_off, wlg_local", "min.u64 wlg_off, wlg_off, 60",
    "and.b64 wlg_off, wlg_off, -4",        "add.s64 wlg_off, wlg_off, wlg_local",
    "cvta.local.u64 wlg_off, wlg_off",     "selp.b64 wlg_at, wlg_off, wlg_at, wlg_pl",
};
const Statements kSharedFence4 = {
    "add.s32 wlg_s, %r1, 8",
    "sub.s32 wlg_t, wlg_smem, 4",
    "min.u32 wlg_s, wlg_s, wlg_t",
    "and.b32 wlg_s, wlg_s, -4",
};
Statements Window(std::string_view base, int most, bool aligned = false) {
  const std::string name(base);
  Statements fence = {absl::StrCat("sub.s64 wlg_off, %rd1, ", name),
                      absl::StrCat("min.u64 wlg_off, wlg_off, ", most)};
  if (aligned) fence.push_back("and.b64 wlg_off, wlg_off, -4");
  fence.push_back(absl::StrCat("add.s64 wlg_at, wlg_off, ", name));
  return fence;
}

Statements Joined(const std::vector<Statements>& parts) {
  Statements all;
  for (const Statements& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// A fence with its access, of which no line can be left out.
struct Fenced {
  Statements fence;
  std::string access;
  Policy policy;

  Statements All() const { return Joined({fence, {access}}); }
};

std::vector<Fenced> AllFenced() {
  return {
      {kArena, "st.global.v4.b32 [wlg_at+-8388608], {%r1, %r2, %r3, %r4}", kPlain},
      {kSmallFence, "ld.global.nc.b32 %r1, [wlg_at+8388608]", kSmallArena},
      {kAlignedArena4, "ld.global.b32 %r1, [wlg_at+4]", kHardened},
      {kAlignedArena4, "@!%p1 atom.global.add.u32 %r1, [wlg_at], %r2", kHardened},
      {Joined({kArena, kSharedLeg, kLocalLeg4}), "ld.b32 %r1, [wlg_at]", kPlain},
      {Joined({kArena, kSharedLeg, kLocalLeg4}), "red.add.f32 [wlg_at], %f1", kPlain},
      {Joined({kAlignedArena4, kHardenedSharedLeg4, kHardenedLocalLeg4}), "st.b32 [wlg_at], %r1",
       kHardened},
      {Window("wlg_local", 60), "ld.local.b32 %r1, [wlg_at]", kPlain},
      {Window("wlg_local", 60, true), "st.local.b32 [wlg_at], %r1", kHardened},
      {Window("wlg_params", 24), "ld.param.b32 %r1, [wlg_at]", kPlain},
      {Window("wlg_params", 24, true), "ld.param.b32 %r1, [wlg_at]", kHardened},
      {Window("wlg_consts", 88), "ld.const.v2.b32 {%r1, %r2}, [wlg_at]", kPlain},
      {Window("wlg_consts", 92, true), "ld.const.b32 %r1, [wlg_at]", kHardened},
      {kSharedFence4, "ld.shared.b32 %r1, [wlg_s]", kHardened},
      {kSharedFence4, "st.shared::cta.b32 [wlg_s], %r1", kHardened},
      {Joined({kSharedFence4, kAlignedArena4}), "cp.async.ca.shared.global [wlg_s], [wlg_at], 4",
       kHardened},
      {Joined({kArena, {"min.u32 wlg_stride, %r1, 65536"}}),
       "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 "
       "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [wlg_at], wlg_stride",
       kPlain},
  };
}

TEST(Verify, AcceptsEveryFence) {
  for (const Fenced& fenced : AllFenced()) ExpectAccepted(Module(fenced.All()), fenced.policy);
}

TEST(Verify, RefusesAFenceWithoutOneOfItsLines) {
  for (const Fenced& fenced : AllFenced()) {
    for (size_t i = 0; i < fenced.fence.size(); ++i) {
      Statements fence = fenced.fence;
      fence.erase(fence.begin() + static_cast<ptrdiff_t>(i));
      ExpectRefused(Module(Joined({fence, {fenced.access}})), fenced.policy);
    }
  }
}

TEST(Verify, RefusesALabelWithinAFence) {
  for (const Fenced& fenced : AllFenced()) {
    Statements all = fenced.All();
    all.insert(all.end() - 1, "L:");
    ExpectRefused(Module(all), fenced.policy);
    all = fenced.All();
    all.insert(all.begin() + 1, "L:");
    ExpectRefused(Module(all), fenced.policy);
  }
}

TEST(Verify, RefusesAPredicateInAFence) {
  for (const Fenced& fenced : AllFenced()) {
    for (size_t i = 0; i < fenced.fence.size(); ++i) {
      Statements all = fenced.All();
      all[i] = "@%p1 " + all[i];
      ExpectRefused(Module(all), fenced.policy);
    }
  }
}

TEST(Verify, RefusesAFenceOfAnotherMode) {
  for (const Fenced& fenced : AllFenced()) {
    if (fenced.policy.hardened) ExpectRefused(Module(fenced.All()), kPlain);
    if (!fenced.policy.hardened && fenced.access.find(".v4") == std::string::npos) {
      ExpectRefused(Module(fenced.All()), kHardened);
    }
  }
}

TEST(Verify, AcceptsTenantStatementsWithinAFence) {
  for (const Fenced& fenced : AllFenced()) {
    Statements all;
    for (const std::string& line : fenced.fence) {
      all.push_back(line);
      all.push_back("add.s64 %rd1, wlg_globals, 16");
    }
    all.push_back(fenced.access);
    ExpectAccepted(Module(all), fenced.policy);
  }
}

TEST(Verify, AcceptsStatementsWithoutFences) {
  const Statements accepted = {
      "mov.u32 %r1, %tid.x",
      "mov.u64 %rd1, %clock64",
      "mov.b64 %rd1, sm+-100000",
      "mov.u32 %r1, dyn",
      "mov.b64 %rd1, q+8",
      "mov.b64 %rd1, wlg_locals+16",
      "mov.b64 {%r1, _}, %rd1",
      "mov.b64 %rd1, {%r1, %r2}",
      "add.s64 %rd1, wlg_globals, 9223372036854775807",
      "add.s64 %rd1, %rd2, -9223372036854775808",
      "add.f32 %f1, %f2, 0f3F800000",
      "fma.rn.f64 %fd1, %fd2, 0d3FF0000000000000, %fd3",
      "setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3",
      "@!%p1 lop3.or.b32 %r1|%p1, %r1, %r2, %r3, 234, %p2",
      "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1",
      "cvta.to.global.u64 %rd1, %rd2",
      "cvta.local.u64 %rd1, wlg_local",
      "isspacep.global %p1, %rd1",
      "bar.sync 0",
      "barrier.red.popc.aligned.u32 %r1, 0, 32, !%p1",
      "membar.gl",
      "fence.proxy.async.global",
      "fence.acq_rel.cluster",
      "cp.async.wait_group 1",
      "cp.async.commit_group",
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, "
      "{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4}",
      "elect.sync _|%p1, -1",
      "vote.sync.ballot.b32 %r1, %p1, -1",
      "bra L",
      "@%p1 bra L",
      "ret",
      "exit",
      "ld.param.b64 %rd1, [p]",
      "ld.param.v2.b32 {%r1, %r2}, [q+8]",
      "st.param.b32 [a], %r1",
      "st.param.b64 [b+8], %rd1",
      "ld.const.b32 %r1, [wlg_const+92]",
      "ld.local.b32 %r1, [wlg_locals+60]",
      "st.local.b32 [wlg_local], %r1",
      "ld.shared.b32 %r1, [sm+60]",
      "mbarrier.init.shared.b64 [sm+8], 1",
      "mbarrier.arrive.shared.b64 _, [sm], 1",
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [sm+16]",
      ".pragma \"nounroll\"",
  };
  Statements all = accepted;
  all.insert(all.begin(), "L:");
  ExpectAccepted(Module(all), kPlain);
  ExpectAccepted(Module(all), kHardened);
}

TEST(Verify, AcceptsAnySharedAddressUnlessHardened) {
  const Statements accepted = {
      "ld.shared.b32 %r1, [%r2+-4]",
      "st.shared.b64 [%rd2+100000], %rd1",
      "atom.shared::cta.cas.b32 %r1, [dyn+4], 1, 2",
      "red.shared.add.u32 [sm+1024], 1",
      "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r1}, [%rd1]",
      "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2}",
      "mbarrier.try_wait.parity.shared.b64 %p1, [%rd1], %r1",
      "mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd1",
      "mbarrier.arrive_drop.release.cta.shared.b64 %rd1, [%r1]",
      "mbarrier.inval.shared.b64 [%rd1]",
      "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1]",
      "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r1], "
      "{%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, 16",
  };
  ExpectAccepted(Module(accepted), kPlain);
  for (const std::string& statement : accepted) ExpectRefused(Module({statement}), kHardened);
}

// Before sm_90 a barrier that does not say where it is may be anywhere.
TEST(Verify, BarriersAndTilesSayShared) {
  for (const char* refused :
       {"mbarrier.init.b64 [%rd1], 1", "mbarrier.inval.b64 [%rd1]",
        "mbarrier.arrive.b64 %rd2, [%rd1]", "mbarrier.arrive_drop.b64 %rd2, [%rd1]",
        "mbarrier.test_wait.b64 %p1, [%rd1], %rd2", "cp.async.mbarrier.arrive.b64 [%rd1]",
        "ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%rd1]",
        "stmatrix.sync.aligned.m8n8.x1.b16 [%rd1], {%r1}"}) {
    ExpectRefused(Module({refused}), kPlain);
    ExpectRefused(Module({refused}), kHardened);
  }
}

// The size of a copy in a register: all of the bytes or none.
TEST(Verify, CopiesOfAPartCopyAllOrNothing) {
  const std::string copy = "cp.async.ca.shared.global [wlg_s], [wlg_at], 4, wlg_t";
  const Statements fences = Joined({kSharedFence4, kAlignedArena4});
  const auto with = [&](Statements steps) {
    return Module(Joined({fences, std::move(steps), {copy}}));
  };
  ExpectAccepted(with({"and.b32 wlg_t, %r1, 4"}), kHardened);
  ExpectAccepted(with({"and.b32 wlg_t, %r1, 3", "setp.ne.s32 wlg_ps, wlg_t, 0", "@wlg_ps exit",
                       "and.b32 wlg_t, %r1, 4"}),
                 kHardened);
  ExpectRefused(with({}), kHardened);
  ExpectRefused(with({"and.b32 wlg_t, %r1, 3"}), kHardened);
  ExpectRefused(with({"and.b32 wlg_t, %r1, 8"}), kHardened);
  ExpectRefused(with({"and.b32 wlg_t, %r1, 64"}), kHardened);
  ExpectRefused(with({"and.b32 wlg_t, %r1, 4", "L1:"}), kHardened);
  ExpectRefused(with({"and.b32 wlg_t, %r1, 4", "sub.s32 wlg_t, wlg_smem, 4"}), kHardened);
  // What was kept of a size bounds no address.
  ExpectRefused(
      Module(Joined({{"mov.b32 wlg_s, %r1", "and.b32 wlg_t, %r1, 4", "min.u32 wlg_s, wlg_s, wlg_t",
                      "and.b32 wlg_s, wlg_s, -4", "ld.shared.b32 %r2, [wlg_s]"}})),
      kHardened);
}

TEST(Verify, AcceptsSeveralAccessesBehindOneFence) {
  ExpectAccepted(Module(Joined({kArena,
                                {"ld.global.b32 %r1, [wlg_at]", "mov.u64 %rd1, 0", "@%p1 bra L",
                                 "st.global.b64 [wlg_at+8], wlg_globals",
                                 "atom.global.exch.b64 %rd2, [wlg_at+16], wlg_consts", "L:"}})),
                 kPlain);
}

TEST(Verify, AcceptsTheOtherWaysToASharedFence) {
  for (const char* first : {"mov.b32 wlg_s, %r1", "mov.b32 wlg_s, dyn+4", "mov.b32 wlg_s, sm",
                            "cvt.u32.u64 wlg_s, %rd1"}) {
    Statements all = Joined({kSharedFence4, {"ld.shared.b32 %r1, [wlg_s]"}});
    all[0] = first;
    ExpectAccepted(Module(all), kHardened);
  }
  Statements wide = Joined({{"cvt.u32.u64 wlg_s, %rd1"}, kSharedFence4});
  wide[1] = "add.s32 wlg_s, wlg_s, -8";
  wide.push_back("st.shared.b16 [wlg_s], %h1");
  ExpectAccepted(Module(wide), kHardened);
  Statements generic = Joined({{"cvta.to.shared.u64 wlg_x, %rd1"}, kSharedFence4});
  generic[1] = "cvt.u32.u64 wlg_s, wlg_x";
  generic.push_back("ld.shared.b32 %r1, [wlg_s]");
  ExpectAccepted(Module(generic), kHardened);
}

TEST(Verify, AcceptsASumBeforeAFence) {
  Statements all = Joined({{"add.s64 wlg_x, %rd1, -9223372036854775808"},
                           kArena,
                           {"st.global.b32 [wlg_at], 0f3F800000"}});
  all[1] = "mov.b64 {wlg_lo, wlg_hi}, wlg_x";
  ExpectAccepted(Module(all), kPlain);
  all =
      Joined({{"cvt.u64.u32 wlg_x, %r1"}, Window("wlg_local", 60), {"ld.local.b32 %r1, [wlg_at]"}});
  all[1] = "sub.s64 wlg_off, wlg_x, wlg_local";
  ExpectAccepted(Module(all), kPlain);
}

TEST(Verify, ALocalLegIsThereExactlyIfTheModuleHasLocals) {
  const Statements without = Joined({kArena, kSharedLeg, {"ld.b32 %r1, [wlg_at]"}});
  ExpectAccepted(WithoutLocals(without), kPlain);
  ExpectRefused(Module(without), kPlain);
  ExpectRefused(WithoutLocals(Joined({kArena, kSharedLeg, kLocalLeg4, {"ld.b32 %r1, [wlg_at]"}})),
                kPlain);
}

TEST(Verify, AFenceIsForItsNumberOfBytes) {
  const Statements generic = Joined({kArena, kSharedLeg, kLocalLeg4});
  ExpectAccepted(Module(Joined({generic, {"ld.b16 %h1, [wlg_at]"}})), kPlain);
  ExpectRefused(Module(Joined({generic, {"ld.b64 %rd1, [wlg_at]"}})), kPlain);
  ExpectRefused(Module(Joined({Window("wlg_local", 60), {"ld.local.b64 %rd1, [wlg_at]"}})), kPlain);
  ExpectRefused(Module(Joined({Window("wlg_params", 21), {"ld.param.b64 %rd1, [wlg_at]"}})),
                kPlain);
  ExpectRefused(Module(Joined({Window("wlg_local", 64), {"ld.local.b8 %h1, [wlg_at]"}})), kPlain);
  ExpectRefused(Module(Joined({Window("wlg_local", -4), {"ld.local.b8 %h1, [wlg_at]"}})), kPlain);
  ExpectRefused(Module(Joined({kAlignedArena4, {"ld.global.b64 %rd1, [wlg_at]"}})), kHardened);
  ExpectRefused(Module(Joined({kAlignedArena4, {"ld.global.b32 %r1, [wlg_at+2]"}})), kHardened);
  ExpectAccepted(Module(Joined({kAlignedArena4, {"ld.global.b16 %h1, [wlg_at+2]"}})), kHardened);
  ExpectRefused(Module(Joined({kSharedFence4, {"ld.shared.b64 %rd1, [wlg_s]"}})), kHardened);
}

// Each case has an access behind a good arena fence, local fence or neither.
TEST(Verify, RefusesAccesses) {
  const Statements arena = kArena;
  const Statements local = Window("wlg_local", 60);
  const Statements parameter = Window("wlg_params", 24);
  const Statements constant = Window("wlg_consts", 92);
  const struct {
    Statements fence;
    const char* access;
  } cases[] = {
      {arena, "ld.global.b32 %r1, [%rd1]"},
      {arena, "ld.global.b32 %r1, [wlg_at+8388609]"},
      {arena, "ld.global.b32 %r1, [wlg_at+-8388609]"},
      {arena, "ld.global.b32 %r1, [wlg_at+1099511627776]"},
      {arena, "ld.global.b32 %r1, [wlg_at+9223372036854775807]"},
      {arena, "ld.global.b32 %r1, [wlg_at+-9223372036854775808]"},
      {arena, "ld.global.b32 %r1, [wlg_at+9223372036854775808]"},
      {arena, "ld.global.b32 %r1, [wlg_at+18446744073709551616]"},
      {arena, "ld.global.b32 %r1, [wlg_at+0]"},
      {arena, "ld.global.b32 %r1, [wlg_at+04]"},
      {arena, "ld.global.b32 %r1, [wlg_at+0x10]"},
      {arena, "ld.global.b32 %r1, [wlg_at-4]"},
      {arena, "ld.global.b32 %r1, [wlg_at+4+4]"},
      {arena, "ld.global.b32 %r1, [wlg_at+%r2]"},
      {arena, "ld.global.b32 %r1, [wlg_x]"},
      {arena, "ld.global.b32 %r1, [wlg_globals]"},
      {arena, "ld.global.b32 %r1, [4096]"},
      {arena, "ld.global.b32 %r1, [sm]"},
      {arena, "ld.global.b32 %r1, wlg_at"},
      {arena, "ld.b32 %r1, [wlg_at]"},
      {arena, "ld.local.b32 %r1, [wlg_at]"},
      {arena, "ld.param.b32 %r1, [wlg_at]"},
      {arena, "ld.const.b32 %r1, [wlg_at]"},
      {arena, "st.const.b32 [wlg_at], %r1"},
      {arena, "atom.local.add.u32 %r1, [wlg_at], 1"},
      {arena, "ld.global.shared.b32 %r1, [wlg_at]"},
      {arena, "ld.global.b32.b64 %r1, [wlg_at]"},
      {arena, "ld.global %r1, [wlg_at]"},
      {arena, "ld.global.L2::cache_hint.b32 %r1, [wlg_at], %rd1"},
      {arena, "ld.mmio.relaxed.sys.global.b32 %r1, [wlg_at]"},
      {arena, "ld.global.unified.b32 %r1, [wlg_at]"},
      {arena, "ld.shared::cluster.b32 %r1, [%r1]"},
      {arena, "ld.global.v8.b64 {%rd1, %rd2, %rd3, %rd4, %rd5, %rd6, %rd7, %rd8}, [wlg_at]"},
      {arena, "ld.global.b64 wlg_at, [wlg_at]"},
      {arena, "ld.global.v2.b64 {%rd1, wlg_at}, [wlg_at]"},
      {arena, "ld.global.v2.b64 {wlg_at, %rd1}, [wlg_at]"},
      {arena, "st.global.v2.b64 [wlg_at], {%rd1, wlg_globals}"},
      {arena, "atom.global.exch.b64 wlg_at, [wlg_at], %rd1"},
      {arena, "st.async.weak.global.b32 [wlg_at], %r1"},
      {arena, "red.async.global.add.u32 [wlg_at], %r1"},
      {arena, "cp.async.ca.shared.global [%r1], [%rd1], 4"},
      {arena, "cp.async.ca.shared.global [wlg_at], [%rd1], 4"},
      {arena, "cp.async.ca.shared.global [%r1], [wlg_at], 64"},
      {arena, "cp.async.ca.shared.global [%r1], [wlg_at], %r1"},
      {arena, "cp.async.ca.global.global [%r1], [wlg_at], 4"},
      {arena, "cp.async.ca.shared::cluster.global [%r1], [wlg_at], 4"},
      {arena, "cp.async.bulk.shared::cta.global [%r1], [wlg_at], %r1, [%r2]"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at], %r2"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at], wlg_stride"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at], 65537"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at], -1"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at+16], 16"},
      {arena, "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [wlg_at], 16"},
      {arena, "multimem.red.global.add.f32 [wlg_at], %f1"},
      {arena, "prefetch.global.L1 [wlg_at]"},
      {arena, "discard.global.L2 [wlg_at], 128"},
      {arena, "mbarrier.init.global.b64 [wlg_at], 1"},
      {arena, "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 4"},
      {arena, "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [wlg_at, {%r1}]"},
      {Joined({arena, kSharedLeg}), "ld.global.b32 %r1, [wlg_at]"},
      {Joined({arena, kSharedLeg, kLocalLeg4}), "ld.global.b32 %r1, [wlg_at]"},
      {Joined({arena, kSharedLeg, kLocalLeg4}), "ld.b32 %r1, [wlg_at+4]"},
      {Joined({arena, {"mov.b64 wlg_at, {wlg_lo, wlg_hi}"}, local}), "ld.global.b32 %r1, [wlg_at]"},
      {local, "ld.local.b32 %r1, [wlg_at+4]"},
      {local, "ld.local.b32 %r1, [%rd1]"},
      {local, "ld.local.b32 %r1, [%r1]"},
      {local, "ld.local.b32 %r1, [64]"},
      {local, "ld.local.b32 %r1, [wlg_locals+61]"},
      {local, "ld.local.b32 %r1, [wlg_locals+-1]"},
      {local, "st.local.b32 [wlg_local+64], %r1"},
      {local, "ld.local.b64 %rd1, [wlg_local+9223372036854775807]"},
      {local, "ld.param.b32 %r1, [wlg_at]"},
      {local, "ld.global.b32 %r1, [wlg_at]"},
      {parameter, "st.param.b32 [wlg_at], %r1"},
      {parameter, "ld.param.b32 %r1, [wlg_params]"},
      {parameter, "ld.local.b32 %r1, [wlg_at]"},
      {parameter, "ld.param.b64 %rd1, [p+1]"},
      {parameter, "ld.param.b64 %rd1, [p+-8]"},
      {parameter, "ld.param.b32 %r1, [p+4096]"},
      {parameter, "ld.param.b32 %r1, [%rd1]"},
      {parameter, "st.param.b32 [n], %r1"},
      {parameter, "st.param.b64 [a], %rd1"},
      {parameter, "st.param.b32 [b+13], %r1"},
      {parameter, "ld.param.b32 %r1, [sm]"},
      {parameter, "ld.shared.b32 %r1, [p]"},
      {constant, "ld.const.b32 %r1, [wlg_const+93]"},
      {constant, "ld.const.b32 %r1, [wlg_const+-4]"},
      {constant, "ld.const.b32 %r1, [%rd1]"},
      {constant, "ld.const.b32 %r1, [wlg_consts]"},
      {constant, "ld.const.b64 %rd1, [wlg_at]"},
      {constant, "ld.global.b32 %r1, [wlg_at]"},
  };
  for (const auto& test : cases) {
    ExpectAccepted(Module(test.fence), kPlain);
    ExpectRefused(Module(Joined({test.fence, {test.access}})), kPlain);
  }
}

TEST(Verify, RefusesHardenedAccesses) {
  const struct {
    Statements fence;
    const char* access;
  } cases[] = {
      {{}, "ld.shared.b32 %r1, [sm+62]"},
      {{}, "ld.shared.b32 %r1, [sm+64]"},
      {{}, "ld.shared.b32 %r1, [sm+2]"},
      {{}, "ld.shared.v2.b32 {%r1, %r2}, [word]"},
      {{}, "ld.shared.b32 %r1, [dyn]"},
      {{}, "ld.shared.b32 %r1, [%r1]"},
      {{}, "ld.param.b64 %rd1, [q+4]"},
      {{}, "ld.const.b64 %rd1, [wlg_const+4]"},
      {{}, "ld.local.b64 %rd1, [wlg_local+4]"},
      {kSharedFence4, "ld.shared.b32 %r1, [wlg_s+4]"},
      {kSharedFence4, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [wlg_s]"},
      {kSharedFence4, "mbarrier.inval.b64 [wlg_s]"},
      {Joined({kSharedFence4, kAlignedArena4}),
       "cp.async.ca.shared.global [wlg_s], [wlg_at], 4, %r1"},
      {Joined({kSharedFence4, kAlignedArena4}),
       "cp.async.ca.shared.global [wlg_s], [wlg_at], 4, 2"},
      {Joined({kSharedFence4, kAlignedArena4}), "cp.async.ca.shared.global [wlg_s], [wlg_at], 8"},
      {kAlignedArena4, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [wlg_at], 16"},
      {Joined({kAlignedArena4, kHardenedSharedLeg4, kLocalLeg4}), "ld.b32 %r1, [wlg_at]"},
      {Joined({kAlignedArena4, kHardenedSharedLeg4, kHardenedLocalLeg4}), "ld.b64 %rd1, [wlg_at]"},
  };
  for (const auto& test : cases) {
    ExpectAccepted(Module(test.fence), kHardened);
    ExpectRefused(Module(Joined({test.fence, {test.access}})), kHardened);
  }
  ExpectAccepted(Module(Joined({kSharedFence4,
                                kAlignedArena4,
                                {"cp.async.ca.shared.global [wlg_s], [wlg_at], 4, 0",
                                 "cp.async.ca.shared.global [wlg_s], [wlg_at], 4, %p1"}})),
                 kHardened);
}

TEST(Verify, RefusesLegsInAnotherOrder) {
  const std::string access = "ld.b32 %r1, [wlg_at]";
  ExpectAccepted(Module(Joined({kArena, kSharedLeg, kLocalLeg4, {access}})), kPlain);
  ExpectRefused(Module(Joined({kArena, kLocalLeg4, {access}})), kPlain);
  ExpectRefused(Module(Joined({kArena, kLocalLeg4, kSharedLeg, {access}})), kPlain);
  ExpectRefused(Module(Joined({kSharedLeg, kArena, kLocalLeg4, {access}})), kPlain);
  ExpectRefused(Module(Joined({kArena, kSharedLeg, kSharedLeg, kLocalLeg4, {access}})), kPlain);
  ExpectRefused(Module(Joined({kArena, kSharedLeg, kLocalLeg4, kLocalLeg4, {access}})), kPlain);
  ExpectRefused(Module(Joined({kArena, kSharedLeg, kArena, {access}})), kPlain);
}

// Each case replaces one line of a fence that is otherwise whole.
TEST(Verify, RefusesAlteredFences) {
  const Statements generic = Joined({kArena, kSharedLeg, kLocalLeg4, {"ld.b32 %r1, [wlg_at]"}});
  const Statements hardened =
      Joined({kAlignedArena4, kHardenedSharedLeg4, kHardenedLocalLeg4, {"ld.b32 %r1, [wlg_at]"}});
  const struct {
    const Statements* fence;
    const char* from;
    const char* to;
  } cases[] = {
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_hi, 31, wlg_base, 234"},
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_hi, 7, wlg_base, 234"},
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 235"},
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_hi, 15, %r1, 234"},
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_lo, 15, wlg_base, 234"},
      {&generic, "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
       "lop3.b32 wlg_hi, wlg_hi, 015, wlg_base, 234"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_hi, wlg_lo}, %rd1"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_lo, %r1}, %rd1"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_lo, wlg_hi}, %fd1"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_lo, wlg_hi}, wlg_local"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_lo, wlg_hi}, %rd9"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64 {wlg_lo, wlg_hi}, p"},
      {&generic, "mov.b64 {wlg_lo, wlg_hi}, %rd1", "mov.b64  {wlg_lo, wlg_hi}, %rd1"},
      {&generic, "mov.b64 wlg_at, {wlg_lo, wlg_hi}", "mov.b64 wlg_at, {wlg_lo, wlg_base}"},
      {&generic, "mov.b64 wlg_at, {wlg_lo, wlg_hi}", "mov.b64 wlg_at, {wlg_hi, wlg_lo}"},
      {&generic, "mov.b64 wlg_at, {wlg_lo, wlg_hi}", "mov.b64 wlg_at, {wlg_lo, %r1}"},
      {&generic, "mov.b64 wlg_at, {wlg_lo, wlg_hi}", "mov.b64 wlg_at, %rd1"},
      {&generic, "isspacep.shared wlg_ps, %rd1", "isspacep.global wlg_ps, %rd1"},
      {&generic, "cvta.to.shared.u64 wlg_off, %rd1", "cvta.to.global.u64 wlg_off, %rd1"},
      {&generic, "and.b64 wlg_off, wlg_off, 262143", "and.b64 wlg_off, wlg_off, 524287"},
      {&generic, "and.b64 wlg_off, wlg_off, 262143", "and.b64 wlg_off, %rd1, 262143"},
      {&generic, "cvta.shared.u64 wlg_off, wlg_off", "cvta.local.u64 wlg_off, wlg_off"},
      {&generic, "selp.b64 wlg_at, wlg_off, wlg_at, wlg_ps",
       "selp.b64 wlg_at, wlg_off, wlg_at, wlg_pl"},
      {&generic, "selp.b64 wlg_at, wlg_off, wlg_at, wlg_ps",
       "selp.b64 wlg_at, wlg_off, wlg_x, wlg_ps"},
      {&generic, "selp.b64 wlg_at, wlg_off, wlg_at, wlg_pl",
       "selp.b64 wlg_at, wlg_off, wlg_at, %p1"},
      {&generic, "sub.s64 wlg_off, wlg_off, wlg_local", "sub.s64 wlg_off, wlg_off, wlg_params"},
      {&generic, "min.u64 wlg_off, wlg_off, 60", "min.s64 wlg_off, wlg_off, 60"},
      {&generic, "min.u64 wlg_off, wlg_off, 60", "min.u64 wlg_off, wlg_off, 61"},
      {&generic, "min.u64 wlg_off, wlg_off, 60", "min.u64 wlg_off, wlg_off, %rd1"},
      {&generic, "add.s64 wlg_off, wlg_off, wlg_local", "add.s64 wlg_off, wlg_off, wlg_params"},
      {&generic, "add.s64 wlg_off, wlg_off, wlg_local", "add.s64 wlg_off, wlg_off, 8"},
      {&generic, "cvta.local.u64 wlg_off, wlg_off", "cvta.shared.u64 wlg_off, wlg_off"},
      {&hardened, "and.b32 wlg_lo, wlg_lo, -4", "and.b32 wlg_lo, wlg_lo, -3"},
      {&hardened, "and.b32 wlg_lo, wlg_lo, -4", "and.b32 wlg_lo, wlg_lo, -2"},
      {&hardened, "and.b32 wlg_lo, wlg_lo, -4", "and.b32 wlg_hi, wlg_hi, -4"},
      {&hardened, "sub.s32 wlg_t, wlg_smem, 4", "sub.s32 wlg_t, wlg_smem, 2"},
      {&hardened, "sub.s32 wlg_t, wlg_smem, 4", "sub.s32 wlg_t, wlg_smem, -4"},
      {&hardened, "sub.s32 wlg_t, wlg_smem, 4", "sub.s32 wlg_t, %r1, 4"},
      {&hardened, "min.u32 wlg_s, wlg_s, wlg_t", "min.s32 wlg_s, wlg_s, wlg_t"},
      {&hardened, "min.u32 wlg_s, wlg_s, wlg_t", "max.u32 wlg_s, wlg_s, wlg_t"},
      {&hardened, "and.b32 wlg_s, wlg_s, -4", "and.b32 wlg_s, wlg_s, -2"},
      {&hardened, "cvt.u64.u32 wlg_off, wlg_s", "cvt.u64.u32 wlg_off, %r1"},
      {&hardened, "cvt.u32.u64 wlg_s, wlg_off", "and.b64 wlg_off, wlg_off, 262143"},
      {&hardened, "and.b64 wlg_off, wlg_off, -4", "and.b64 wlg_off, wlg_off, -2"},
  };
  ExpectAccepted(Module(generic), kPlain);
  ExpectAccepted(Module(hardened), kHardened);
  for (const auto& test : cases) {
    const Policy& policy = test.fence == &generic ? kPlain : kHardened;
    ExpectRefused(Replaced(Module(*test.fence), test.from, test.to), policy);
  }
}

// What is refused wherever it stands.
TEST(Verify, RefusesStatements) {
  const Statements refused = {
      // Hidden writes of guard registers
      "mov.b64 {wlg_lo, %r1}, %rd1",
      "mov.b64 {%r1, wlg_hi}, %rd1",
      "mov.b64 %rd1, {wlg_lo, %r1}",
      "mov.b64 wlg_at, %rd1",
      "mov.b64 wlg_globals, %rd1",
      "mov.b32 wlg_base, %r1",
      "add.s64 wlg_x, %rd1, %rd2",
      "setp.eq.s32 wlg_ps, %r1, 0",
      "setp.eq.s32 %p1|wlg_ps, %r1, 0",
      "setp.eq.s32 wlg_pl|%p1, %r1, 0",
      "shfl.sync.bfly.b32 %r1|wlg_ps, %r2, 16, 31, -1",
      "shfl.sync.bfly.b32 wlg_lo|%p1, %r2, 16, 31, -1",
      "lop3.or.b32 wlg_hi|%p1, %r1, %r2, %r3, 234, %p2",
      "match.all.sync.b32 %r1|wlg_ps, %r1, -1",
      "elect.sync wlg_lo|%p1, -1",
      "vote.sync.ballot.b32 wlg_lo, %p1, -1",
      "activemask.b32 wlg_lo",
      "ldmatrix.sync.aligned.m8n8.x1.b16 {wlg_lo}, [%r1]",
      "mbarrier.test_wait.b64 wlg_ps, [%rd1], %rd2",
      "movmatrix.sync.aligned.m8n8.trans.b16 wlg_lo, %r1",
      "ld.const.b32 wlg_base, [wlg_const]",
      "ld.const.b32 wlg_lo, [wlg_const]",
      // Instructions and modifiers
      "frob.b32 %r1, %r2",
      "@%p1 bra.uni L",
      "bra.uni L",
      "@%p1 ret.uni",
      "trap",
      "brkpt",
      "pmevent 1",
      "alloca.u64 %rd1, %rd2, 16",
      "stackrestore.u64 %rd1",
      "brx.idx %r1, L",
      "mapa.shared::cluster.u32 %r1, %r2, %r3",
      "cvta.param.u64 %rd1, %rd2",
      "cvta.const.u64 %rd1, %rd2",
      "cvta.to.param.u64 %rd1, %rd2",
      "isspacep.shared::cluster %p1, %rd1",
      "barrier.cluster.arrive",
      "bar.cluster.sync 0",
      "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128",
      "fence.proxy.tensormap::generic.release.gpu",
      "add.global.s32 %r1, %r2, %r3",
      "add.shared::cluster.s32 %r1, %r2, %r3",
      "wgmma.fence.sync.aligned",
      "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2",
      "createpolicy.fractional.L2::evict_first.b64 %rd1, 0f3F800000",
      "suld.b.1d.b32.trap {%r1}, [%rd1, {%r1}]",
      "add.s32 %r1, %r2",
      "ret 0",
      // Operands
      "mov.u32 %r1, %envreg1",
      "mov.u32 %r1, %pm0",
      "mov.u64 %rd1, %current_graph_exec",
      "mov.u32 %r1, %reserved_smem_offset_1",
      "mov.u32 %r1, %cluster_ctarank",
      "mov.u32 %r1, %tid.v",
      "mov.u32 %r1, %laneid.x",
      "mov.u32 %r1, %r2.x",
      "mov.u32 %r1, %r9",
      "mov.u32 %r1, %r01",
      "mov.u32 %r1, %r4294967297",
      "mov.u32 %r1, %r18446744073709551617",
      "mov.u64 %rd1, k",
      "mov.u64 %rd1, L",
      "mov.u64 %rd1, a",
      "mov.u64 %rd1, wlg_const",
      "mov.u64 %rd1, %rd2+8",
      "mov.u32 %r1, WARP_SZ",
      "cvta.shared.u64 %rd1, sm",
      "add.s64 %rd1, %rd2, sm",
      "add.s32 %r1, %r2, [%r3]",
      "add.s32 %r1, %r2, (%r3)",
      "add.s32 %r1, %r2, 0x10",
      "add.s32 %r1, %r2, 010",
      "add.s32 %r1, %r2, -0",
      "add.s32 %r1, %r2, 1U",
      "add.s32 %r1, %r2, 9223372036854775808",
      "add.s32 %r1, %r2, -9223372036854775809",
      "add.f32 %f1, %f2, 0f3f800000",
      "add.f32 %f1, %f2, 0f3F80000",
      "add.f32 %f1, %f2, 1.5",
      "mov.b64 {{%r1}, %r2}, %rd1",
      "@%r1 mov.u32 %r1, 0",
      "@%p9 mov.u32 %r1, 0",
      "bra M",
      "bra k",
      "bra %rd1",
      "call k",
      "call %rd1",
      "call vprintf",
      // Text
      "add.s32  %r1, %r2, 1",
      "add.s32 %r1,%r2, 1",
      "add.s32 %r1 , %r2, 1",
      "add.s32 %r1, %r2, 1 ",
      " add.s32 %r1, %r2, 1",
      "add .s32 %r1, %r2, 1",
      "add.s32 %r1, %r2, 1; add.s32 %r1, %r2, 1",
      "add.s32 %r1, %r2, 1;",
      "add.s32 %r1, %r2, 1 // x",
      "add/*x*/.s32 %r1, %r2, 1",
      "add.s32 %r1, %r2, 1\r",
      "add.s32 %r1, %r2, 1\n\n\tret",
      "// x",
      "{",
      "}",
      "{\n\t.reg .b64 %rd1",
      "L: ret",
      "",
      "\xc3\xa9",
      std::string("ret\0", 4),
      ".pragma \"enable_smem_spilling\"",
      ".loc 1 2 3",
      ".reg .b32 %late",
      ".section .debug",
      "ts: .branchtargets L",
      "L:\nL:",
      "%r1:",
      "k:",
      "wlg_at:",
  };
  ExpectAccepted(Module({"L1:", "bra L", "L:", "exit"}), kPlain);
  for (const std::string& statement : refused) {
    ExpectRefused(Module({"L1:", "bra L", "L:", statement}), kPlain);
  }
}

TEST(Verify, RefusesDeclarations) {
  const Statements refused = {
      ".reg .b32 %r1",  // Declared twice, and used below
      ".reg .b32 %r<4>",
      ".reg .b32 k",
      ".reg .b32 word",
      ".reg .b32 p",
      ".reg .b64 wlg_lo2",
      ".reg .b32 wlg_<4>",
      ".reg .b32 %envreg<3>",
      ".reg .b32 %envreg1",
      ".reg .b32 %pm<8>",
      ".reg .b32 %tid",
      ".reg .b32 %1",
      ".reg .b32 %r1<3>",
      ".reg .b32 WARP_SZ",
      ".reg .v2 .b32 v",
      ".reg .b32 v[4]",
      ".reg .b32 v, w",
      ".reg .b32 v<0>",
      ".reg .b32 v<-1>",
      ".reg .b32 v<1048577>",
      ".reg .align 4 .b32 v",
      ".reg .e5 v",
      ".global .b32 v",
      ".const .b32 v",
      ".local .align 16 .b8 v[64]",
      ".local .align 16 .b8 wlg_locals[128]",
      ".shared .b32 v[]",
      ".extern .shared .b32 v[]",
      ".visible .shared .b32 v",
      ".shared .b32 v = 1",
      ".shared .b32 v[4][4]",
      ".shared .align 3 .b32 v",
      ".shared .b64 v[1152921504606846976]",
      ".param .b64 .ptr v",
      ".param .align 8 .b64 wlg_pass",
  };
  const Statements use = {"add.s32 %r1, %r1, 1"};
  const std::string good = Module(use);
  ExpectAccepted(good, kPlain);
  for (const std::string& declaration : refused) {
    ExpectRefused(Replaced(good, kVariables, absl::StrCat(kVariables, "\t", declaration, ";\n")),
                  kPlain);
  }
  for (const char* accepted : {".reg .b32 v", ".reg .b128 %q<2>", ".reg .b32 %rx_1",
                               ".shared .align 4 .b8 v[4]", ".param .b64 wlg_pass"}) {
    ExpectAccepted(Replaced(good, kVariables, absl::StrCat(kVariables, "\t", accepted, ";\n")),
                   kPlain);
  }
  ExpectRefused(Replaced(good, ".reg .b64 wlg_at;", ".reg .b32 wlg_at;"), kPlain);
  ExpectRefused(Replaced(good, ".reg .b64 wlg_at;", ".reg .u64 wlg_at;"), kPlain);
  ExpectRefused(Replaced(good, ".reg .b64 wlg_at;", ".reg .b64 wlg_at<2>;"), kPlain);
}

TEST(Verify, ARegisterMayNotBeReadUnderTwoDeclarations) {
  const std::string both = absl::StrCat("\t.reg .b32 %r2;\n", "\t.reg .b32 %r<9>;\n");
  for (const char* name : {"%r1", "%r2"}) {
    const std::string good = Module({absl::StrCat("mov.b32 ", name, ", 1")});
    const std::string once = Replaced(good, "\tmov.b32 %r2, 0;\n", "");
    const std::string text = Replaced(once, "\t.reg .b32 %r<9>;\n", both);
    EXPECT_EQ(Verify(text, kPlain).ok(), std::string_view(name) == "%r1");
  }
}

// A module with an entry whose registers nobody has written, but for %p1 and %r1.
std::string Unwritten(const Statements& statements) {
  return absl::StrCat(kPreamble, kEntry, "{\n", kRegisters, kVariables,
                      "\tmov.pred %p1, 0;\n\tmov.b32 %r1, 0;\n", Body(statements), "\tret;\n}\n");
}

TEST(Verify, WhatIsReadHasBeenWritten) {
  for (const Statements& accepted : std::vector<Statements>{
           {"mov.b32 %r2, 1", "add.s32 %r3, %r2, %r1"},
           {"mov.b64 {%r2, %r3}, 1", "add.s32 %r3, %r2, %r3"},
           {"setp.eq.u32 %p2|%p3, %r1, 0", "@%p3 mov.b32 %r2, 1"},
           {"@%p1 bra L", "mov.b32 %r2, 1", "bra M", "L:", "mov.b32 %r2, 2",
            "M:", "add.s32 %r3, %r2, 1"},
           {"@%p1 bra L", "mov.b32 %r2, 1", "L:", "mov.b32 %r2, 2", "add.s32 %r3, %r2, 1"},
           {"mov.b32 %r2, 1", "L:", "add.s32 %r2, %r2, 1", "@%p1 bra L", "add.s32 %r2, %r2, 1"},
           // Below what is never reached nothing is read.
           {"bra M", "L:", "add.s32 %r2, %r1, 1", "ret", "M:", "bra L"},
           {"@%p1 bra L", "exit", "L:", "mov.b32 %r2, %r1"},
           {"bar.red.popc.u32 %r2, 0, %p1", "add.s32 %r3, %r2, 1"},
           {"st.param.b32 [a], %r1", "ld.param.b32 %r2, [a]", "add.s32 %r3, %r2, 1"},
       }) {
    ExpectAccepted(Unwritten(accepted), kPlain);
  }
  for (const Statements& refused : std::vector<Statements>{
           {"mov.b32 %r2, %r3"},
           {"@%p2 mov.b32 %r2, 1"},
           {"@%p2 bra L", "L:"},
           {"@%p1 mov.b32 %r2, 1", "mov.b32 %r3, %r2"},
           {"mov.b64 {%r2, _}, 1", "mov.b64 %rd1, {%r2, %r3}"},
           {"st.shared.b32 [sm], %r2"},
           {"st.shared.b32 [%r2], %r1"},
           {"nanosleep.u32 %r2"},
           {"bar.sync %r2"},
           {"setmaxnreg.inc.sync.aligned.u32 %r2"},
           {"mov.b64 {wlg_lo, wlg_hi}, %rd1"},
           {"add.s32 %r2, wlg_t, 1"},
           {"@%p1 bra L", "mov.b32 %r2, 1", "L:", "mov.b32 %r3, %r2"},
           {"L:", "mov.b32 %r3, %r2", "mov.b32 %r2, 1", "@%p1 bra L"},
           // A way into a loop that does not pass where it begins.
           {"@%p1 bra M", "mov.b32 %r2, 1", "L:", "mov.b32 %r3, %r2", "M:", "@%p1 bra L"},
           {"bra M", "L:", "mov.b32 %r3, %r2", "ret", "M:", "mov.b32 %r2, 1", "bra L"},
           {"ld.param.b32 %r2, [a]"},
           {"st.param.b16 [a], 0", "ld.param.b32 %r2, [a]"},
           {"st.param.b32 [a], 0", "L:", "ld.param.b32 %r2, [a]"},
       }) {
    ExpectRefused(Unwritten(refused), kPlain);
  }
}

TEST(Verify, LocalsAreZeroedFirst) {
  const std::string good = Module({});
  const std::string zero = "\tst.local.v4.b32 [wlg_locals+32], {0, 0, 0, 0};\n";
  ExpectAccepted(good, kHardened);
  for (const char* other :
       {"", "\tst.local.v4.b32 [wlg_locals+32], {0, 0, 0, 1};\n",
        "\tst.local.v4.b32 [wlg_locals+16], {0, 0, 0, 0};\n",
        "\tst.local.v2.b32 [wlg_locals+32], {0, 0};\n",
        "\t@%p1 st.local.v4.b32 [wlg_locals+32], {0, 0, 0, 0};\n",
        "L:\n\tst.local.v4.b32 [wlg_locals+32], {0, 0, 0, 0};\n",
        "\tmov.b32 %r1, 0;\n\tst.local.v4.b32 [wlg_locals+32], {0, 0, 0, 0};\n"}) {
    ExpectRefused(Replaced(good, zero, other), kPlain);
  }
}

TEST(Verify, RefusesPrologues) {
  const std::string good = Module(Joined({kArena, {"st.global.b32 [wlg_at], %r1"}}));
  const struct {
    const char* from;
    const char* to;
  } cases[] = {
      {"\tld.const.b32 wlg_base, [wlg_off];\n", ""},
      {"\tld.const.b32 wlg_base, [wlg_off];\n", "\tld.const.b32 wlg_base, [wlg_const+4];\n"},
      {"\tld.const.b32 wlg_base, [wlg_off];\n", "\t@%p1 ld.const.b32 wlg_base, [wlg_off];\n"},
      {"\tld.const.b32 wlg_base, [wlg_off];\n", "L:\n\tld.const.b32 wlg_base, [wlg_off];\n"},
      {"\tld.const.b32 wlg_base, [wlg_off];\n",
       "\tmov.u32 %r1, 0;\n\tld.const.b32 wlg_base, [wlg_off];\n"},
      {"\tld.const.b32 wlg_base, [wlg_off];\n",
       "\tld.const.b32 wlg_base, [wlg_off];\n\tld.const.b32 wlg_base, [wlg_off];\n"},
      {"\tand.b32 wlg_t, wlg_t, 1;\n", ""},
      {"\tand.b32 wlg_t, wlg_t, 1;\n", "\tand.b32 wlg_t, wlg_t, 3;\n"},
      {"\tshl.b32 wlg_t, wlg_t, 2;\n", "\tshl.b32 wlg_t, wlg_t, 3;\n"},
      {"\tmov.u32 wlg_t, %laneid;\n", "\tmov.u32 wlg_t, %tid.x;\n"},
      {"\tadd.s64 wlg_off, wlg_off, wlg_at;\n", ""},
      {"\tmov.b64 wlg_at, wlg_const;\n",
       "\tmov.b64 wlg_at, wlg_const;\n\tmov.b64 wlg_consts, wlg_const;\n"},
      {"\tmov.b64 wlg_params, p;\n", "\tmov.b64 wlg_params, q;\n"},
      {"\tmov.b64 wlg_params, p;\n", "\tmov.b64 wlg_params, p+8;\n"},
      {"\tmov.b64 wlg_consts, wlg_const;\n", "\tmov.b64 wlg_consts, wlg_const+64;\n"},
      {"\tmov.b64 wlg_local, wlg_locals;\n", "\tld.param.b64 wlg_local, [wlg_depot];\n"},
      {"\tmov.b64 wlg_local, wlg_locals;\n", "\tld.param.b64 wlg_local, [p];\n"},
      {"\tmov.b32 wlg_smem, %aggr_smem_size;\n", "\tmov.b32 wlg_smem, %total_smem_size;\n"},
      {".target sm_90\n", ".target sm_80\n"},
  };
  ExpectAccepted(good, kPlain);
  for (const auto& test : cases) ExpectRefused(Replaced(good, test.from, test.to), kPlain);
  const std::string swapped =
      absl::StrReplaceAll(good, {{"\tmov.b64 wlg_params, p;\n", ""},
                                 {"\tmov.b64 wlg_consts, wlg_const;\n",
                                  "\tmov.b64 wlg_params, p;\n\tmov.b64 wlg_consts, wlg_const;\n"}});
  ExpectRefused(swapped, kPlain);
}

TEST(Verify, FencesNeedWhatThePrologueSets) {
  const struct {
    const char* line;
    Fenced fenced;
  } cases[] = {
      {"\tmov.b64 wlg_local, wlg_locals;\n",
       {Window("wlg_local", 60), "ld.local.b32 %r1, [wlg_at]", kPlain}},
      {"\tmov.b64 wlg_local, wlg_locals;\n", {{}, "ld.local.b32 %r1, [wlg_local]", kPlain}},
      {"\tmov.b64 wlg_params, p;\n",
       {Window("wlg_params", 24), "ld.param.b32 %r1, [wlg_at]", kPlain}},
      {"\tmov.b64 wlg_consts, wlg_const;\n",
       {Window("wlg_consts", 88), "ld.const.b32 %r1, [wlg_at]", kPlain}},
      {"\tmov.b32 wlg_smem, %aggr_smem_size;\n",
       {kSharedFence4, "ld.shared.b32 %r1, [wlg_s]", kHardened}},
      {"\tld.const.b32 wlg_base, [wlg_off];\n",
       {kSmallFence, "ld.global.b32 %r1, [wlg_at]", kSmallArena}},
  };
  for (const auto& test : cases) {
    const std::string good = Module(test.fenced.All());
    ExpectAccepted(good, test.fenced.policy);
    ExpectRefused(Replaced(good, test.line, ""), test.fenced.policy);
  }
}

TEST(Verify, RefusesModules) {
  const std::string good = Module({"exit"});
  const struct {
    const char* from;
    const char* to;
  } cases[] = {
      {".version 9.0\n", ""},
      {".version 9.0\n", ".version 9\n"},
      {".version 9.0\n", "\n.version 9.0\n"},
      {".target sm_90\n", ".target sm_90, debug\n"},
      {".target sm_90\n", ".target compute_90\n"},
      {".address_size 64\n", ".address_size 32\n"},
      {".address_size 64\n", ""},
      {"[96] = {0, 1, -2, 255};", "[63] = {0};"},
      {"[96] = {0, 1, -2, 255};", "[65537] = {0};"},
      {"[96] = {0, 1, -2, 255};", "[96] = {256};"},
      {"[96] = {0, 1, -2, 255};", "[96] = {k};"},
      {"[96] = {0, 1, -2, 255};", "[96] = {0,1};"},
      {"[96] = {0, 1, -2, 255};", "[96] = {};"},
      {".const .align 128 .b8 wlg", ".visible .const .align 128 .b8 wlg"},
      {".const .align 128", ".const .align 64"},
      {".shared .b32 word;\n", ".global .b32 word;\n"},
      {".shared .b32 word;\n", ".const .b32 word;\n"},
      {".shared .b32 word;\n", ".shared .b32 word;\n.shared .b32 word;\n"},
      {".shared .b32 word;\n", ".shared .b32 word[];\n"},
      {".shared .b32 word;\n", ".extern .shared .b32 word;\n"},
      {".shared .b32 word;\n", ".shared .b32 word = 1;\n"},
      {".shared .b32 word;\n", ".shared .b32 k;\n"},
      {".shared .b32 word;\n", ".shared .b32 wlg_at;\n"},
      {".shared .b32 word;\n", ".local .b32 word;\n"},
      {".shared .b32 word;\n", ".extern .func word ();\n"},
      {".shared .b32 word;\n", ".func word ();\n"},
      {".shared .b32 word;\n", ".alias word, k;\n"},
      {".shared .b32 word;\n", "// word\n"},
      {".shared .b32 word;\n", "\n"},
      {".shared .b32 word;\n", ".file 1 \"a.cu\"\n"},
      {".visible .entry k (", ".extern .entry k ("},
      {".visible .entry k (", ".visible .entry k("},
      {".visible .entry k (", ".visible .entry (.param .b32 r) k ("},
      {".visible .entry k (", ".visible .entry wlg_k ("},
      {".visible .entry k (", ".visible .entry __cuda_sm20_div_u64 ("},
      {".visible .entry k (", ".visible .entry malloc ("},
      {".param .b64 p,", ".param .b64 .ptr .global .align 8 p,"},
      {".param .b64 p,", ".reg .b64 p,"},
      {".param .b64 p,", ".param .b64 wlg_depot,"},
      {".param .b64 p,", ".param .b64 n,"},
      {".param .b64 p,", ".param .b64 k,"},
      {".param .b64 p,", ".param .b8 p[0],"},
      {".maxntid 256, 1, 1\n", ".noreturn\n"},
      {".maxntid 256, 1, 1\n", ".maxntid 256,1,1\n"},
      {".maxntid 256, 1, 1\n", ".maxntid\n"},
      {".maxntid 256, 1, 1\n", ".pragma \"nounroll\";\n"},
      {".maxntid 256, 1, 1\n", "\n"},
      {"\tret;\n}\n", "\tret;\n"},
      {"\tret;\n}\n", "\tret;\n}"},
      {"\tret;\n}\n", "\tret;\n}\n{\n}\n"},
      {"\tret;\n}\n", "\tret;\n}\n.visible .entry k ()\n{\n\tret;\n}\n"},
      {"\tret;\n}\n", "\tret;\n}\n.func k ()\n{\n\tret;\n}\n"},
      {"\tret;\n}\n", "\tret;\n}\n.func f ()\n{\n\tret;\n}\n"},
      {"wlg_locals[64]", "wlg_locals[72]"},
      {"wlg_locals[64]", "wlg_locals[524304]"},
      {".local .align 16 .b8 wlg", ".local .align 8 .b8 wlg"},
  };
  ExpectAccepted(good, kPlain);
  for (const auto& test : cases) ExpectRefused(Replaced(good, test.from, test.to), kPlain);
  ExpectRefused("", kPlain);
  ExpectRefused("\n", kPlain);
  ExpectRefused(good, {.arena_bits = 31});
  ExpectRefused(good, {.arena_bits = 48});
  ExpectAccepted(absl::StrCat(kPreamble, ".entry k ()\n.explicitcluster\n{\n\tret;\n}\n"), kPlain);
}

TEST(Verify, LocalsAreEquallyLargeInAllEntries) {
  const std::string second = absl::StrCat(".entry k2 ()\n{\n", kLocals, kZeroLocals, "\tret;\n}\n");
  const std::string good = Module({});
  ExpectAccepted(absl::StrCat(good, second), kPlain);
  ExpectAccepted(absl::StrCat(good, ".entry k2 ()\n{\n\tret;\n}\n"), kPlain);
  ExpectRefused(absl::StrCat(good, Replaced(second, "[64]", "[32]")), kPlain);
}

TEST(Verify, RefusesCalls) {
  const std::string good = ModuleWithCalls();
  const struct {
    const char* from;
    const char* to;
  } cases[] = {
      // Before the call
      {"\tst.param.b64 [wlg_pass], wlg_local;\n", ""},
      {"\tst.param.b64 [wlg_pass], wlg_local;\n", "\tst.param.b64 [wlg_pass], %rd1;\n"},
      {"\tst.param.b64 [wlg_pass], wlg_local;\n", "\t@%p1 st.param.b64 [wlg_pass], wlg_local;\n"},
      {"\tst.param.b64 [wlg_pass], wlg_local;\n",
       "\tst.param.b64 [wlg_pass], wlg_local;\n\tmov.u32 %r1, 0;\n"},
      {"\tst.param.b64 [wlg_pass], wlg_local;\n", "\tst.param.b64 [wlg_pass], wlg_local;\nL:\n"},
      {"\tst.param.b32 [a], %r1;\n", "\tst.param.b32 [wlg_pass], %r1;\n"},
      {"\tst.param.b32 [a], %r1;\n", "\tld.param.b64 %rd1, [wlg_depot];\n"},
      {"\tst.param.b32 [a], %r1;\n", "\tst.param.b64 [wlg_depot], %rd1;\n"},
      {"\tld.param.b64 wlg_local, [wlg_depot];\n", ""},
      {"\tst.param.b32 [a], %r1;\n", ""},
      {"\tst.param.b32 [a], %r1;\n", "\tst.param.b16 [a], %h1;\n"},
      {"\tst.param.b32 [a], %r1;\n", "\t@%p1 st.param.b32 [a], %r1;\n"},
      {"\tst.param.b32 [a], %r1;\n", "\tst.param.b32 [a], %r1;\nL:\n"},
      {"\tst.param.b32 [res], %r1;\n", ""},
      {"\tst.param.b32 [res], %r1;\n", "\t@%p1 st.param.b32 [res], %r1;\n"},
      {"\t.param .b64 wlg_pass;\n", "\t.param .b32 wlg_pass;\n"},
      {"\t.param .b64 wlg_pass;\n", ""},
      // The call
      {"(wlg_pass, a)", "(a, wlg_pass)"},
      {"(wlg_pass, a)", "(wlg_pass, wlg_pass)"},
      {"(wlg_pass, a)", "(wlg_pass)"},
      {"(wlg_pass, a)", "(wlg_pass, a, a)"},
      {"(wlg_pass, a)", "(wlg_pass, %r1)"},
      {"(wlg_pass, a)", "(wlg_pass, 1)"},
      {"(wlg_pass, a)", "(wlg_pass, a+4)"},
      {"(wlg_pass, a)", "(wlg_pass, wlg_depot)"},
      {"call (r), f", "call (wlg_pass), f"},
      {"call (r), f", "call f"},
      {"call (r), f", "call (%r1), f"},
      {"call (r), f", "call (r), %rd1"},
      {"call (r), f", "call (r), k"},
      {"call (r), f", "call (r), h"},
      {"call (r), f", "call (r), f+4"},
      {"call (r), f", "call.frob (r), f"},
      {"call g, (wlg_pass)", "call g, (wlg_pass), proto"},
      {"\t.param .b32 a;\n", "\t.param .b64 a;\n"},
      {"\t.param .b32 r;\n", "\t.param .b16 r;\n"},
      {"\t.param .b32 r;\n", "\t.param .b32 r;\n\t.reg .b64 f;\n"},
      // The functions
      {".weak .func g (.param .b64 wlg_depot)", ".weak .func g ()"},
      {".weak .func g (.param .b64 wlg_depot)", ".weak .func g (.param .b32 wlg_depot)"},
      {".weak .func g (.param .b64 wlg_depot)", ".weak .func g (.param .b64 depot)"},
      {".func (.param .b32 res) f (.param .b64 wlg_depot, .param .b32 x);\n",
       ".func (.param .b64 res) f (.param .b64 wlg_depot, .param .b32 x);\n"},
      {".func (.param .b32 res) f (.param .b64 wlg_depot, .param .b32 x);\n",
       ".func (.param .b32 res) h (.param .b64 wlg_depot, .param .b32 x);\n"},
      {".func (.param .b32 res) f (.param .b64 wlg_depot, .param .b32 x);\n",
       ".extern .func (.param .b32 res) f (.param .b64 wlg_depot, .param .b32 x);\n"},
      {"\tld.param.b32 %r1, [x];\n", "\tst.param.b32 [x], %r1;\n"},
      {"\tld.param.b32 %r1, [x];\n", "\tmov.b64 %rd1, x;\n"},
      {"[wlg_local+60]", "[wlg_local+61]"},
      {"[wlg_local+60]", "[wlg_locals+60]"},
      {"\tst.param.b32 [res], %r1;\n", "\tst.param.b64 [res], %rd1;\n"},
  };
  ExpectAccepted(good, kPlain);
  for (const auto& test : cases) ExpectRefused(Replaced(good, test.from, test.to), kPlain);
}

TEST(Verify, RefusesACallThroughARegisterNamedLikeAFunction) {
  const std::string good = absl::StrCat(kPreamble, ".func f1 ()\n{\n\tret;\n}\n",
                                        ".entry k ()\n{\n\tcall f1;\n\tret;\n}\n");
  ExpectAccepted(good, kPlain);
  ExpectRefused(Replaced(good, "\tcall f1;\n", "\t.reg .b64 f<2>;\n\tcall f1;\n"), kPlain);
}

TEST(Verify, RefusesCirclesOfCalls) {
  const auto module = [](const std::string& f, const std::string& g, const std::string& h) {
    std::string text = absl::StrCat(kPreamble, ".func f ();\n.func g ();\n.func h ();\n");
    for (const auto& [name, callee] : {std::pair("f", f), std::pair("g", g), std::pair("h", h)}) {
      const std::string call = callee.empty() ? "" : absl::StrCat("\tcall ", callee, ";\n");
      absl::StrAppend(&text, ".func ", name, " ()\n{\n", call, call, "\tret;\n}\n");
    }
    return text;
  };
  ExpectAccepted(module("g", "h", ""), kPlain);
  ExpectRefused(module("f", "", ""), kPlain);
  ExpectRefused(module("g", "f", ""), kPlain);
  ExpectRefused(module("g", "h", "f"), kPlain);
  ExpectRefused(module("", "h", "g"), kPlain);
}

TEST(Verify, SaysWhereAndWhat) {
  const std::string text = absl::StrCat(kPreamble, ".entry k ()\n{\n\ttrap;\n\tret;\n}\n");
  EXPECT_EQ(Verify(text, kPlain).message(), "line 7: an instruction that is not allowed: \\ttrap;");
  const std::string far = absl::StrReplaceAll(text, {{"trap", std::string(1000, 'a') + "\x01"}});
  EXPECT_EQ(Verify(far, kPlain).message().size(),
            std::string_view("line 7: a malformed opcode: \\t").size() + 199);
}

TEST(Verify, SurvivesLongLines) {
  const std::string many(100'000, '{');
  ExpectRefused(Module({"mov.b64 " + many}), kPlain);
  std::string elements = "%r1";
  for (int i = 0; i < 100'000; ++i) absl::StrAppend(&elements, ", %r1");
  ExpectRefused(Module({absl::StrCat("mov.b64 %rd1, {", elements, "}")}), kPlain);
  ExpectRefused(Module({absl::StrCat("mov.b64 ", elements)}), kPlain);
  ExpectRefused(Module({"add" + absl::StrReplaceAll(many, {{"{", ".s32"}})}), kPlain);
}

}  // namespace
}  // namespace warpline::guard
