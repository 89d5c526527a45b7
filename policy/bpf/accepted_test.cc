// Programs that the verifier accepts, and what they return: from the interpreter, and from the
// model.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "policy/bpf/interpreter.h"
#include "policy/bpf/testing/assembler.h"
#include "policy/bpf/testing/model.h"
#include "policy/bpf/testing/test_host.h"
#include "policy/bpf/verify.h"

namespace warpline::policy::bpf {
namespace {

using testing::Assemble;
using testing::Model;
using testing::TestContext;
using testing::TestHost;

struct Accepted {
  const char* name;
  const char* text;
  uint64_t verdict;
};

// The key 7 at r10 - 8, and its entry of map 1 in r0.
#define LOOK_UP "u64 [ r10 - 8 ] = 7; r2 = r10; r2 += -8; r1 = map 1; call 1;"
// 40 is added to cell 0 of key 7 of map 1.
#define ADD "u64 [ r10 - 8 ] = 7; r2 = r10; r2 += -8; r1 = map 1; r3 = 0; r4 = 40; call 2;"

const Accepted kAccepted[] = {
    {"Constant", "r0 = 5; exit", 5},
    {"NegativeConstant", "r0 = -1; exit", ~uint64_t{0}},
    {"MoveOf32BitsClearsTheUpperHalf", "r0 = -1; w0 = w0; exit", 0xffffffff},
    {"ImmediateOf32BitsIsNotExtended", "w0 = -1; exit", 0xffffffff},
    {"WideLoad", "r0 = 0x1122334455667788 ll; exit", 0x1122334455667788},
    {"ContextFields", "r0 = u64 [ r1 + 0 ]; r2 = u32 [ r1 + 8 ]; r0 += r2; exit", 111 + 222},
    {"PartOfAField", "r0 = u16 [ r1 + 26 ]; exit", 0x5566},
    {"LoadsOfLessThan8BytesAreNotSigned", "r0 = u32 [ r1 + 12 ]; exit", 0xfffffffd},
    {"ContextAtAConstantOffset", "r1 += 24; r1 -= 24; r1 += 8; r0 = u32 [ r1 + 0 ]; exit", 222},
    {"CopyOfTheContext", "r6 = r1; r1 = 0; r0 = u64 [ r6 + 0 ]; exit", 111},
    {"StackWord", "r1 = 9; u64 [ r10 - 8 ] = r1; r0 = u64 [ r10 - 8 ]; exit", 9},
    {"StackImmediate", "u64 [ r10 - 512 ] = -2; r0 = u64 [ r10 - 512 ]; exit", ~uint64_t{1}},
    {"ImmediateStoresOfEachSize",
     "u64 [ r10 - 8 ] = -1; u8 [ r10 - 8 ] = 1; u16 [ r10 - 6 ] = 2; u32 [ r10 - 4 ] = 3;"
     "r0 = u64 [ r10 - 8 ]; exit",
     0x000000030002ff01},
    {"StackInPieces",
     "u8 [ r10 - 8 ] = 1; u8 [ r10 - 7 ] = 2; u16 [ r10 - 6 ] = 3; u32 [ r10 - 4 ] = 4;"
     "r0 = u64 [ r10 - 8 ]; exit",
     0x0000000400030201},
    {"StackByAnotherRegister", "r2 = r10; r2 -= 16; u64 [ r2 + 8 ] = 3; r0 = u64 [ r10 - 8 ]; exit",
     3},
    {"StoredAddress", "u64 [ r10 - 8 ] = r1; r2 = u64 [ r10 - 8 ]; r0 = u64 [ r2 + 0 ]; exit", 111},
    {"NumberOverAnAddress", "u64 [ r10 - 8 ] = r1; u64 [ r10 - 8 ] = 4; r0 = u32 [ r10 - 8 ]; exit",
     4},
    {"AddressOverANumber",
     "u64 [ r10 - 8 ] = 4; u64 [ r10 - 8 ] = r1; r2 = u64 [ r10 - 8 ]; r0 = u64 [ r2 + 24 ]; exit",
     0x1122334455667788},
    {"JumpForward", "r0 = 1; goto end; end: exit", 1},
    {"JumpBackwardWithoutLoop", "r0 = 1; goto b; a: exit; b: r0 += 1; goto a", 2},
    {"BranchTaken", "r2 = u64 [ r1 + 0 ]; r0 = 1; if r2 == 111 goto end; r0 = 2; end: exit", 1},
    {"BranchNotTaken", "r2 = u64 [ r1 + 0 ]; r0 = 1; if r2 != 111 goto end; r0 = 2; end: exit", 2},
    {"BranchToTheNext", "r0 = 3; if r0 == 3 goto +0; exit", 3},
    {"SignedBranch", "r2 = -1; r0 = 1; if r2 s< 0 goto end; r0 = 2; end: exit", 1},
    {"UnsignedBranch", "r2 = -1; r0 = 1; if r2 > 0 goto end; r0 = 2; end: exit", 1},
    {"BranchOf32Bits", "r2 = 0x100000001 ll; r0 = 1; if w2 == 1 goto end; r0 = 2; end: exit", 1},
    {"BranchOnBits", "r2 = 6; r0 = 1; if r2 & 4 goto end; r0 = 2; end: exit", 1},
    {"BothWaysWriteARegister",
     "r2 = u64 [ r1 + 0 ]; if r2 > 5 goto a; r0 = 1; goto end; a: r0 = 2; end: exit", 2},
    {"BothWaysWriteTheStack",
     "r2 = u64 [ r1 + 0 ]; if r2 > 5 goto a; u64 [ r10 - 8 ] = 1; goto end;"
     "a: u64 [ r10 - 8 ] = 2; end: r0 = u64 [ r10 - 8 ]; exit",
     2},
    {"BothWaysHaveTheSameAddress",
     "r2 = u64 [ r1 + 0 ]; r3 = r1; if r2 > 5 goto a; r3 += 8; goto end; a: r3 += 8;"
     "end: r0 = u32 [ r3 + 0 ]; exit",
     222},
    {"WhatDiffersIsNotUsed",
     "r2 = u64 [ r1 + 0 ]; r3 = r1; if r2 > 5 goto a; r3 = 8; a: r0 = 7; exit", 7},
    {"WhatDiffersIsWrittenAgain",
     "r2 = u64 [ r1 + 0 ]; r3 = r1; if r2 > 5 goto a; r3 = 8; a: r3 = 1; r0 = r3; exit", 1},
    {"LookUpMisses", LOOK_UP "if r0 == 0 goto none; r0 = 1; exit; none: r0 = 2; exit", 2},
    {"NullIsANumber", LOOK_UP "if r0 != 0 goto some; exit; some: r0 = 1; exit", 0},
    {"LookUpFinds",
     ADD LOOK_UP "if r0 == 0 goto none; r0 = u64 [ r0 + 0 ]; exit; none: r0 = 2; exit", 40},
    {"PartOfACell",
     ADD LOOK_UP "if r0 == 0 goto none; r0 = u8 [ r0 + 0 ]; exit; none: r0 = 2; exit", 40},
    {"CellIsWritten",
     ADD LOOK_UP "if r0 == 0 goto none; u64 [ r0 + 8 ] = 6; r1 = u64 [ r0 + 8 ]; r0 = r1; exit;"
                 "none: r0 = 2; exit",
     6},
    {"CellAtAConstantOffset",
     ADD LOOK_UP "if r0 == 0 goto none; r0 += 8; r0 -= 8; r0 = u64 [ r0 + 0 ]; exit;"
                 "none: r0 = 2; exit",
     40},
    {"CopyIsCheckedWithItsOriginal",
     ADD LOOK_UP "r6 = r0; r0 = 1; if r6 == 0 goto none; r0 = u64 [ r6 + 0 ]; none: exit", 40},
    {"StoredCopyIsCheckedWithItsOriginal",
     ADD LOOK_UP "u64 [ r10 - 16 ] = r0; if r0 == 0 goto none; r6 = u64 [ r10 - 16 ];"
                 "r0 = u64 [ r6 + 0 ]; none: exit",
     40},
    {"CheckedAgainAfterAJoin",
     ADD LOOK_UP "r6 = r0; r7 = 0; if r6 == 0 goto join; r7 = u64 [ r6 + 0 ]; join: "
                 "if r6 == 0 goto none; r0 = u64 [ r6 + 0 ]; r0 += r7; exit; none: r0 = 2; exit",
     80},
    {"CheckedValueIsCheckedAgain",
     ADD LOOK_UP "if r0 == 0 goto none; if r0 == 0 goto none; r0 = u64 [ r0 + 0 ]; exit;"
                 "none: r0 = 2; exit",
     40},
    {"TwoLookUps",
     ADD LOOK_UP "r6 = r0;" LOOK_UP "if r0 == 0 goto none; if r6 == 0 goto none;"
                 "r0 = u64 [ r0 + 0 ]; r1 = u64 [ r6 + 0 ]; r0 += r1; exit; none: r0 = 2; exit",
     80},
    {"ArrayEntry",
     "u32 [ r10 - 4 ] = 3; r2 = r10; r2 += -4; r1 = map 0; call 1; if r0 == 0 goto none;"
     "u64 [ r0 + 0 ] = 5; r0 = u64 [ r0 + 0 ]; exit; none: r0 = 2; exit",
     5},
    {"BehindTheArray",
     "u32 [ r10 - 4 ] = 4; r2 = r10; r2 += -4; r1 = map 0; call 1; if r0 == 0 goto none;"
     "r0 = 1; exit; none: r0 = 2; exit",
     2},
    {"KeyOfOddSize",
     "u64 [ r10 - 16 ] = 1; u32 [ r10 - 8 ] = 2; r2 = r10; r2 += -16; r1 = map 2; r3 = 0; r4 = 8;"
     "call 2; exit",
     8},
    {"NoSuchCell",
     "u64 [ r10 - 8 ] = 7; r2 = r10; r2 += -8; r1 = map 1; r3 = 2; r4 = 40; call 2; exit", 0},
    {"MapIsStored",
     "r1 = map 1; u64 [ r10 - 16 ] = r1; u64 [ r10 - 8 ] = 7; r2 = r10; r2 += -8;"
     "r1 = u64 [ r10 - 16 ]; r3 = 1; r4 = 2; call 2; exit",
     2},
    {"NullIsStored",
     LOOK_UP "if r0 != 0 goto some; u64 [ r10 - 16 ] = r0; r0 = u32 [ r10 - 16 ]; exit;"
             "some: r0 = 1; exit",
     0},
    {"NullIsAKey",
     LOOK_UP "if r0 != 0 goto some; u64 [ r10 - 8 ] = r0; r2 = r10; r2 += -8; r1 = map 1; r3 = 0;"
             "r4 = 3; call 2; exit; some: r0 = 1; exit",
     3},
    {"HelperWithoutArguments", "call 3; r6 = r0; call 3; r0 -= r6; exit", 1},
    {"HelperWithFive", "r1 = 1; r2 = 2; r3 = 3; r4 = 4; r5 = 5; call 9; exit", 15},
    {"HelpersKeepR6ToR9", "r6 = 1; r7 = 2; r8 = 3; r9 = 4; call 3; r0 = r6; r0 += r9; exit", 5},
    {"DivisionByZero", "r0 = 7; r1 = 0; r0 /= r1; exit", 0},
    {"DivisionByAnImmediateZero", "r0 = 7; r0 /= 0; exit", 0},
    {"RemainderByZero", "r0 = 7; r1 = 0; r0 %= r1; exit", 7},
    {"RemainderByZeroOf32Bits", "r0 = -1; w0 %= 0; exit", 0xffffffff},
    {"DivisionIsUnsigned", "r0 = -2; r0 /= 2; exit", 0x7fffffffffffffff},
    {"ImmediateIsExtended", "r0 = 0; r0 += -1; r0 /= -1; exit", 1},
    {"ShiftIsMasked", "r0 = 1; r1 = 65; r0 <<= r1; exit", 2},
    {"ShiftOf32BitsIsMasked", "r0 = 1; r1 = 33; w0 <<= w1; exit", 2},
    {"ArithmeticShift", "r0 = -8; r0 s>>= 1; exit", ~uint64_t{3}},
    {"ArithmeticShiftOf32Bits", "r0 = 0x80000000 ll; w0 s>>= 4; exit", 0xf8000000},
    {"Negation", "r0 = 5; r0 = -r0; exit", ~uint64_t{4}},
    {"NegationOf32Bits", "r0 = 5; w0 = -w0; exit", 0xfffffffb},
    {"Be16", "r0 = 0x1122334455667788 ll; r0 = be16 r0; exit", 0x8877},
    {"Be32", "r0 = 0x1122334455667788 ll; r0 = be32 r0; exit", 0x88776655},
    {"Be64", "r0 = 0x1122334455667788 ll; r0 = be64 r0; exit", 0x8877665544332211},
    {"Le16", "r0 = 0x1122334455667788 ll; r0 = le16 r0; exit", 0x7788},
    {"Le32", "r0 = 0x1122334455667788 ll; r0 = le32 r0; exit", 0x55667788},
    {"Le64", "r0 = 0x1122334455667788 ll; r0 = le64 r0; exit", 0x1122334455667788},
};

class AcceptedTest : public ::testing::TestWithParam<Accepted> {};

TEST_P(AcceptedTest, ReturnsWhatItShould) {
  const std::vector<Instruction> code = Assemble(GetParam().text);
  const std::vector<MapShape> shapes = testing::TestMaps();
  ASSERT_EQ(Verify(code, testing::TestHook(), shapes, testing::TestHelpers()).message(), "");

  std::vector<std::shared_ptr<Map>> maps;
  for (const MapShape& shape : shapes) maps.push_back(std::make_shared<Map>(shape));
  const TestContext context = {
      .a = 111, .b = 222, .c = -3, .d = 4, .hidden = 5, .e = 6, .f = 0x1122334455667788};
  TestHost host;
  const Executable executable(code, maps, testing::TestHelpers());
  EXPECT_EQ(executable.Run(&context, &host), std::optional(GetParam().verdict));

  Model model(shapes);
  model.Run(code, context);
  EXPECT_EQ(model.fault(), "");
  EXPECT_EQ(model.verdict(), GetParam().verdict);
}

INSTANTIATE_TEST_SUITE_P(All, AcceptedTest, ::testing::ValuesIn(kAccepted),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Accepted, TheLongestProgram) {
  std::vector<Instruction> code(kMostInstructions - 1, Assemble("r0 = 5").front());
  code.push_back(Assemble("exit").front());
  EXPECT_TRUE(Verify(code, testing::TestHook(), {}, {}).ok());
  const Executable executable(code, {}, {});
  const TestContext context;
  EXPECT_EQ(executable.Run(&context, nullptr), std::optional(uint64_t{5}));
}

// A verifier that follows each way by itself would take 2^1000 steps.
TEST(Accepted, ManyBranches) {
  std::string text = "r2 = u64 [ r1 + 0 ]; r0 = 0;";
  for (int i = 0; i < 1000; ++i) {
    text += "if r2 > " + std::to_string(i) + " goto +1; r0 += 1;";
  }
  const std::vector<Instruction> code = Assemble(text + "exit");
  EXPECT_TRUE(Verify(code, testing::TestHook(), {}, {}).ok());
}

TEST(Executable, NothingDoesNotRun) { EXPECT_EQ(Executable().Run(nullptr, nullptr), std::nullopt); }

// The interpreter has whatever the verifier knows, and computes what the model does.
TEST(Executable, EveryOpcode) {
  const std::vector<uint64_t> numbers = {0,
                                         1,
                                         2,
                                         7,
                                         31,
                                         32,
                                         63,
                                         64,
                                         0x7fffffff,
                                         0x80000000,
                                         0xffffffff,
                                         0x100000000,
                                         0x7fffffffffffffff,
                                         0x8000000000000000,
                                         0x8877665544332211,
                                         ~uint64_t{0}};
  const auto wide = [](uint8_t reg, uint64_t value) {
    return std::vector<Instruction>{
        {kWideLoad, reg, 0, static_cast<int32_t>(value)},
        {0, 0, 0, static_cast<int32_t>(value >> 32)},
    };
  };
  int known = 0;
  for (int opcode = 0; opcode < 256; ++opcode) {
    const Shape shape = kShapes[opcode];
    const FieldsUsed used = FieldsOf(shape);
    // The other shapes have one opcode each, and their rows above.
    if (!used.dst || shape == Shape::kWide) continue;
    ++known;
    for (const uint64_t a : numbers) {
      for (const uint64_t b : numbers) {
        std::vector<Instruction> code = Assemble("u64 [ r10 - 8 ] = -1; r3 = r10; r3 += -8");
        for (const Instruction& i : wide(0, a)) code.push_back(i);
        for (const Instruction& i : wide(2, b)) code.push_back(i);
        Instruction tested = {static_cast<uint8_t>(opcode), 2 << 4, 0, 0};
        if (!used.src) tested.registers = 0;
        if (used.immediate) tested.immediate = static_cast<int32_t>(b);
        if (shape == Shape::kByteSwap) tested.immediate = 16 << (b % 3);
        if (shape == Shape::kLoad) tested.registers = 3 << 4;
        if (shape == Shape::kStoreImmediate) tested.registers = 3;
        if (shape == Shape::kStoreRegister) tested.registers = 3 | 2 << 4;
        const bool branches = shape == Shape::kBranchImmediate || shape == Shape::kBranchRegister;
        if (branches) tested.offset = 1;
        code.push_back(tested);
        for (const Instruction& i : Assemble("r0 ^= 5; r4 = u64 [ r10 - 8 ]; r0 += r4; exit")) {
          code.push_back(i);
        }
        ASSERT_EQ(Verify(code, testing::TestHook(), {}, {}).message(), "") << opcode;
        const TestContext context;
        Model model({});
        model.Run(code, context);
        ASSERT_EQ(model.fault(), "") << opcode;
        ASSERT_EQ(Executable(code, {}, {}).Run(&context, nullptr), std::optional(model.verdict()))
            << opcode << " of " << a << " and " << b;
      }
    }
  }
  // Arithmetic, negations, byte swaps, loads and stores, branches.
  EXPECT_EQ(known, 2 * 12 * 2 + 2 + 2 + 3 * 4 + 2 * 11 * 2);
}

// These get past no verifier; the interpreter ends them all the same.
TEST(Executable, EndsWhatWasNotVerified) {
  for (const char* text :
       {"goto -1", "r0 = 1", "raw 0xff 0 0 0; exit", "r0 = 0; goto +30000", "goto -30000",
        "r0 = 0; if r0 == 0 goto +1; exit", "raw 0x18 0 0 0", "call 1; exit"}) {
    EXPECT_EQ(Executable(Assemble(text), {}, {}).Run(nullptr, nullptr), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace warpline::policy::bpf
