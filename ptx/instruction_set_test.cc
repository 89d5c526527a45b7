#include "ptx/instruction_set.h"

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ptx/parser.h"

namespace warpline::ptx {
namespace {

// The instructions of a function body.
std::vector<Instruction> ParseBody(std::string_view body) {
  const absl::StatusOr<Module> module = Parse(absl::StrCat(
      ".version 8.0\n.target sm_90\n.address_size 64\n.func f() {", std::string(body), "\n}"));
  std::vector<Instruction> instructions;
  if (!module.ok()) {
    ADD_FAILURE() << module.status().message() << ": " << body;
    return instructions;
  }
  for (const Statement& statement : std::get<Function>(module->items[0]).body) {
    const auto* const instruction = std::get_if<Instruction>(&statement.node);
    if (instruction != nullptr) instructions.push_back(*instruction);
  }
  return instructions;
}

Verdict VerdictOf(std::string_view text) {
  Description description;
  return Describe(ParseBody(text).at(0), &description);
}

struct Expected {
  const char* text;
  std::vector<MemoryAccess> accesses;
};

TEST(InstructionSetTest, AccessesHaveSpaceDirectionAndSize) {
  using Kind = AccessKind;
  using Space = StateSpace;
  const std::vector<Expected> cases = {
      {"ld.global.u32 %r1, [%l1+4];", {{1, Kind::kRead, Space::kGlobal, 4}}},
      {"ld.volatile.shared::cta.v4.f32 {%f1,%f2,%f3,%f4}, [%r1];",
       {{1, Kind::kRead, Space::kShared, 16}}},
      {"ld.relaxed.sys.global.L1::no_allocate.L2::cache_hint.v2.b64 {%l1,%l2}, [%l3], %l4;",
       {{1, Kind::kRead, Space::kGlobal, 16}}},
      {"ld.const.b8 %rs1, [table+3];", {{1, Kind::kRead, Space::kConst, 1}}},
      {"ld.global.v8.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, [%l1];",
       {{1, Kind::kRead, Space::kGlobal, 32}}},
      {"st.u16 [%l1], %rs1;", {{0, Kind::kWrite, Space::kGeneric, 2}}},
      {"st.param.b64 [p+8], %l1;", {{0, Kind::kWrite, Space::kParam, 8}}},
      {"st.shared::cluster.u32 [%r1], 0;", {{0, Kind::kWrite, Space::kSharedCluster, 4}}},
      {"atom.acq_rel.gpu.global.cas.b64 %l1, [%l2], %l3, %l4;",
       {{1, Kind::kUpdate, Space::kGlobal, 8}}},
      {"atom.add.noftz.f16x2 %r1, [%l2], %r3;", {{1, Kind::kUpdate, Space::kGeneric, 4}}},
      {"red.global.add.v2.f32 [%l2], {%f1,%f2};", {{0, Kind::kUpdate, Space::kGlobal, 8}}},
      {"cp.async.cg.shared.global.L2::128B [%r1], [%l1], 16, %r2;",
       {{0, Kind::kWrite, Space::kShared, 16}, {1, Kind::kRead, Space::kGlobal, 16}}},
      {"cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];", {{0, Kind::kUpdate, Space::kShared, 8}}},
      {"mbarrier.init.shared::cta.b64 [%r1], 32;", {{0, Kind::kWrite, Space::kShared, 8}}},
      {"mbarrier.arrive.b64 %l1, [%l2], 3;", {{1, Kind::kUpdate, Space::kGeneric, 8}}},
      {"mbarrier.arrive.shared.b64 [%r2];", {{0, Kind::kUpdate, Space::kShared, 8}}},
      {"mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2, %r3;",
       {{1, Kind::kRead, Space::kShared, 8}}},
      {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1,%r2,%r3,%r4}, [%r5];",
       {{1, Kind::kRead, Space::kShared, 16}}},
      // The rows lie a stride apart, and a register may hold the stride.
      {"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1,%r2}, [%l1], %r3;",
       {{1, Kind::kRead, Space::kGlobal, 0}}},
      {"wmma.store.d.sync.aligned.col.m16n16k16.f32 [%l1], {%f1}, 16;",
       {{0, Kind::kWrite, Space::kGeneric, 0}}},
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%l1], %r2, "
       "[%r3];",
       {{0, Kind::kWrite, Space::kSharedCluster, 0},
        {1, Kind::kRead, Space::kGlobal, 0},
        {3, Kind::kUpdate, Space::kGeneric, 0}}},
      {"cp.async.bulk.global.shared::cta.bulk_group [%l1], [%r1], 64;",
       {{0, Kind::kWrite, Space::kGlobal, 0}, {1, Kind::kRead, Space::kShared, 0}}},
      {"mbarrier.arrive.expect_tx.shared.b64 %l1, [%r1], 4;",
       {{1, Kind::kUpdate, Space::kShared, 8}}},
      {"discard.global.L2 [%l1], 128;", {{0, Kind::kWrite, Space::kGlobal, 128}}},
      {"prefetch.global.L2::evict_last [%l1];", {{0, Kind::kNone, Space::kGlobal, 0}}},
      {"add.s32 %r1, %r2, 3;", {}},
      {"mov.u64 %l1, variable;", {}},
      {"call (r), f, (p);", {}},
  };
  for (const Expected& expected : cases) {
    Description description;
    const std::vector<Instruction> body = ParseBody(expected.text);
    ASSERT_EQ(Describe(body.at(0), &description), Verdict::kKnown) << expected.text;
    ASSERT_EQ(description.accesses().size(), expected.accesses.size()) << expected.text;
    for (size_t i = 0; i < expected.accesses.size(); ++i) {
      const MemoryAccess& access = description.accesses()[i];
      EXPECT_EQ(access.operand, expected.accesses[i].operand) << expected.text;
      EXPECT_EQ(access.kind, expected.accesses[i].kind) << expected.text;
      EXPECT_EQ(access.space, expected.accesses[i].space) << expected.text;
      EXPECT_EQ(access.bytes, expected.accesses[i].bytes) << expected.text;
    }
  }
}

TEST(InstructionSetTest, WhatIsNotInTheTableIsUnknown) {
  constexpr char kTensor[] =
      "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%l1, "
      "{%r2}], [%r3];";
  for (const char* const text : {
           "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%l1, {%f4,%f5}];",
           kTensor,
           "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%l1], [%r1], %r2;",
           "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
           "multimem.ld_reduce.global.add.u32 %r1, [%l1];",
           "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 4;",
           "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1}, %l1, %l2, %r1, 0, %p1, 1, "
           "1;",
           "stackrestore.u64 %l1;",
           "broadcast.b32 %r1;",
           "bar %r1;",
       }) {
    EXPECT_EQ(VerdictOf(text), Verdict::kUnknown) << text;
  }
}

TEST(InstructionSetTest, ModifiersThatAnAccessDoesNotHaveAreUnknown) {
  for (const char* const text : {
           "ld.global.surprise.u32 %r1, [%l1];",
           "ld.global.shared.u32 %r1, [%l1];",
           "ld.global %r1, [%l1];",
           "ld.u32.global %r1, [%l1];",
           "ld.global.add.u32 %r1, [%l1];",
           "atom.global.add.min.u32 %r1, [%l1], 1;",
           "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1,%r2}, [%r5];",
       }) {
    EXPECT_EQ(VerdictOf(text), Verdict::kUnknown) << text;
  }
}

TEST(InstructionSetTest, OperandsAreThoseOfTheRow) {
  for (const char* const text : {
           "ld.global.u32 %r1, %l1;",
           "ld.global.u32 [%l1], %r1;",
           "st.global.u32 %l1, [%r1];",
           "st.global.u32 [%l1];",
           "add.u32 %r1, %r2;",
           "add.u32 %r1, [%l1], %r2;",
           "lop3.b32 %r1, %r2, %r3, %r4, %r5;",
           "cp.async.ca.shared.global [%r1], [%l1], %r2;",
           "ret %r1;",
           "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1}, %l1, %l2;",
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, %l1, %l2, %p1, 1, 1, 0, 0, 0;",
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, %l1, %l2, %p1, %r1;",
       }) {
    EXPECT_EQ(VerdictOf(text), Verdict::kWrongOperands) << text;
  }
}

TEST(InstructionSetTest, WarpgroupMultipliesHaveFourToEightOperands) {
  for (const char* const text : {
           "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1}, %l1, %l2, %p1;",
           "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f1}, %l1, %l2, %p1, 1, -1;",
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, {%r1}, %l2, %p1, 1, 1, 0;",
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, %l1, %l2, %p1, 1, 1, 0, 1;",
       }) {
    EXPECT_EQ(VerdictOf(text), Verdict::kKnown) << text;
  }
}

TEST(InstructionSetTest, RolesFollowWhatIsLeftOut) {
  const auto roles = [](std::string_view text) {
    Description description;
    const std::vector<Instruction> body = ParseBody(text);
    EXPECT_EQ(Describe(body.at(0), &description), Verdict::kKnown) << text;
    return std::vector<Role>(description.roles().begin(), description.roles().end());
  };
  EXPECT_EQ(
      roles("setp.lt.and.s32 %p1|%p2, %r1, 4, !%p3;"),
      (std::vector<Role>{Role::kDestination, Role::kSource, Role::kSource, Role::kPredicate}));
  EXPECT_EQ(roles("bar.red.popc.u32 %r1, 0, %p1;"),
            (std::vector<Role>{Role::kDestination, Role::kSource, Role::kPredicate}));
  EXPECT_EQ(
      roles("barrier.cta.red.or.pred %p2, %r1, 64, %p1;"),
      (std::vector<Role>{Role::kDestination, Role::kSource, Role::kSource, Role::kPredicate}));
  EXPECT_EQ(roles("call f, (a), proto;"),
            (std::vector<Role>{Role::kTarget, Role::kList, Role::kTarget}));
  EXPECT_EQ(roles("lop3.b32 %r1, %r2, %r3, %r4, 0x96;").back(), Role::kImmediate);
}

TEST(InstructionSetTest, NamesInTheTableAreUnique) {
  std::set<std::string_view> names;
  for (const InstructionRow& row : InstructionRows()) {
    EXPECT_TRUE(names.insert(row.mnemonic).second) << row.mnemonic;
  }
}

// The parser's own test files contain one texture fetch.
TEST(InstructionSetTest, CorpusOfTheParserIsKnown) {
  std::set<std::string> unknown;
  for (const char* const path : {"ptx/corpus/body.ptx", "ptx/corpus/declarations.ptx"}) {
    std::ifstream in(path);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const absl::StatusOr<Module> module = Parse(text);
    ASSERT_TRUE(module.ok()) << path;
    for (const auto& item : module->items) {
      const auto* const function = std::get_if<Function>(&item);
      if (function == nullptr) continue;
      for (const Statement& statement : function->body) {
        const auto* const instruction = std::get_if<Instruction>(&statement.node);
        Description description;
        if (instruction != nullptr && Describe(*instruction, &description) != Verdict::kKnown) {
          unknown.insert(instruction->opcode);
        }
      }
    }
  }
  EXPECT_EQ(unknown, std::set<std::string>{"tex"});
}

}  // namespace
}  // namespace warpline::ptx
