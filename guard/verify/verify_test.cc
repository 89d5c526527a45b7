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
#include "guard/verify/verify_testing.h"

namespace warpline::guard {
namespace {

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
      "ld.param.b32 %r1, [wlg_launch]",
      "ld.param.b32 %r1, [wlg_launch+8]",
      "ld.param.b32 wlg_t, [wlg_launch+8]",
      "mov.b64 %rd1, wlg_launch",
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
    const std::string good = Module({absl::StrCat("mov.b32 ", name, ", 2")});
    const std::string once = Replaced(good, "\tmov.b32 %r2, 1;\n", "");
    const std::string text = Replaced(once, "\t.reg .b32 %r<9>;\n", both);
    EXPECT_EQ(Verify(text, kPlain).ok(), std::string_view(name) == "%r1");
  }
}

// A module with an entry whose registers nobody has written, but for %p1 and %r1.
std::string Unwritten(const Statements& statements) {
  return absl::StrCat(kPreamble, kEntry, "{\n", kRegisters, kVariables,
                      "\tmov.pred %p1, 0;\n\tmov.b32 %r1, 1;\n", Body(statements), "\tret;\n}\n");
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
           {"barrier.red.popc.u32 %r2, 0, %p1", "add.s32 %r3, %r2, 1"},
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
           {"barrier.sync %r2"},
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
        "\tmov.b32 %r1, 1;\n\tst.local.v4.b32 [wlg_locals+32], {0, 0, 0, 0};\n"}) {
    ExpectRefused(Replaced(good, zero, other), kPlain);
  }
}

TEST(Verify, RefusesPrologues) {
  const std::string good = Module(Joined({kArena, {"st.global.b32 [wlg_at], %r1"}}));
  const struct {
    const char* from;
    const char* to;
  } cases[] = {
      {"\tld.param.b32 wlg_base, [wlg_off];\n", ""},
      {"\tld.param.b32 wlg_base, [wlg_off];\n", "\tld.const.b32 wlg_base, [wlg_const+4];\n"},
      {"\tld.param.b32 wlg_base, [wlg_off];\n", "\t@%p1 ld.param.b32 wlg_base, [wlg_off];\n"},
      {"\tld.param.b32 wlg_base, [wlg_off];\n", "L:\n\tld.param.b32 wlg_base, [wlg_off];\n"},
      {"\tld.param.b32 wlg_base, [wlg_off];\n",
       "\tmov.u32 %r1, 0;\n\tld.param.b32 wlg_base, [wlg_off];\n"},
      {"\tld.param.b32 wlg_base, [wlg_off];\n",
       "\tld.param.b32 wlg_base, [wlg_off];\n\tld.param.b32 wlg_base, [wlg_off];\n"},
      {"\tand.b32 wlg_t, wlg_t, 1;\n", ""},
      {"\tand.b32 wlg_t, wlg_t, 1;\n", "\tand.b32 wlg_t, wlg_t, 3;\n"},
      {"\tshl.b32 wlg_t, wlg_t, 2;\n", "\tshl.b32 wlg_t, wlg_t, 3;\n"},
      {"\tmov.u32 wlg_t, %laneid;\n", "\tmov.u32 wlg_t, %tid.y;\n"},
      {"\tadd.s64 wlg_off, wlg_off, wlg_at;\n", ""},
      {"\tmov.b64 wlg_at, wlg_launch;\n",
       "\tmov.b64 wlg_at, wlg_launch;\n\tmov.b64 wlg_consts, wlg_const;\n"},
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

// ptxas must not know that the word is the same for all lanes.
TEST(Verify, TheArenasWordIsReadByLaneOrByAThreadsPlaceInItsRow) {
  const std::string text =
      Replaced(Module({}), "\tmov.u32 wlg_t, %laneid;\n", "\tmov.u32 wlg_t, %tid.x;\n");
  ExpectAccepted(text, kPlain);
  const std::string wide = ".maxntid 256, 1, 1\n";
  ExpectAccepted(Replaced(text, wide, ".maxntid 2\n"), kPlain);
  for (const char* const narrow : {".maxntid 1\n", ".reqntid 1, 256, 1\n", ".maxntid 0, 256\n",
                                   ".maxntid 256, 1, 1\n.reqntid 1, 256\n"}) {
    ExpectRefused(Replaced(text, wide, narrow), kPlain);
    ExpectAccepted(Replaced(Module({}), wide, narrow), kPlain);
  }
  const auto called = [&wide](const std::string& entry) {
    return absl::StrReplaceAll(entry, {{kEntry, ".func k ()\n"},
                                       {wide, ""},
                                       {kVariables, ""},
                                       {kLocals, ""},
                                       {kLocalPrologue, ""},
                                       {kZeroLocals, ""},
                                       {kWriteParameters, ""},
                                       {"mov.b64 wlg_at, wlg_launch", "mov.b64 wlg_at, wlg_const"},
                                       {"ld.param.b32 wlg_base", "ld.const.b32 wlg_base"},
                                       {"\tmov.b64 wlg_params, p;\n", ""}});
  };
  const std::string function = called(Module({}));
  ExpectAccepted(function, kPlain);
  // A function has no launch's parameters.
  ExpectRefused(Replaced(function, "wlg_at, wlg_const", "wlg_at, wlg_launch"), kPlain);
  ExpectRefused(Replaced(function, "ld.const.b32 wlg_base", "ld.param.b32 wlg_base"), kPlain);
  ExpectRefused(called(text), kPlain);
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
      {"\tld.param.b32 wlg_base, [wlg_off];\n",
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
      {", " WARPLINE_LAUNCH, ""},
      {WARPLINE_LAUNCH, ".param .align 8 .b8 wlg_launch[24]"},
      {WARPLINE_LAUNCH, ".param .align 16 .b8 wlg_launch[32]"},
      {WARPLINE_LAUNCH, ".param .align 8 .b32 wlg_launch[32]"},
      {WARPLINE_LAUNCH, ".param .align 8 .b8 launch[24]"},
      {WARPLINE_LAUNCH, WARPLINE_LAUNCH ", .param .b32 m"},
      {"mov.b64 wlg_params, p;", "mov.b64 wlg_params, wlg_launch;"},
      {"mov.b64 wlg_at, wlg_launch;", "mov.b64 wlg_at, wlg_const;"},
      {"ld.param.b32 wlg_base, [wlg_off];", "ld.const.b32 wlg_base, [wlg_off];"},
      {".maxntid 256, 1, 1\n", ".noreturn\n"},
      {".maxntid 256, 1, 1\n", ".maxntid 256,1,1\n"},
      {".maxntid 256, 1, 1\n", ".maxntid\n"},
      {".maxntid 256, 1, 1\n", ".maxntid 1025\n"},
      {".maxntid 256, 1, 1\n", ".reqntid 4294967297, 1, 1\n"},
      {".maxntid 256, 1, 1\n", ".pragma \"nounroll\";\n"},
      {".maxntid 256, 1, 1\n", "\n"},
      {"\tret;\n}\n", "\tret;\n"},
      {"\tret;\n}\n", "\tret;\n}"},
      {"\tret;\n}\n", "\tret;\n}\n{\n}\n"},
      {"\tret;\n}\n", "\tret;\n}\n.visible .entry k (" WARPLINE_LAUNCH ")\n{\n\tret;\n}\n"},
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
  ExpectAccepted(
      absl::StrCat(kPreamble, ".entry k (" WARPLINE_LAUNCH ")\n.explicitcluster\n{\n\tret;\n}\n"),
      kPlain);
}

TEST(Verify, LocalsAreEquallyLargeInAllEntries) {
  const std::string second =
      absl::StrCat(".entry k2 (" WARPLINE_LAUNCH ")\n{\n", kLocals, kZeroLocals, "\tret;\n}\n");
  const std::string good = Module({});
  ExpectAccepted(absl::StrCat(good, second), kPlain);
  ExpectAccepted(absl::StrCat(good, ".entry k2 (" WARPLINE_LAUNCH ")\n{\n\tret;\n}\n"), kPlain);
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
  const std::string good =
      absl::StrCat(kPreamble, ".func f1 ()\n{\n\tret;\n}\n",
                   ".entry k (" WARPLINE_LAUNCH ")\n{\n\tcall f1;\n\tret;\n}\n");
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
  const std::string text =
      absl::StrCat(kPreamble, ".entry k (" WARPLINE_LAUNCH ")\n{\n\ttrap;\n\tret;\n}\n");
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
