// Compares the table of instructions with what lowering does: neither may have what the other
// lacks.
#include "server/device/cpu/lowering/lowering.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ptx/instruction_set.h"
#include "ptx/parser.h"
#include "ptx/printer.h"
#include "server/device/cpu/alu/alu.h"
#include "server/device/cpu/lowering/module_symbols.h"

namespace warpline::cpu {
namespace {

// One example for each row that is not arithmetic; those are built from the ALU's own table.
const std::map<std::string_view, std::string_view> kExamples = {
    {"mov", "mov.u32 %r1, %tid.x"},
    {"setp", "setp.lt.and.s32 %p1, %r1, 4, !%p2"},
    {"set", "set.eq.u32.u32 %r1, %r2, %r3"},
    {"cvt", "cvt.rn.f32.s32 %f1, %r1"},
    {"cvta", "cvta.to.global.u64 %l1, %l2"},
    {"isspacep", "isspacep.shared %p1, %l1"},
    {"ld", "ld.global.v2.u32 {%r1, %r2}, [%l1+8]"},
    {"ldu", "ldu.global.u32 %r1, [%l1]"},
    {"st", "st.shared.u32 [%r1], %r2"},
    {"atom", "atom.global.add.u32 %r1, [%l1], 1"},
    {"red", "red.shared.add.u32 [%r1], 1"},
    {"prefetch", "prefetch.global.L2 [%l1]"},
    {"prefetchu", "prefetchu.L1 [%l1]"},
    {"applypriority", "applypriority.global.L2::evict_normal [%l1], 128"},
    {"discard", "discard.global.L2 [%l1], 128"},
    {"cp.async", "cp.async.ca.shared.global [%r1], [%l1], 8"},
    {"cp.async.commit_group", "cp.async.commit_group"},
    {"cp.async.wait_group", "cp.async.wait_group 1"},
    {"cp.async.wait_all", "cp.async.wait_all"},
    {"cp.async.mbarrier.arrive", "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1]"},
    {"mbarrier.init", "mbarrier.init.shared.b64 [%r1], 4"},
    {"mbarrier.inval", "mbarrier.inval.shared.b64 [%r1]"},
    {"mbarrier.arrive", "mbarrier.arrive.shared.b64 %l1, [%r1]"},
    {"mbarrier.arrive_drop", "mbarrier.arrive_drop.shared.b64 %l1, [%r1], 2"},
    {"mbarrier.test_wait", "mbarrier.test_wait.shared.b64 %p1, [%r1], %l1"},
    {"mbarrier.try_wait", "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2"},
    {"mbarrier.pending_count", "mbarrier.pending_count.b64 %r1, %l1"},
    {"mma",
     "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3}, "
     "{%f1,%f2,%f3,%f4}"},
    {"wmma.mma",
     "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, "
     "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, "
     "{%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}"},
    {"wmma.load",
     "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, "
     "[%l1], 16"},
    {"wmma.store",
     "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%l1], "
     "{%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, 16"},
    {"ldmatrix", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1,%r2}, [%r3]"},
    {"stmatrix", "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r3], {%r1,%r2}"},
    {"bra", "bra end"},
    {"call", "call callee"},
    {"ret", "ret"},
    {"exit", "exit"},
    {"trap", "trap"},
    {"brkpt", "brkpt"},
    {"membar", "membar.gl"},
    {"fence", "fence.acq_rel.gpu"},
    {"nanosleep", "nanosleep.u32 20"},
    {"griddepcontrol", "griddepcontrol.wait"},
    {"pmevent", "pmevent 1"},
    {"bar.sync", "bar.sync 0"},
    {"bar.arrive", "bar.arrive 1, 64"},
    {"bar.red", "bar.red.popc.u32 %r1, 0, %p1"},
    {"bar.cta.sync", "bar.cta.sync 0, 64"},
    {"bar.cta.arrive", "bar.cta.arrive 0, 64"},
    {"bar.cta.red", "bar.cta.red.and.pred %p1, 0, !%p2"},
    {"barrier.sync", "barrier.sync 0"},
    {"barrier.arrive", "barrier.arrive 0, 64"},
    {"barrier.red", "barrier.red.or.pred %p1, 0, 64, %p2"},
    {"barrier.cta.sync", "barrier.cta.sync.aligned 0"},
    {"barrier.cta.arrive", "barrier.cta.arrive.aligned 0, 64"},
    {"barrier.cta.red", "barrier.cta.red.aligned.popc.u32 %r1, 0, %p1"},
    {"bar.warp.sync", "bar.warp.sync 0xffffffff"},
    {"shfl", "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1"},
    {"vote", "vote.sync.ballot.b32 %r1, %p1, -1"},
    {"match", "match.any.sync.b32 %r1, %r2, -1"},
    {"redux", "redux.sync.add.u32 %r1, %r2, -1"},
    {"activemask", "activemask.b32 %r1"},
    {"elect", "elect.sync %r1|%p1, -1"},
    {"cp.async.bulk.prefetch", "cp.async.bulk.prefetch.L2.global [%l1], %r1"},
    {"cp.async.bulk.commit_group", "cp.async.bulk.commit_group"},
    {"cp.async.bulk.wait_group", "cp.async.bulk.wait_group.read 0"},
    {"cp.async.bulk",
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%l1], %r2, [%r3]"},
    {"mbarrier.expect_tx", "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], %r2"},
    {"wgmma.mma_async.sync",
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %l1, %l2, %p1, 1, 1, 0, "
     "0"},
    {"wgmma.fence", "wgmma.fence.sync.aligned"},
    {"wgmma.commit_group", "wgmma.commit_group.sync.aligned"},
    {"wgmma.wait_group", "wgmma.wait_group.sync.aligned 0"},
    {"movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2"},
    {"createpolicy.fractional", "createpolicy.fractional.L2::evict_first.b64 %l1, 0.5"},
    {"createpolicy.cvt", "createpolicy.cvt.L2.b64 %l1, %l2"},
    {"createpolicy.range", "createpolicy.range.global.L2::evict_last.b64 %l1, [%l2], %r1, %r2"},
};

// What the table has for others: the CPU device refuses it.
const std::set<std::string_view> kNotLowered = {
    "cp.async.bulk",
    "mbarrier.expect_tx",
};

// What lowering asks of the ALU besides; no PTX has these names.
const std::set<std::string_view> kInternal = {"below_windows", "broadcast", "extend", "pack",
                                              "pack4",         "relu",      "sat",    "unpack",
                                              "unpack4",       "window"};

std::string_view OpcodeOf(std::string_view mnemonic) {
  return mnemonic.substr(0, mnemonic.find('.'));
}

absl::Status LowerText(std::string_view instruction) {
  const absl::StatusOr<ptx::Module> module = ptx::Parse(absl::StrCat(
      ".version 8.0\n.target sm_90\n.address_size 64\n.func callee() { ret; }\n.entry k() {\n"
      ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>, %i<9>; .reg .b64 %l<9>;\n"
      ".reg .f32 %f<9>; .reg .f64 %d<9>;\n",
      std::string(instruction), ";\nend: ret; }"));
  if (!module.ok()) return module.status();
  ModuleSymbols symbols;
  const auto& callee = std::get<ptx::Function>(module->items[0]);
  symbols.functions["callee"] = &callee;
  return Lower(symbols, std::get<ptx::Function>(module->items[1])).status();
}

// "add.f32", with registers of the codes that the row has.
std::string ExampleOf(const AluRow& row) {
  std::string text = row.mnemonic;
  for (size_t i = 0; i < std::strlen(row.operands); ++i) {
    absl::StrAppend(&text, i == 0 ? " %" : ", %", std::string(1, row.operands[i]), i);
  }
  if (OpcodeOf(text) == "lop3") absl::StrAppend(&text, ", 0x96");
  return text;
}

TEST(LoweringTest, EveryRowOfTheTableIsLowered) {
  for (const ptx::InstructionRow& row : ptx::InstructionRows()) {
    if (row.family == ptx::Family::kArithmetic) {
      const bool found =
          std::any_of(GenericAlu().begin(), GenericAlu().end(), [&](const auto& entry) {
            return OpcodeOf(entry.first) == row.mnemonic &&
                   LowerText(ExampleOf(*entry.second)).ok();
          });
      EXPECT_TRUE(found) << row.mnemonic;
      continue;
    }
    const auto example = kExamples.find(row.mnemonic);
    ASSERT_NE(example, kExamples.end()) << row.mnemonic;
    const absl::Status status = LowerText(example->second);
    const bool lowered = kNotLowered.count(row.mnemonic) == 0;
    EXPECT_EQ(status.ok(), lowered) << example->second << ": " << status.message();
    EXPECT_TRUE(lowered || absl::IsUnimplemented(status)) << example->second;
  }
}

TEST(LoweringTest, ExamplesAreOfTheirRows) {
  for (const auto& [mnemonic, text] : kExamples) {
    const absl::StatusOr<ptx::Module> module =
        ptx::Parse(absl::StrCat(".version 8.0\n.target sm_90\n.address_size 64\n.func f() {",
                                std::string(text), "; end: }"));
    ASSERT_TRUE(module.ok()) << text;
    const ptx::InstructionRow* const row = ptx::FindInstruction(
        std::get<ptx::Instruction>(std::get<ptx::Function>(module->items[0]).body[0].node));
    ASSERT_NE(row, nullptr) << text;
    EXPECT_EQ(row->mnemonic, mnemonic);
  }
}

TEST(LoweringTest, EveryInstructionOfTheAluIsInTheTableWithItsOperands) {
  for (const auto& [mnemonic, row] : GenericAlu()) {
    ptx::Instruction instruction;
    instruction.opcode = std::string(OpcodeOf(mnemonic));
    const ptx::InstructionRow* const found = ptx::FindInstruction(instruction);
    if (kInternal.count(instruction.opcode) != 0) {
      EXPECT_EQ(found, nullptr) << mnemonic;
      continue;
    }
    ASSERT_NE(found, nullptr) << mnemonic;
    if (found->family != ptx::Family::kArithmetic) continue;
    const absl::Status status = LowerText(ExampleOf(*row));
    EXPECT_TRUE(status.ok()) << ExampleOf(*row) << ": " << status.message();
  }
}

TEST(LoweringTest, InternalOperationsAreNoInstructions) {
  for (const char* const text :
       {"broadcast.b32 %r1", "window %p1, %l1", "extend.u8.b32 %r1, %r2", "relu.f16 %h1, %h2"}) {
    EXPECT_TRUE(absl::IsUnimplemented(LowerText(text))) << text;
  }
}

TEST(LoweringTest, OtherWarpgroupMultipliesAreRefused) {
  const auto lower = [](const char* types, const char* operands) {
    return LowerText(
        absl::StrCat("wgmma.mma_async.sync.aligned.", types, " {%f1,%f2,%f3,%f4}, ", operands));
  };
  for (const char* const types : {
           "m64n8k32.f32.e4m3.e4m3",
           "m64n8k256.s32.b1.b1.and.popc",
           "m64n8k16.f32.f16.bf16",
           "m64n8k16.bf16.bf16.bf16",
           "m64n8k8.f32.f16.f16",
           "m64n8k16.f32.f16",
           "m64n8k16.f32.f16.f16.satfinite",
           "m64n12k16.f32.f16.f16",
           "m64n264k16.f32.f16.f16",
           "m64n0k16.f32.f16.f16",
           "m64n08k16.f32.f16.f16",
           "m16n8k16.f32.f16.f16",
           "m64n99999999999k16.f32.f16.f16",
           "m64n40k32.s32.s8.s8",
           "f32.f16.f16",
       }) {
    EXPECT_TRUE(absl::IsUnimplemented(lower(types, "%l1, %l2, %p1, 1, 1, 0, 0"))) << types;
  }
  constexpr char kHalf[] = "m64n8k16.f32.f16.f16";
  EXPECT_TRUE(lower(kHalf, "{%r1,%r2,%r3,%r4}, %l2, !%p1, -1, 1, 1").ok());
  for (const char* const operands : {
           "%l1, %l2, %p1, 1, 1, 0",
           "%l1, %l2, %p1, 1, 1",
           "%l1, %l2, %p1",
           "%l1, %l2, %p1, 0, 1, 0, 0",
           "%l1, %l2, %p1, 1, 1, 2, 0",
           "%l1, %l2, %r1, 1, 1, 0, 0",
           "%r1, %l2, %p1, 1, 1, 0, 0",
           "{%r1,%r2,%r3}, %l2, %p1, 1, 1, 0",
           "{%r1,%r2,%r3,%r4}, %l2, %p1, 1, 1, 0, 0",
           "{%r1,%r2,%r3,%l4}, %l2, %p1, 1, 1, 0",
       }) {
    EXPECT_TRUE(absl::IsInvalidArgument(lower(kHalf, operands))) << operands;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(lower("m64n16k16.f32.f16.f16", "%l1, %l2, %p1, 1, 1, 0, 0")));
  EXPECT_TRUE(absl::IsUnimplemented(LowerText("wgmma.wait_group.sync 0")));
}

TEST(LoweringTest, WarpgroupMultiplyOfIntegersHasFourOperands) {
  for (const char* const types : {"satfinite.s32.s8.u8", "s32.u8.u8", "s32.u8.s8.satfinite"}) {
    const std::string text = absl::StrCat("wgmma.mma_async.sync.aligned.m64n8k32.", types,
                                          " {%r1,%r2,%r3,%r4}, %l1, %l2, %p1");
    EXPECT_TRUE(LowerText(text).ok()) << text;
  }
}

// The kernels are those that nvcc compiled, and those that the fuzzer starts from.
TEST(LoweringTest, CorpusIsKnown) {
  constexpr char kFolder[] = "server/device/cpu/testing/";
  size_t instructions = 0;
  for (const char* const name :
       {"corpus/calls.ptx", "corpus/exchange.ptx", "corpus/matrix.ptx", "corpus/system.ptx",
        "corpus/warpgroup.ptx", "programs_ptx/programs.ptx", "system_ptx/system.ptx",
        "tensor_ptx/tensor.ptx"}) {
    std::ifstream in(absl::StrCat(kFolder, name));
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (text.empty()) continue;  // There is no text without a CUDA toolkit.
    const absl::StatusOr<ptx::Module> module = ptx::Parse(text);
    ASSERT_TRUE(module.ok()) << name;
    for (const auto& item : module->items) {
      const auto* const function = std::get_if<ptx::Function>(&item);
      if (function == nullptr) continue;
      for (const ptx::Statement& statement : function->body) {
        const auto* const instruction = std::get_if<ptx::Instruction>(&statement.node);
        if (instruction == nullptr) continue;
        ptx::Description what;
        EXPECT_EQ(ptx::Describe(*instruction, &what), ptx::Verdict::kKnown)
            << name << ": " << ptx::Print(*instruction);
        ++instructions;
      }
    }
  }
  EXPECT_GT(instructions, 100u);
}

}  // namespace
}  // namespace warpline::cpu
