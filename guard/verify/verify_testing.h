// Modules for the tests of the verifier, and the fences of the contract.
#ifndef WARPLINE_GUARD_VERIFY_VERIFY_TESTING_H_
#define WARPLINE_GUARD_VERIFY_VERIFY_TESTING_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "guard/verify/verify.h"

namespace warpline::guard {

using Statements = std::vector<std::string>;

inline constexpr Policy kPlain = {.arena_bits = 36, .hardened = false};
inline constexpr Policy kSmallArena = {.arena_bits = 32, .hardened = false};
// Loops and what shared memory holds at first have tests of their own.
inline constexpr Policy kHardened = {
    .arena_bits = 36, .hardened = true, .stops = false, .zeroes = false};

// The parameter that ends those of each entry.
#define WARPLINE_LAUNCH ".param .align 8 .b8 wlg_launch[32]"

inline constexpr char kPreamble[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".const .align 128 .b8 wlg_const[96] = {0, 1, -2, 255};\n";

inline constexpr char kRegisters[] =
    "\t.reg .pred %p<9>;\n\t.reg .b16 %h<9>;\n\t.reg .b32 %r<9>;\n\t.reg .b64 %rd<9>;\n"
    "\t.reg .f32 %f<9>;\n\t.reg .f64 %fd<9>;\n"
    "\t.reg .b32 wlg_base;\n\t.reg .b32 wlg_smem;\n\t.reg .b64 wlg_globals;\n"
    "\t.reg .b64 wlg_consts;\n\t.reg .b64 wlg_params;\n\t.reg .b64 wlg_local;\n"
    "\t.reg .b32 wlg_lo;\n\t.reg .b32 wlg_hi;\n\t.reg .b32 wlg_s;\n\t.reg .b32 wlg_t;\n"
    "\t.reg .b32 wlg_stride;\n\t.reg .b64 wlg_x;\n\t.reg .b64 wlg_off;\n\t.reg .b64 wlg_at;\n"
    "\t.reg .pred wlg_ps;\n\t.reg .pred wlg_pl;\n\t.reg .b32 wlg_n;\n"
    "\t.reg .b32 wlg_g0;\n\t.reg .b32 wlg_g1;\n\t.reg .b32 wlg_g2;\n\t.reg .b32 wlg_g3;\n"
    "\t.reg .pred wlg_pu;\n\t.reg .b32 wlg_live;\n\t.reg .b32 wlg_passes;\n"
    "\t.reg .b32 wlg_tid;\n";

inline constexpr char kVariables[] =
    "\t.shared .align 16 .b8 sm[64];\n\t.param .b32 a;\n\t.param .align 8 .b8 b[16];\n";

// Every register of kRegisters that is not the guard's, and what is passed.
inline std::string WriteAll() {
  std::string text;
  const struct {
    const char* move;
    const char* prefix;
  } kinds[] = {{"mov.pred", "%p"}, {"mov.b16", "%h"}, {"mov.b32", "%r"},
               {"mov.b64", "%rd"}, {"mov.b32", "%f"}, {"mov.b64", "%fd"}};
  for (const auto& kind : kinds) {
    for (int i = 0; i < 9; ++i)
      absl::StrAppend(&text, "\t", kind.move, " ", kind.prefix, i, ", 1;\n");
  }
  return text;
}

inline constexpr char kWriteParameters[] =
    "\tst.param.b32 [a], 0;\n\tst.param.b64 [b], 0;\n\tst.param.b64 [b+8], 0;\n";
inline constexpr char kZeroLocals[] =
    "\tst.local.v4.b32 [wlg_locals], {0, 0, 0, 0};\n"
    "\tst.local.v4.b32 [wlg_locals+16], {0, 0, 0, 0};\n"
    "\tst.local.v4.b32 [wlg_locals+32], {0, 0, 0, 0};\n"
    "\tst.local.v4.b32 [wlg_locals+48], {0, 0, 0, 0};\n";

inline constexpr char kLocals[] = "\t.local .align 16 .b8 wlg_locals[64];\n";

inline constexpr char kPrologue[] =
    "\tmov.u32 wlg_t, %laneid;\n\tand.b32 wlg_t, wlg_t, 1;\n\tshl.b32 wlg_t, wlg_t, 2;\n"
    "\tcvt.u64.u32 wlg_off, wlg_t;\n\tmov.b64 wlg_at, wlg_launch;\n"
    "\tadd.s64 wlg_off, wlg_off, wlg_at;\n"
    "\tld.param.b32 wlg_base, [wlg_off];\n\tld.const.b64 wlg_globals, [wlg_const+8];\n"
    "\tmov.b64 wlg_consts, wlg_const;\n\tmov.b64 wlg_params, p;\n";
inline constexpr char kLocalPrologue[] = "\tmov.b64 wlg_local, wlg_locals;\n";
inline constexpr char kSmemPrologue[] = "\tmov.b32 wlg_smem, %aggr_smem_size;\n";

// Blocks ask, where they begin, whether the kernel is to stop, but in grids of at most 16.
#define WARPLINE_ASK                                    \
  "\tmov.u32 wlg_lo, %tid.x;\n"                         \
  "\tmov.u32 wlg_hi, %tid.y;\n"                         \
  "\tor.b32 wlg_lo, wlg_lo, wlg_hi;\n"                  \
  "\tmov.u32 wlg_hi, %tid.z;\n"                         \
  "\tor.b32 wlg_lo, wlg_lo, wlg_hi;\n"                  \
  "\tmov.b32 wlg_t, 0;\n"                               \
  "\tsetp.eq.u32 wlg_ps, wlg_lo, 0;\n"                  \
  "\tld.param.b64 wlg_at, [wlg_launch+24];\n"           \
  "\t@wlg_ps ld.volatile.global.b32 wlg_t, [wlg_at];\n" \
  "\tshfl.sync.idx.b32 wlg_t, wlg_t, 0, 31, -1;\n"      \
  "\tsetp.lt.s32 wlg_ps, wlg_t, 0;\n"                   \
  "\tmax.s32 wlg_t, wlg_t, 0;\n"                        \
  "\tnanosleep.u32 wlg_t;\n"                            \
  "\tbarrier.red.or.pred wlg_ps, 0, wlg_ps;\n"          \
  "\t@wlg_ps exit;\n"
inline constexpr char kEntryPoll[] =
    "\tld.param.b32 wlg_t, [wlg_launch+8];\n"
    "\tsetp.le.u32 wlg_ps, wlg_t, 16;\n"
    "\t@wlg_ps bra wlg_entered;\n" WARPLINE_ASK "wlg_entered:\n";
// This one leaves the number of the thread in its block in wlg_tid, too.
inline constexpr char kPlacingPoll[] =
    "\tmov.u32 wlg_tid, %tid.x;\n"
    "\tld.param.b32 wlg_t, [wlg_launch+12];\n"
    "\tsetp.le.u32 wlg_ps, wlg_t, 16;\n"
    "\t@wlg_ps bra wlg_entered;\n"
    "\tand.b32 wlg_t, wlg_t, 2147483647;\n"
    "\tsetp.le.u32 wlg_ps, wlg_t, 16;\n"
    "\t@wlg_ps bra wlg_asked;\n" WARPLINE_ASK
    "wlg_asked:\n"
    "\tmov.u32 wlg_hi, %tid.z;\n"
    "\tmov.u32 wlg_lo, %ntid.y;\n"
    "\tmul.lo.u32 wlg_hi, wlg_hi, wlg_lo;\n"
    "\tmov.u32 wlg_lo, %tid.y;\n"
    "\tadd.u32 wlg_hi, wlg_hi, wlg_lo;\n"
    "\tmov.u32 wlg_lo, %ntid.x;\n"
    "\tmad.lo.u32 wlg_tid, wlg_hi, wlg_lo, wlg_tid;\n"
    "wlg_entered:\n";
#undef WARPLINE_ASK

// What stands before instructions of a warp.
inline const Statements kWholeWarp = {"bar.warp.sync -1", "activemask.b32 wlg_t",
                                      "setp.ne.s32 wlg_ps, wlg_t, -1", "@wlg_ps exit"};

// The same where only those count that there are and that have not left.
inline const Statements kLiveWarp = {
    "bar.warp.sync -1", "activemask.b32 wlg_t", "setp.ne.s32 wlg_ps, wlg_t, -1",
    "setp.ne.and.s32 wlg_ps, wlg_t, wlg_live, wlg_ps", "@wlg_ps exit"};
inline const Statements kCountLanes = {"mov.u32 wlg_lo, %tid.z",
                                       "mov.u32 wlg_t, %ntid.y",
                                       "mov.u32 wlg_hi, %tid.y",
                                       "mad.lo.u32 wlg_lo, wlg_lo, wlg_t, wlg_hi",
                                       "mov.u32 wlg_hi, %ntid.x",
                                       "mul.lo.u32 wlg_t, wlg_t, wlg_hi",
                                       "mul.lo.u32 wlg_lo, wlg_lo, wlg_hi",
                                       "mov.u32 wlg_hi, %tid.x",
                                       "add.u32 wlg_lo, wlg_lo, wlg_hi",
                                       "and.b32 wlg_lo, wlg_lo, -32",
                                       "mov.u32 wlg_hi, %ntid.z",
                                       "mul.lo.u32 wlg_t, wlg_t, wlg_hi",
                                       "sub.u32 wlg_t, wlg_t, wlg_lo",
                                       "mov.b32 wlg_live, -1",
                                       "shl.b32 wlg_live, wlg_live, wlg_t",
                                       "not.b32 wlg_live, wlg_live"};

inline constexpr char kEntry[] =
    ".visible .entry k (.param .b64 p, .param .align 8 .b8 q[16], .param .b32 n, " WARPLINE_LAUNCH
    ")\n";

// Statements without tabs and semicolons; a label has its colon.
inline std::string Body(const Statements& statements) {
  std::string body;
  for (const std::string& statement : statements) {
    const bool is_label = absl::EndsWith(statement, ":");
    absl::StrAppend(&body, is_label ? "" : "\t", statement, is_label ? "\n" : ";\n");
  }
  return body;
}

// A module with one entry, which has wlg_locals of 64 bytes.
inline std::string Module(const Statements& statements) {
  return absl::StrCat(kPreamble, ".extern .shared .align 16 .b8 dyn[];\n.shared .b32 word;\n",
                      kEntry, ".maxntid 256, 1, 1\n{\n", kRegisters, kVariables, kLocals, kPrologue,
                      kLocalPrologue, kSmemPrologue, kZeroLocals, WriteAll(), kWriteParameters,
                      Body(statements), "\tret;\n}\n");
}

// The same, which counts lanes by these statements.
inline std::string Counting(const Statements& count, const Statements& statements) {
  return absl::StrReplaceAll(Module(statements),
                             {{kZeroLocals, absl::StrCat(kZeroLocals, Body(count))}});
}

// `text` of Module() with `more` behind the prologue.
inline std::string BehindPrologue(const std::string& text, const std::string& more) {
  return absl::StrReplaceAll(text, {{kZeroLocals, absl::StrCat(more, kZeroLocals)}});
}

// A module that begins with these lines, behind the prologue.
inline std::string Beginning(const std::string& lines, const Statements& statements) {
  return BehindPrologue(Module(statements), lines);
}

inline std::string WithoutLocals(const Statements& statements) {
  return absl::StrReplaceAll(Module(statements),
                             {{kLocals, ""}, {kLocalPrologue, ""}, {kZeroLocals, ""}});
}

// A module with a function that two others call.
inline std::string ModuleWithCalls() {
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

inline void ExpectAccepted(const std::string& text, const Policy& policy) {
  const absl::Status status = Verify(text, policy);
  EXPECT_TRUE(status.ok()) << status.message() << "\n" << text;
}

inline void ExpectRefused(const std::string& text, const Policy& policy) {
  EXPECT_EQ(Verify(text, policy).code(), absl::StatusCode::kInvalidArgument) << text;
}

// Replaces one line, which must be there.
inline std::string Replaced(const std::string& text, const std::string& from,
                            const std::string& to) {
  EXPECT_TRUE(absl::StrContains(text, from)) << from;
  return absl::StrReplaceAll(text, {{from, to}});
}

inline const Statements kArena = {
    "mov.b64 {wlg_lo, wlg_hi}, %rd1",
    "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
    "mov.b64 wlg_at, {wlg_lo, wlg_hi}",
};
inline const Statements kSmallFence = {
    "mov.b64 {wlg_lo, wlg_hi}, %rd1",
    "mov.b64 wlg_at, {wlg_lo, wlg_base}",
};
inline const Statements kAlignedArena4 = {
    "mov.b64 {wlg_lo, wlg_hi}, %rd1",
    "lop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234",
    "and.b32 wlg_lo, wlg_lo, -4",
    "mov.b64 wlg_at, {wlg_lo, wlg_hi}",
};
inline const Statements kSharedLeg = {
    "isspacep.shared wlg_ps, %rd1",
    "cvta.to.shared.u64 wlg_off, %rd1",
    "and.b64 wlg_off, wlg_off, 262143",
    "cvta.shared.u64 wlg_off, wlg_off",
    "selp.b64 wlg_at, wlg_off, wlg_at, wlg_ps",
};
inline const Statements kHardenedSharedLeg4 = {
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
inline const Statements kLocalLeg4 = {
    "isspacep.local wlg_pl, %rd1",
    "cvta.to.local.u64 wlg_off, %rd1",
    "sub.s64 wlg_off, wlg_off, wlg_local",
    "min.u64 wlg_off, wlg_off, 60",
    "add.s64 wlg_off, wlg_off, wlg_local",
    "cvta.local.u64 wlg_off, wlg_off",
    "selp.b64 wlg_at, wlg_off, wlg_at, wlg_pl",
};
inline const Statements kHardenedLocalLeg4 = {
    "isspacep.local wlg_pl, %rd1",         "cvta.to.local.u64 wlg_off, %rd1",
    "sub.s64 wlg_off, wlg_off, wlg_local", "min.u64 wlg_off, wlg_off, 60",
    "and.b64 wlg_off, wlg_off, -4",        "add.s64 wlg_off, wlg_off, wlg_local",
    "cvta.local.u64 wlg_off, wlg_off",     "selp.b64 wlg_at, wlg_off, wlg_at, wlg_pl",
};
inline const Statements kSharedFence4 = {
    "add.s32 wlg_s, %r1, 8",
    "sub.s32 wlg_t, wlg_smem, 4",
    "min.u32 wlg_s, wlg_s, wlg_t",
    "and.b32 wlg_s, wlg_s, -4",
};
inline Statements Window(std::string_view base, int most, bool aligned = false) {
  const std::string name(base);
  Statements fence = {absl::StrCat("sub.s64 wlg_off, %rd1, ", name),
                      absl::StrCat("min.u64 wlg_off, wlg_off, ", most)};
  if (aligned) fence.push_back("and.b64 wlg_off, wlg_off, -4");
  fence.push_back(absl::StrCat("add.s64 wlg_at, wlg_off, ", name));
  return fence;
}

inline Statements Joined(const std::vector<Statements>& parts) {
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

// For 24 bytes through one register.
inline const Statements kSharedGroup = {
    "add.s32 wlg_g0, %r1, -8",
    "sub.s32 wlg_t, wlg_smem, 24",
    "min.u32 wlg_g0, wlg_g0, wlg_t",
    "and.b32 wlg_g0, wlg_g0, -8",
};

inline std::vector<Fenced> AllFenced() {
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
      {Joined({kWholeWarp, kArena, {"min.u32 wlg_stride, %r1, 65536"}}),
       "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 "
       "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [wlg_at], wlg_stride",
       kPlain},
      {kSharedGroup, "ld.shared.b64 %rd1, [wlg_g0+16]", kHardened},
      {kSharedGroup, "st.shared.b32 [wlg_g0+20], %r1", kHardened},
      {Joined({kArena, {"min.u32 wlg_stride, %r1, 1048576"}}),
       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [wlg_at], "
       "wlg_stride, [sm]",
       kPlain},
      {Joined({kArena, {"min.u32 wlg_stride, %r1, 65536"}}),
       "@%p1 cp.async.bulk.global.shared::cta.bulk_group [wlg_at], [sm+16], wlg_stride", kPlain},
  };
}

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_VERIFY_TESTING_H_
