#include "guard/rewrite/rewrite.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ptx/parser.h"
#include "ptx/printer.h"

namespace warpline::guard {
namespace {

std::string Kernel(const std::string& body, const std::string& declarations = "") {
  return absl::StrCat(".version 8.0\n.target sm_90\n.address_size 64\n", declarations,
                      "\n.visible .entry k(.param .u64 p0, .param .u32 n)\n{\n"
                      ".reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n",
                      body, "\nret;\n}\n");
}

absl::StatusOr<GuardedModule> Guarded(const std::string& text, const RewriteOptions& options = {}) {
  const auto module = ptx::Parse(text);
  if (!module.ok()) return module.status();
  return Rewrite(*module, options);
}

// What becomes of a kernel; empty if it is refused.
std::string TextOf(const std::string& text, const RewriteOptions& options = {}) {
  const auto guarded = Guarded(text, options);
  if (!guarded.ok() || guarded->kernels.empty()) return "";
  return ptx::Print(guarded->module);
}

std::string RefusalOf(const std::string& text, const RewriteOptions& options = {}) {
  const auto guarded = Guarded(text, options);
  if (!guarded.ok()) return std::string(guarded.status().message());
  return guarded->refusals.empty() ? "" : guarded->refusals[0].reason;
}

::testing::AssertionResult Has(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << part << "\nis not in\n" << text;
}

TEST(RewriteTest, ConfinesTheHighHalfOfAnAddress) {
  EXPECT_TRUE(Has(TextOf(Kernel("ld.global.u32 %r1, [%rd1+8];")),
                  "\tmov.b64 {wlg_lo, wlg_hi}, %rd1;\n"
                  "\tlop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234;\n"
                  "\tmov.b64 wlg_at, {wlg_lo, wlg_hi};\n"
                  "\tld.global.u32 %r1, [wlg_at+8];\n"));
}

TEST(RewriteTest, TakesTheWholeHighHalfOfASmallArena) {
  EXPECT_TRUE(Has(TextOf(Kernel("st.global.u32 [%rd1], %r1;"), {.arena_bits = 32}),
                  "\tmov.b64 {wlg_lo, wlg_hi}, %rd1;\n"
                  "\tmov.b64 wlg_at, {wlg_lo, wlg_base};\n"
                  "\tst.global.u32 [wlg_at], %r1;\n"));
}

TEST(RewriteTest, AddsAGreatOffsetFirst) {
  EXPECT_TRUE(Has(TextOf(Kernel("st.global.u32 [%rd1+8388608], %r1;")), "[wlg_at+8388608]"));
  EXPECT_TRUE(Has(TextOf(Kernel("st.global.u32 [%rd1+8388612], %r1;")),
                  "\tadd.s64 wlg_x, %rd1, 8388612;\n\tmov.b64 {wlg_lo, wlg_hi}, wlg_x;\n"));
  EXPECT_TRUE(Has(TextOf(Kernel("st.global.u32 [%rd1+-8388612], %r1;")),
                  "\tadd.s64 wlg_x, %rd1, -8388612;\n"));
}

TEST(RewriteTest, AlignsWhenHardened) {
  const RewriteOptions hardened = {.arena_bits = 36, .hardened = true};
  EXPECT_TRUE(Has(TextOf(Kernel("ld.global.v2.u32 {%r1, %r2}, [%rd1];"), hardened),
                  "\tand.b32 wlg_lo, wlg_lo, -8;\n"));
  // An offset that would undo it is added first.
  EXPECT_TRUE(
      Has(TextOf(Kernel("ld.global.u32 %r1, [%rd1+2];"), hardened), "\tadd.s64 wlg_x, %rd1, 2;\n"));
}

TEST(RewriteTest, ElectsTheFirstLaneThatIsNamed) {
  EXPECT_TRUE(Has(TextOf(Kernel("elect.sync %r1|%p1, %r2;")),
                  "\tmov.b32 $guard_members, %r2;\n\tbrev.b32 $guard_first, $guard_members;\n"
                  "\tclz.b32 $guard_first, $guard_first;\n\tbar.warp.sync $guard_members;\n"
                  "\tmov.b32 %r1, $guard_first;\n\tmov.u32 $guard_members, %laneid;\n"
                  "\tsetp.eq.u32 %p1, $guard_first, $guard_members;\n"));
  EXPECT_TRUE(Has(TextOf(Kernel("@%p2 elect.sync _|%p1, -1;")),
                  "\t@%p2 bar.warp.sync $guard_members;\n\tmov.u32 $guard_members, %laneid;\n"
                  "\t@%p2 setp.eq.u32 %p1, $guard_first, $guard_members;\n"));
}

// One clamp where all are surely executed together, and the register holds the same for all.
TEST(RewriteTest, ClampsAccessesThroughOneRegisterTogether) {
  const RewriteOptions hardened = {.arena_bits = 36, .hardened = true};
  // Before the label the kernel waits until shared memory is zero.
  const auto text = [&](const std::string& code) {
    return TextOf(Kernel("BEGIN:\n" + code), hardened);
  };
  const std::string two =
      text("ld.shared.u32 %r2, [%r1+4];\nst.shared.v2.u32 [%r1+16], {%r1, %r2};");
  EXPECT_TRUE(
      Has(two,
          "\tmov.b32 wlg_g0, %r1;\n\tsub.s32 wlg_t, wlg_smem, 24;\n"
          "\tmin.u32 wlg_g0, wlg_g0, wlg_t;\n\tand.b32 wlg_g0, wlg_g0, -8;\n"
          "\tld.shared.u32 %r2, [wlg_g0+4];\n\tst.shared.v2.u32 [wlg_g0+16], {%r1, %r2};\n"));
  EXPECT_TRUE(Has(text("ld.shared.u32 %r2, [%rd1];\nld.shared.u32 %r1, [%rd1+960];"),
                  "\tcvt.u32.u64 wlg_g0, %rd1;\n\tsub.s32 wlg_t, wlg_smem, 964;\n"));
  for (const char* const apart : {
           "ld.shared.u32 %r1, [%r1+4];\nld.shared.u32 %r2, [%r1];",
           "ld.shared.u32 %r2, [%r1+4];\nL:\nld.shared.u32 %r2, [%r1];",
           "ld.shared.u32 %r2, [%r1+4];\n@%p1 exit;\nld.shared.u32 %r2, [%r1];",
           "ld.shared.u32 %r2, [%r1+4];\n@%p1 ld.shared.u32 %r2, [%r1];",
           "ld.shared.u32 %r2, [%r1+4096];\nld.shared.u32 %r2, [%r1];",
           "ld.shared.u32 %r2, [%r1+4];\nld.shared.u32 %r2, [%r2];",
           "cp.async.ca.shared.global [%r1], [%rd1], 4, %r2;\nld.shared.u32 %r2, [%r1];",
           "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r1];\nld.shared.u32 %r2, [%r1+128];",
       }) {
    EXPECT_FALSE(Has(text(apart), "wlg_g0")) << apart;
  }
  // Where their bytes would not be aligned they are no group.
  EXPECT_FALSE(
      Has(text("ld.shared.u32 %r2, [%r1+2];\nld.shared.v2.u32 {%r1, %r2}, [%r1+8];"), "wlg_g0"));
}

TEST(RewriteTest, MasksNoAddressThatIsAMultipleAnyway) {
  const RewriteOptions hardened = {.arena_bits = 36, .hardened = true};
  const auto has_mask = [&](const std::string& code) {
    const std::string text = TextOf(Kernel(code, ".shared .align 8 .b8 s[64];"), hardened);
    return Has(text, "\tand.b32 wlg_s, wlg_s, -4;") || Has(text, "\tand.b32 wlg_s, wlg_s, -8;");
  };
  const std::string table = "shl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.s32 %r4, %r3, %r2;\n";
  EXPECT_FALSE(has_mask(table + "ld.shared.u32 %r5, [%r4];"));
  EXPECT_FALSE(has_mask(table + "ld.shared.u32 %r5, [%r4+12];"));
  EXPECT_TRUE(has_mask(table + "ld.shared.v2.u32 {%r5, %r6}, [%r4];"));
  EXPECT_TRUE(has_mask(table + "ld.shared.u32 %r5, [%r4+2];"));
  EXPECT_TRUE(has_mask(table + "L:\nld.shared.u32 %r5, [%r4];"));
  EXPECT_TRUE(has_mask(table + "@%p1 mov.u32 %r4, %r1;\nld.shared.u32 %r5, [%r4];"));
  EXPECT_TRUE(has_mask(table + "ld.param.u32 %r4, [n];\nld.shared.u32 %r5, [%r4];"));
}

TEST(RewriteTest, KeepsThePredicateOnTheAccessAlone) {
  EXPECT_TRUE(Has(TextOf(Kernel("@!%p1 st.global.u32 [%rd1], %r1;")),
                  "\tmov.b64 wlg_at, {wlg_lo, wlg_hi};\n\t@!%p1 st.global.u32 [wlg_at], %r1;\n"));
}

TEST(RewriteTest, AlignsWhatItsVariableDoesNot) {
  const RewriteOptions hardened = {.arena_bits = 36, .hardened = true};
  const auto text = [&](const std::string& variable, const std::string& space) {
    const std::string access = "ld.shared.u64 %rd1, [s+8];";
    return space == "body" ? TextOf(Kernel(variable + access), hardened)
                           : TextOf(Kernel(access, variable), hardened);
  };
  for (const char* const space : {"body", "module"}) {
    EXPECT_TRUE(Has(text(".shared .align 8 .b8 s[16];\n", space), ", [s+8];\n"));
    EXPECT_TRUE(Has(text(".shared .align 4 .b8 s[16];\n", space),
                    "\tmov.b32 wlg_s, s+8;\n\tsub.s32 wlg_t, wlg_smem, 8;\n"
                    "\tmin.u32 wlg_s, wlg_s, wlg_t;\n\tand.b32 wlg_s, wlg_s, -8;\n"));
  }
}

// One that is none ends the context.
TEST(RewriteTest, HardenedBarriersHaveLiteralNumbers) {
  const RewriteOptions hardened = {.arena_bits = 36, .hardened = true};
  for (const char* const barrier :
       {"bar.sync 0;", "bar.sync 15, 1024;", "barrier.cta.arrive 1, 64;",
        "barrier.red.popc.u32 %r1, 0, 32, %p1;", "bar.red.and.pred %p1, 0, %p2;"}) {
    EXPECT_EQ(RefusalOf(Kernel(barrier), hardened), "");
  }
  // Also where registers hold them.
  EXPECT_TRUE(Has(TextOf(Kernel("mov.u32 %r1, 3;\nmov.u32 %r2, 96;\nbar.sync %r1, %r2;"), hardened),
                  "\tbarrier.sync 3, 96;\n"));
  EXPECT_TRUE(Has(TextOf(Kernel("mov.u32 %r1, 3;\nbar.red.popc.u32 %r2, %r1, %r1, %p1;")),
                  "\tbarrier.red.popc.u32 %r2, 3, %r1, %p1;\n"));
  const std::string number = "a barrier whose number is not a literal from 0 to 15: ";
  const std::string threads =
      "a barrier for threads that are not a literal multiple of 32 up to 1024: ";
  const struct {
    std::string code;
    std::string refusal;
  } refused[] = {
      {"bar.sync 16;", number + "barrier.sync 16;"},
      {"bar.sync %r1;", number + "barrier.sync %r1;"},
      {"mov.u32 %r1, 3;\n@%p1 mov.u32 %r1, 4;\nbar.sync %r1;", number},
      {"mov.u32 %r1, %tid.x;\nbar.red.popc.u32 %r2, %r1, %p1;", number},
      {"bar.sync 1, %r1;", threads},
      {"bar.sync 1, 48;", threads},
      {"bar.arrive 1, 4096;", threads},
      {"bar.sync 1, 0;", threads},
      {"mov.u32 %r1, 16;\nbar.sync 1, %r1;", threads},
      {"bar.red.or.pred %p1, 0, %r1, %p2;", threads},
  };
  for (const auto& [code, refusal] : refused) {
    const std::string why = refusal.substr(0, refusal.find(": "));
    EXPECT_TRUE(Has(RefusalOf(Kernel(code), hardened), why)) << code;
    EXPECT_EQ(RefusalOf(Kernel(code)), "") << code;
  }
}

TEST(RewriteTest, HardenedKernelsDoNotMultiplyInFourWarps) {
  const RewriteOptions hardened = {.arena_bits = 36, .hardened = true};
  for (const char* const statement :
       {"wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1, %r2, %r3, %r4}, %rd1, %rd2, %p1;"}) {
    EXPECT_EQ(RefusalOf(Kernel(statement)), "") << statement;
    EXPECT_TRUE(Has(RefusalOf(Kernel(statement), hardened),
                    "wgmma, which ends the context where a warp of its four has ended"));
  }
}

constexpr char kCheck[] =
    "\tbar.warp.sync -1;\n\tactivemask.b32 wlg_t;\n\tsetp.ne.s32 wlg_ps, wlg_t, -1;\n";
constexpr char kOfLive[] = "\tsetp.ne.and.s32 wlg_ps, wlg_t, wlg_live, wlg_ps;\n";

// Where they leave the line.
constexpr char kLeavesLine[] =
    "\tld.const.b64 wlg_x, [wlg_const+24];\n"
    "\tmov.b64 {wlg_lo, wlg_hi}, wlg_x;\n\tlop3.b32 wlg_hi, wlg_hi, 15, wlg_base, 234;\n"
    "\tand.b32 wlg_lo, wlg_lo, -4;\n\tmov.b64 wlg_at, {wlg_lo, wlg_hi};\n";

// What the lanes do that are not together, at something that stands on this line.
std::string Ends(int line) {
  return absl::StrCat("\t@wlg_ps st.global.b32 [wlg_at+8], ", line, ";\n\t@wlg_ps exit;\n");
}

// So often a kernel sees whether a warp is whole.
int ChecksOf(const std::string& text) {
  int checks = 0;
  for (size_t at = text.find(kCheck); at != std::string::npos; at = text.find(kCheck, at + 1)) {
    ++checks;
  }
  return checks;
}

TEST(RewriteTest, ChecksAgainWhereSomeLanesWaitForEachOther) {
  const std::string move = "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;\n";
  const auto checks = [&](const std::string& between) {
    const std::string text = TextOf(Kernel(move + between + "\n" + move));
    EXPECT_NE(text, "") << between;
    return ChecksOf(text);
  };
  for (const char* const together :
       {"", "bar.warp.sync -1;", "bar.warp.sync 0xffffffff;",
        "mov.u32 %r7, -1;\nbar.warp.sync %r7;",
        "mov.u32 %r7, 0xffffffff;\nshfl.sync.idx.b32 %r1, %r2, %r3, 31, %r7;",
        "vote.sync.ballot.b32 %r1, %p1, -1;", "match.any.sync.b32 %r1, %r2, -1;",
        "redux.sync.add.s32 %r1, %r2, -1;", "bar.sync 0;", "bar.arrive 1, 64;",
        "nanosleep.u32 %r1;"}) {
    EXPECT_EQ(checks(together), 1) << together;
  }
  for (const char* const apart :
       {"bar.warp.sync %r1;", "bar.warp.sync 1;", "vote.sync.ballot.b32 %r1, %p1, %r7;",
        "match.any.sync.b32 %r1, %r2, %r7;", "redux.sync.add.s32 %r1, %r2, 7;",
        "shfl.sync.idx.b32 %r1, %r2, %r3, 31, %r7;", "@%p1 bar.warp.sync -1;", "@%p1 bar.sync 0;",
        "bar.sync %r7, 32;", "@%p1 nanosleep.u32 20;", "elect.sync %r1|%p1, -1;"}) {
    EXPECT_EQ(checks(apart), 2) << apart;
  }
}

// One number stands for one kind and one number of threads.
TEST(RewriteTest, HardenedBarriersHaveNumbersOfTheirOwn) {
  const RewriteOptions hardened = {.arena_bits = 36, .hardened = true};
  const std::string counts = Kernel("bar.sync 0;\nbar.red.popc.u32 %r1, 0, %p1;\nbar.sync 0;");
  EXPECT_TRUE(Has(TextOf(counts, hardened),
                  absl::StrCat(kCheck, kOfLive, Ends(10), "\tbarrier.sync 0;\n",
                               "\tbarrier.red.popc.u32 %r1, 1, %p1;\n\tbarrier.sync 0;\n")));
  EXPECT_TRUE(Has(TextOf(counts), "\tbarrier.red.popc.u32 %r1, 0, %p1;\n"));
  EXPECT_EQ(ChecksOf(TextOf(counts)), 0);
  EXPECT_TRUE(
      Has(TextOf(Kernel("bar.sync 1, 64;\nbar.sync 1, 96;\nbar.arrive 1, 64;"), hardened),
          absl::StrCat(kCheck, kOfLive, Ends(10), "\tbarrier.sync 1, 64;\n\tbarrier.sync 0, 96;\n",
                       "\tbarrier.arrive 1, 64;\n")));
  // Number 0 is that of the barrier behind the zeroing of shared memory, and of others like it.
  EXPECT_TRUE(
      Has(TextOf(Kernel("st.shared.u32 [%r1], %r1;\nbar.red.popc.u32 %r1, 0, %p1;"), hardened),
          "\tbarrier.red.popc.u32 %r1, 1, %p1;\n"));
  EXPECT_TRUE(Has(TextOf(Kernel("bar.sync 0, 64;\nbar.sync 0;"), hardened),
                  "\tbarrier.sync 1, 64;\n\tbarrier.sync 0;\n"));
  std::string many;
  for (int i = 1; i <= 16; ++i) absl::StrAppend(&many, "bar.sync 1, ", 32 * i, ";\n");
  EXPECT_EQ(RefusalOf(Kernel(many), hardened), "");
  EXPECT_EQ(RefusalOf(Kernel(many + "bar.sync 0;"), hardened),
            "more barriers of different forms than a block has");
  EXPECT_EQ(RefusalOf(Kernel(many + "bar.sync 0;")), "");
}

TEST(RewriteTest, WarpsAreWholeAtSeveralBarriers) {
  const RewriteOptions hardened = {.arena_bits = 36, .hardened = true};
  const auto text = [&](const std::string& body, const std::string& declarations = "") {
    return TextOf(Kernel(body, declarations), hardened);
  };
  EXPECT_EQ(ChecksOf(text("bar.sync 0;\nL:\n@%p1 bar.sync 0;")), 0);
  EXPECT_EQ(ChecksOf(text("bar.sync 0;\nbar.sync 1;")), 1);
  EXPECT_EQ(ChecksOf(text("bar.arrive 1, 64;\nbar.sync 1, 64;")), 1);
  EXPECT_EQ(
      ChecksOf(text("mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 9;\nbar.sync 0;\n@%p1 bra L;\n"
                    "bar.sync 1;\nL:\nbar.sync 2;")),
      3);
  const std::string skips = text("@!%p1 bar.sync 0;\nbar.sync 1;");
  const std::string records = kLeavesLine;
  EXPECT_TRUE(Has(skips, absl::StrCat("\t@%p1 bra $guard_awaited_0;\n", records, kCheck, kOfLive,
                                      Ends(10), "\tbarrier.sync 0;\n$guard_awaited_0:\n", records,
                                      kCheck, kOfLive, Ends(11), "\tbarrier.sync 1;\n")));
  // All lanes go round together.
  EXPECT_EQ(ChecksOf(text("mov.u32 %r3, 0;\nL:\nbar.sync 0;\nbar.sync 1;\nadd.u32 %r3, %r3, 1;\n"
                          "setp.lt.u32 %p1, %r3, 9;\n@%p1 bra L;")),
            1);
  const std::string function = ".func f()\n{\nbar.sync 2;\nret;\n}\n";
  EXPECT_EQ(ChecksOf(text("call f, ();\nbar.sync 2;", function)), 0);
  EXPECT_EQ(ChecksOf(text("call f, ();\nbar.sync 3;", function)), 2);
}

// The registers of an election are written on one way to a label and not on another one.
TEST(RewriteTest, RegistersOfAnElectionAreZeroWhereThereWasNone) {
  const std::string text =
      TextOf(Kernel("mov.u32 %r1, 1;\nsetp.eq.u32 %p1, %r1, 0;\nelect.sync %r2|%p3, -1;\nL:\n"
                    "@%p1 bra L;\nret;\nM:\n@%p1 bra L;"));
  EXPECT_TRUE(Has(text, "\tmov.b32 $guard_members, 0;\n"));
}

// The lanes of a warp that is not whole leave the line to which they have come.
TEST(RewriteTest, ThreadsDoNotEndWithoutAWord) {
  const std::string move = "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;";
  for (const bool hardened : {false, true}) {
    const auto guarded =
        Guarded(Kernel("add.u32 %r2, %r2, 1;\n" + move), {.arena_bits = 36, .hardened = hardened});
    ASSERT_TRUE(guarded.ok()) << guarded.status();
    EXPECT_TRUE(guarded->leaves_records);
    EXPECT_TRUE(Has(ptx::Print(guarded->module), absl::StrCat(kCheck, Ends(11))));
  }
  EXPECT_FALSE(Guarded(Kernel("bar.sync 0;"), {.hardened = true})->leaves_records);
}

// Of warps that are whole without the lanes that they do not have, or that have returned.
TEST(RewriteTest, WarpsAtSeveralBarriersCountTheirLanes) {
  const RewriteOptions hardened = {.arena_bits = 36, .hardened = true};
  const auto text = [&](const std::string& body, const std::string& declarations = "") {
    return TextOf(Kernel(body, declarations), hardened);
  };
  const std::string barriers = "bar.sync 0;\nbar.sync 1;\n";
  const std::string guard = "mov.u32 %r1, %tid.x;\nsetp.gt.u32 %p1, %r1, 9;\n";
  const auto leaves = [](const char* stay, const char* leave) {
    return absl::StrCat("\tvote.sync.ballot.b32 wlg_t, ", stay,
                        ", -1;\n\tand.b32 wlg_live, wlg_live, wlg_t;\n\t@", leave, " exit;\n");
  };
  EXPECT_TRUE(Has(text(barriers), "\tshl.b32 wlg_live, wlg_live, wlg_t;\n"));
  EXPECT_EQ(text("bar.sync 0;\nbar.sync 0;").find("wlg_live"), std::string::npos);
  for (const char* const end :
       {"@%p1 ret;\n", "@%p1 exit;\n", "@%p1 bra END;\n", "@%p1 bra E;\n"}) {
    const std::string early = text(absl::StrCat(guard, end, barriers, "E:\nEND:"));
    EXPECT_TRUE(Has(early, absl::StrCat(kCheck, kOfLive, Ends(12), leaves("!%p1", "%p1")))) << end;
    EXPECT_EQ(ChecksOf(early), 1) << end;
  }
  EXPECT_TRUE(Has(text(guard + "@!%p1 ret;\n" + barriers), leaves("%p1", "!%p1")));
  // Others are at another place by then, so that it cannot be said who leaves.
  const std::string apart = guard + "@%p1 bra L;\nadd.u32 %r2, %r1, 1;\nL:\n";
  EXPECT_FALSE(Has(text(apart + "@%p1 ret;\n" + barriers), "vote.sync.ballot"));
  EXPECT_TRUE(Has(text(apart + barriers + "@%p1 ret;\nbar.sync 0;"), "vote.sync.ballot"));
  // What is behind the end is something else.
  EXPECT_FALSE(
      Has(text(guard + "@%p1 bra L;\n" + barriers + "L:\nadd.u32 %r2, %r1, 1;"), "ballot"));
  const std::string function = ".func f(.param .b32 n)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<2>;\n" +
                               guard + "@%p1 ret;\n" + barriers + "ret;\n}\n";
  const std::string called = text("{.param .b32 a;\nst.param.b32 [a], 1;\ncall f, (a);}", function);
  EXPECT_TRUE(Has(called, kOfLive));
  EXPECT_FALSE(Has(called, "ballot"));
  // Instructions of a warp want 32.
  const std::string matrix =
      text(guard + "@%p1 ret;\n" + barriers + "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r1;");
  EXPECT_GT(ChecksOf(matrix), 0);
  EXPECT_EQ(matrix.find("wlg_live"), std::string::npos);
}

// A loop of a whole warp goes on while all lanes have iterations left.
TEST(RewriteTest, LanesOfAWholeWarpVoteOnTheirLoop) {
  const std::string loop =
      "mov.u32 %r3, 0;\nL:\nmovmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;\n"
      "add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, 9;\n@%p1 bra L;";
  const std::string text = TextOf(Kernel(loop), {.arena_bits = 36, .hardened = true});
  EXPECT_EQ(ChecksOf(text), 1);
  EXPECT_TRUE(Has(text,
                  "\tvote.sync.any.pred wlg_pu, %p1, -1;\n"
                  "\tsetp.gt.and.s32 wlg_pl, wlg_n, 0, wlg_pu;\n"
                  "\tvote.sync.all.pred wlg_pl, wlg_pl, -1;\n\t@wlg_pl bra wlg_w"));
  EXPECT_TRUE(Has(text, "\tvote.sync.any.pred wlg_ps, wlg_ps, -1;\n\t@wlg_ps exit;\n"));
  EXPECT_TRUE(Has(text, "\tselp.b32 wlg_n, 8191, 1, wlg_ps;\n\tnanosleep.u32 wlg_t;\n"));
}

// How many blocks a grid of the kernel may have that does not ask whether to stop; 0 if it always
// does, or never.
int64_t UnaskedBlocks(const std::string& text) {
  constexpr std::string_view kCompare = "\tsetp.le.u32 wlg_ps, wlg_t, ";
  const size_t at = text.find(kCompare);
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + kCompare.size());
}

TEST(RewriteTest, BlocksOfLargeGridsAskWhereTheyBegin) {
  const RewriteOptions hardened = {.arena_bits = 36, .hardened = true};
  const std::string store = Kernel("st.global.u32 [%rd1], %r1;");
  EXPECT_TRUE(Has(TextOf(store, hardened),
                  "\tld.param.b32 wlg_base, [wlg_off];\n\tld.param.b32 wlg_t, [wlg_launch+8];\n"));
  EXPECT_TRUE(Has(TextOf(store, hardened), "\t@wlg_ps exit;\nwlg_entered:\n"));
  EXPECT_EQ(UnaskedBlocks(TextOf(store)), 0);
  // Before what a kernel does first in any case, and not in the functions that it calls.
  const std::string text = TextOf(
      Kernel(".local .b32 l;\ncall f, ();\nld.shared.u32 %r1, [%r2];\nst.local.u32 [l], %r1;",
             ".func f()\n{\nret;\n}"),
      hardened);
  EXPECT_TRUE(Has(text, "\tcall f"));
  EXPECT_LT(text.find("wlg_entered:"), text.find("wlg_zero:"));
  EXPECT_LT(text.find("wlg_entered:"), text.find("st.local"));
  EXPECT_EQ(text.find("[wlg_launch+12]"), text.rfind("[wlg_launch+12]"));
}

TEST(RewriteTest, BlocksThatMayTakeLongAskInSmallerGrids) {
  const auto blocks = [](const std::string& code) {
    return UnaskedBlocks(TextOf(Kernel(code), {.arena_bits = 36, .hardened = true}));
  };
  EXPECT_EQ(blocks("add.u32 %r1, %r2, 1;"), 1 << 20);
  std::string sleeps;
  for (int i = 0; i < 8; ++i) sleeps += "nanosleep.u32 1000000;\n";
  EXPECT_LE(blocks(sleeps), 1 << 8);
  EXPECT_GT(blocks(sleeps), 1 << 7);
  // With a loop, what a thread may execute until it first asks, which it does after 63 iterations.
  const int64_t looping = blocks("L:\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra L;");
  EXPECT_GT(looping, 1 << 17);
  EXPECT_LT(looping, 1 << 19);
}

TEST(RewriteTest, FunctionsThatAreCalledBeginWithoutIterations) {
  const std::string text = TextOf(
      Kernel("call f, ();\nL:\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra L;",
             ".func f()\n{\n.reg .pred %p<2>;\nL:\nsetp.lt.u32 %p1, 1, 9;\n@%p1 bra L;\nret;\n}"),
      {.arena_bits = 36, .hardened = true});
  EXPECT_TRUE(Has(text, "\tmov.b32 wlg_n, 0;\n"));
  EXPECT_TRUE(Has(text, "\tmov.b32 wlg_n, 63;\n"));
  EXPECT_FALSE(Has(text, "\tmov.b32 wlg_n, 1;\n"));
}

TEST(RewriteTest, ALaunchsWordsNeedRoomAmongTheParameters) {
  const auto kernel = [](int bytes) {
    return absl::StrCat(".version 8.1\n.target sm_90\n.address_size 64\n.entry k(.param .b8 p[",
                        bytes, "])\n{\nret;\n}\n");
  };
  EXPECT_EQ(RefusalOf(kernel(32'728)), "");
  EXPECT_EQ(RefusalOf(kernel(32'729)), "line 4: too many bytes of parameters");
}

TEST(RewriteTest, RefusesBlocksThatAreTooLarge) {
  const auto kernel = [](const std::string& directive) {
    return ".version 8.0\n.target sm_90\n.address_size 64\n.entry k()\n" + directive +
           "\n{\nret;\n}\n";
  };
  EXPECT_EQ(RefusalOf(kernel(".maxntid 1024, 1, 1")), "");
  EXPECT_EQ(RefusalOf(kernel(".maxntid 1025, 1, 1")), "blocks of more threads than there can be");
  EXPECT_EQ(RefusalOf(kernel(".reqntid 4294967297")), "blocks of more threads than there can be");
}

TEST(RewriteTest, PutsVariablesIntoTheArena) {
  const std::string declarations =
      ".global .align 4 .b8 a[6] = {1, 2};\n.global .u64 b = a+4;\n.extern .global .u32 c;\n";
  const auto guarded = Guarded(Kernel("mov.u64 %rd1, b;\nst.global.u32 [a+4], %r1;", declarations));
  ASSERT_TRUE(guarded.ok()) << guarded.status();
  const std::string text = ptx::Print(guarded->module);
  EXPECT_TRUE(Has(text, "\tadd.s64 %rd1, wlg_globals, 8;\n"));
  EXPECT_TRUE(Has(text, "\tadd.s64 wlg_x, wlg_globals, 4;\n"));
  EXPECT_EQ(text.find(".global ."), std::string::npos);
  ASSERT_EQ(guarded->layout.relocations.size(), 1u);
  EXPECT_EQ(guarded->layout.relocations[0].offset, 8u);
  EXPECT_EQ(guarded->layout.globals_bytes, 16u);
  uint64_t b = 0;
  std::memcpy(&b, guarded->layout.globals_image.data() + 8, 8);
  EXPECT_EQ(b, 4u);
  EXPECT_EQ(RefusalOf(Kernel("mov.u64 %rd1, c;", declarations)),
            "line 13: 'c' is of another module: mov.u64 %rd1, c;");
}

TEST(RewriteTest, PutsConstantsBehindTheGuardsWords) {
  const std::string text =
      TextOf(Kernel("ld.const.u32 %r1, [c+4];\nld.const.u32 %r2, [%rd1];\nmov.u64 %rd2, c;",
                    ".const .u32 c[2] = {5, 6};"));
  EXPECT_TRUE(Has(text, ".const .align 128 .b8 wlg_const[72] = {0, "));
  EXPECT_TRUE(Has(text, ", 0, 5, 0, 0, 0, 6};\n"));
  EXPECT_TRUE(Has(text, "\tld.const.u32 %r1, [wlg_const+68];\n"));
  EXPECT_TRUE(Has(text, "\tmin.u64 wlg_off, wlg_off, 68;\n"));
  EXPECT_TRUE(Has(text, "\tadd.s64 %rd2, wlg_consts, 64;\n"));
}

TEST(RewriteTest, RefusesTooManyConstants) {
  EXPECT_EQ(RefusalOf(Kernel("", ".const .b8 c[65500];")),
            "the module has 65500 bytes of constants; 65472 are left beside the guard's");
}

// Every function's locals have a place of their own in what the kernel declares.
TEST(RewriteTest, GivesEachFunctionAPartOfTheKernelsLocals) {
  const std::string text = TextOf(Kernel(
      ".local .align 8 .b8 mine[40];\nmov.u64 %rd1, mine;\nst.local.u32 [mine+36], %r1;\ncall f;",
      ".func f()\n{\n.local .b32 its;\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n"
      "ld.local.u32 %r1, [its];\nld.local.u32 %r1, [%rd1];\nret;\n}\n"));
  EXPECT_TRUE(Has(text, "\t.local .align 16 .b8 wlg_locals[64];\n"));
  EXPECT_TRUE(Has(text, "\tadd.s64 %rd1, wlg_local, 0;\n"));
  EXPECT_TRUE(Has(text, "\tst.local.u32 [wlg_local+36], %r1;\n"));
  EXPECT_TRUE(Has(text, "\tst.param.b64 [wlg_pass], wlg_local;\n\tcall f, (wlg_pass);\n"));
  EXPECT_TRUE(Has(text, ".func f (.param .b64 wlg_depot)\n"));
  EXPECT_TRUE(Has(text, "\tld.local.u32 %r1, [wlg_local+48];\n"));
  EXPECT_TRUE(Has(text, "\tsub.s64 wlg_off, %rd1, wlg_local;\n\tmin.u64 wlg_off, wlg_off, 60;\n"));
}

TEST(RewriteTest, NamesOfBlocksBecomeUnique) {
  const std::string text =
      TextOf(Kernel("{\n.reg .b32 t;\nmov.u32 t, 1;\nbra L;\nL:\n}\n"
                    "{\n.reg .b32 t;\n.reg .b32 %r<2>;\nmov.u32 t, %r1;\nbra L;\nL:\n}\n"));
  EXPECT_TRUE(Has(text, "\tmov.u32 t$1, 1;\n\tbra L$1;\nL$1:\n"));
  EXPECT_TRUE(Has(text, "\tmov.u32 t$2, %r$2_1;\n\tbra L$2;\nL$2:\n"));
  EXPECT_EQ(text.find("\t{\n"), std::string::npos);
}

TEST(RewriteTest, ATrapEndsTheThread) {
  const std::string text = TextOf(Kernel("@%p1 trap;\nbrkpt;"));
  EXPECT_TRUE(Has(text,
                  "\t@!%p1 bra $guard_after_0;\n\tst.param.b32 [$guard_line], 10;\n"
                  "\tcall $guard_trap, ($guard_line);\n\texit;\n$guard_after_0:\n"));
  EXPECT_TRUE(Has(text, "\tst.param.b32 [$guard_line], 11;\n"));
}

TEST(RewriteTest, DropsHintsAndTheTenantsPromises) {
  const std::string text = TextOf(
      ".version 8.0\n.target sm_90, debug\n.address_size 64\n"
      ".visible .entry k(.param .u64 .ptr .global .align 16 p0)\n.maxntid 32, 1, 1\n.noreturn\n{\n"
      ".reg .b64 %rd<2>;\nprefetch.global.L2 [%rd1];\ndiscard.global.L2 [%rd1], 128;\n"
      ".pragma \"nounroll\";\n.pragma \"other\";\nret;\n}\n");
  EXPECT_TRUE(Has(text, ".target sm_90\n"));
  EXPECT_TRUE(Has(text,
                  ".visible .entry k (.param .u64 p0, .param .align 8 .b8 wlg_launch[32])\n"
                  ".maxntid 32, 1, 1\n{\n"));
  EXPECT_TRUE(Has(text, "\t.pragma \"nounroll\";\n\tret;\n"));
  EXPECT_EQ(text.find("other"), std::string::npos);
  EXPECT_EQ(text.find("prefetch"), std::string::npos);
  EXPECT_EQ(text.find("discard"), std::string::npos);
}

// One that cannot be guarded leaves the others as they are.
TEST(RewriteTest, RefusesKernelByKernel) {
  const auto guarded = Guarded(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".func bad()\n{\n.reg .b64 %rd<2>;\nld.global.u32 %rd1, [64];\nret;\n}\n"
      ".func worse()\n{\ncall bad;\nret;\n}\n"
      ".entry first()\n{\ncall worse;\nret;\n}\n.entry second()\n{\nret;\n}\n");
  ASSERT_TRUE(guarded.ok());
  EXPECT_EQ(guarded->kernels, std::vector<std::string>{"second"});
  ASSERT_EQ(guarded->refusals.size(), 1u);
  EXPECT_EQ(guarded->refusals[0].kernel, "first");
  EXPECT_EQ(guarded->refusals[0].function, "bad");
  EXPECT_EQ(guarded->refusals[0].reason, "line 7: an absolute address: ld.global.u32 %rd1, [64];");
}

// A kernel that calls `f`, which calls itself.
std::string Recursive(const std::string& declarations, const std::string& body,
                      const std::string& call = "call f, ();") {
  return Kernel("call f, ();", ".func f()\n{\n.reg .b32 %r<9>;\n" + declarations + body + "\n" +
                                   call + "\nmov.u32 %r1, 1;\nret;\n}\n");
}

// How many levels a module's function `f` has.
int LevelsOf(const std::string& text) {
  int levels = 0;
  while (text.find(absl::StrCat(".func $guard_level", levels + 1, "_f (")) != std::string::npos) {
    ++levels;
  }
  return levels + 1;
}

TEST(RewriteTest, AFunctionThatCallsItselfBecomesLevels) {
  const std::string text = TextOf(Recursive("", ""));
  EXPECT_TRUE(Has(text, ".func $guard_level15_f ();\n"));
  EXPECT_TRUE(Has(text, ".func f ()\n{\n\t.reg .b32 %r<9>;\n\tcall $guard_level1_f, ();\n"));
  EXPECT_TRUE(Has(text, "\tcall $guard_level15_f, ();\n"));
  EXPECT_TRUE(Has(text,
                  "\tst.param.b32 [$guard_deep_line], 8;\n"
                  "\tst.param.b32 [$guard_deep_levels], 16;\n"
                  "\tcall $guard_too_deep, ($guard_deep_line, $guard_deep_levels);\n\texit;\n}\n"));
  EXPECT_EQ(text.find("level16"), std::string::npos);
  EXPECT_EQ(LevelsOf(text), 16);
}

TEST(RewriteTest, FunctionsThatCallEachOtherBecomeLevels) {
  const std::string text = TextOf(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".func b();\n.visible .func a()\n{\ncall b;\nret;\n}\n.func b()\n{\ncall a;\nret;\n}\n"
      ".entry k()\n{\ncall a;\nret;\n}\n");
  EXPECT_TRUE(Has(text, ".visible .func a ()\n{\n\tcall $guard_level1_b;\n"));
  EXPECT_TRUE(Has(text, "\n.func $guard_level2_a ()\n{\n\tcall $guard_level3_b;\n"));
  // What no kernel reaches is not there.
  EXPECT_EQ(text.find("$guard_level1_a"), std::string::npos);
  EXPECT_EQ(text.find("func b"), std::string::npos);
}

TEST(RewriteTest, LongFunctionsHaveFewerLevels) {
  const auto statements = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "mov.u32 %r1, 1;\n";
    return text;
  };
  EXPECT_EQ(LevelsOf(TextOf(Recursive("", statements(1000)))), 9);
  EXPECT_EQ(LevelsOf(TextOf(Recursive("", statements(10'000)))), 3);
  EXPECT_EQ(RefusalOf(Recursive("", statements(17'000))),
            "it calls itself, and its copies would have too many statements");
}

TEST(RewriteTest, FunctionsWithManyLocalsHaveFewerLevels) {
  EXPECT_EQ(LevelsOf(TextOf(Recursive(".local .b8 a[500];\n", ""))), 8);
  EXPECT_EQ(LevelsOf(TextOf(Recursive(".local .b8 a[20000];\n", ""))), 3);
  EXPECT_EQ(RefusalOf(Recursive(".local .b8 a[30000];\n", "")),
            "it calls itself, and its copies would need too much local memory");
}

TEST(RewriteTest, FunctionsThatCallThemselvesOftenHaveFewerLevels) {
  const std::string call = "call f, ();\n";
  EXPECT_EQ(LevelsOf(TextOf(Recursive("", "", call + call))), 11);
  EXPECT_EQ(LevelsOf(TextOf(Recursive("", "", call + call + call + call))), 5);
  // What it calls counts as well.
  std::string many;
  for (int i = 0; i < 1000; ++i) many += call;
  EXPECT_EQ(LevelsOf(TextOf(Recursive("", "", many))), 3);
  EXPECT_EQ(RefusalOf(Recursive("", "", many), {.arena_bits = 36, .hardened = true}),
            "it calls so many functions that it may not be stopped in time");
}

TEST(RewriteTest, RefusesRecursionThatCopiesWouldChange) {
  EXPECT_EQ(RefusalOf(Recursive(".shared .b32 a;\n", "")),
            "it calls itself and has a variable in shared memory");
  EXPECT_EQ(RefusalOf(".version 8.0\n.target sm_90\n.address_size 64\n"
                      ".entry k();\n.func f()\n{\ncall k;\nret;\n}\n"
                      ".entry k()\n{\ncall f;\nret;\n}\n"),
            "it calls 'f', which may call itself");
}

// Neither does the search for circles call itself once for each function.
TEST(RewriteTest, RefusesAVeryLongCircle) {
  constexpr int kFunctions = 20'000;
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n.func f0();\n";
  for (int i = kFunctions - 1; i >= 0; --i) {
    absl::StrAppend(&text, ".func f", i, "()\n{\ncall f", (i + 1) % kFunctions, ";\nret;\n}\n");
  }
  EXPECT_EQ(RefusalOf(text + ".entry k()\n{\ncall f7;\nret;\n}\n"),
            "it calls itself, and its copies would have too many statements");
}

TEST(RewriteTest, RefusesReservedNames) {
  for (const char* const text : {".reg .b32 wlg_base;", "wlg_l:"}) {
    EXPECT_EQ(RefusalOf(Kernel(text)), "the module has a name that begins with wlg_ or $guard_")
        << text;
  }
  EXPECT_EQ(RefusalOf(Kernel("", ".global .u32 wlg_const;")),
            "the module has a name that begins with wlg_ or $guard_");
}

TEST(RewriteTest, RefusesModulesOfAnotherWidth) {
  EXPECT_EQ(RefusalOf(".version 8.0\n.target sm_90\n.address_size 32\n"),
            "the module has addresses of 32 bits");
  EXPECT_EQ(RefusalOf(Kernel(""), {.arena_bits = 31}), "an arena has 2^32 to 2^47 bytes");
}

TEST(RewriteTest, DoesNotDependOnTheOrderOfDeclarations) {
  EXPECT_TRUE(Has(TextOf(Kernel("call later;", ".func later();") + ".func later()\n{\nret;\n}\n"),
                  ".func later ();\n"));
}

}  // namespace
}  // namespace warpline::guard
