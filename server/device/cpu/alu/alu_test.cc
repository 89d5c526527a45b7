// Tests properties of all arithmetic functions; what each computes is tested against hardware.
#include "server/device/cpu/alu/alu.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::cpu {
namespace {

constexpr uint32_t kSlotBytes = 256;
constexpr uint32_t kSlots = 8;

struct alignas(64) Registers {
  uint8_t bytes[kSlotBytes * kSlots];
};

Registers Random(std::mt19937* random) {
  Registers registers;
  // The bytes are of a few kinds, so that special floats and small integers occur.
  for (uint8_t& byte : registers.bytes) {
    const uint32_t value = (*random)();
    byte = (value & 0x300) == 0       ? 0
           : (value & 0x300) == 0x100 ? 0xff
           : (value & 0x300) == 0x200 ? static_cast<uint8_t>(0x7f + (value & 0x81))
                                      : static_cast<uint8_t>(value);
  }
  return registers;
}

Op MakeOp(const AluRow& row, std::mt19937* random) {
  Op op;
  for (uint32_t i = 0; i < 6; ++i) op.r[i] = i * kSlotBytes;
  op.imm = (*random)();
  op.negated = ((*random)() & 1) != 0;
  if (std::string(row.mnemonic).rfind("setp.", 0) == 0) op.imm %= 4;
  return op;
}

TEST(AluTest, BothInstructionSetsAgree) {
  ASSERT_EQ(GenericAlu().size(), Avx2Alu().size());
  if (!HasAvx2()) GTEST_SKIP() << "no AVX2 here";
  std::mt19937 random(7);
  for (const auto& [mnemonic, row] : GenericAlu()) {
    const AluRow* const other = Avx2Alu().at(mnemonic);
    EXPECT_STREQ(row->operands, other->operands);
    for (int round = 0; round < 6; ++round) {
      Registers a = Random(&random);
      Registers b = a;
      const Op op = MakeOp(*row, &random);
      const uint32_t mask = round % 2 == 0 ? kAllLanes : random();
      row->fn(a.bytes, op, mask);
      other->fn(b.bytes, op, mask);
      ASSERT_EQ(std::memcmp(a.bytes, b.bytes, sizeof(a.bytes)), 0) << mnemonic;
    }
  }
}

TEST(AluTest, IdleLanesKeepTheirRegisters) {
  std::mt19937 random(11);
  for (const auto& [mnemonic, row] : GenericAlu()) {
    Registers before = Random(&random);
    Registers after = before;
    const uint32_t mask = random();
    const Op op = MakeOp(*row, &random);
    row->fn(after.bytes, op, mask);
    const bool unpacks = mnemonic.substr(0, 6) == "unpack";
    const size_t results = unpacks ? std::strlen(row->operands) - 1 : 1;
    for (size_t result = 0; result < results; ++result) {
      const char code = row->operands[result];
      const size_t width = code == 'h' ? 2 : code == 'i' || code == 'f' ? 4 : 8;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        if ((mask >> lane & 1) != 0) continue;
        if (code == 'p') {
          uint32_t x, y;
          std::memcpy(&x, before.bytes + result * kSlotBytes, 4);
          std::memcpy(&y, after.bytes + result * kSlotBytes, 4);
          EXPECT_EQ(x >> lane & 1, y >> lane & 1) << mnemonic;
        } else {
          const size_t at = result * kSlotBytes + lane * width;
          EXPECT_EQ(std::memcmp(before.bytes + at, after.bytes + at, width), 0) << mnemonic;
        }
      }
    }
  }
}

TEST(AluTest, UnknownInstructionsAreNotFound) {
  EXPECT_EQ(FindAlu("add.u128"), nullptr);
  EXPECT_EQ(FindAlu(""), nullptr);
  EXPECT_NE(FindAlu("add.s32"), nullptr);
}

}  // namespace
}  // namespace warpline::cpu
