#include "policy/bpf/testing/generator.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace warpline::policy::bpf::testing {
namespace {

constexpr std::array kSizes = {kWord1, kWord2, kWord4, kWord8};
constexpr std::array kComparisons = {kJeq,  kJgt, kJge, kJset, kJne, kJsgt,
                                     kJsge, kJlt, kJle, kJslt, kJsle};
constexpr std::array kOperations = {kAdd, kSub, kMul, kDiv, kOr,  kAnd,
                                    kLsh, kRsh, kMod, kXor, kMov, kArsh};
// Where the fields of TestContext are, and how large.
constexpr std::array<std::pair<int, int>, 7> kFields = {{{0, kWord8},
                                                         {8, kWord4},
                                                         {12, kWord4},
                                                         {16, kWord2},
                                                         {20, kWord4},
                                                         {24, kWord8},
                                                         {24, kWord1}}};

}  // namespace

void Generator::Emit(int opcode, int dst, int src, int64_t offset, int64_t immediate) {
  code_.push_back({static_cast<uint8_t>(opcode), static_cast<uint8_t>(dst | src << 4),
                   static_cast<int16_t>(offset), static_cast<int32_t>(immediate)});
}

int32_t Generator::Immediate() {
  switch (Below(4)) {
    case 0:
      return static_cast<int32_t>(Below(16)) - 4;
    case 1:
      return static_cast<int32_t>(uint32_t{1} << Below(32));
    default:
      return static_cast<int32_t>(Any());
  }
}

// r6 has the context, r7 to r9 and r0 numbers.
int Generator::NumberRegister() {
  const int chosen = static_cast<int>(Below(4));
  return chosen == 0 ? 0 : 6 + chosen;
}

void Generator::Arithmetic(bool for_kernel) {
  const int wide = Below(2) == 0 ? kAlu32 : kAlu64;
  const int dst = NumberRegister();
  switch (Below(12)) {
    case 0:
      return Emit(kNeg | wide, dst, 0, 0, 0);
    case 1:
      return Emit(Below(2) == 0 ? kToLittle : kToBig, dst, 0, 0, 16 << Below(3));
    case 2:
      Emit(kWideLoad, dst, 0, 0, Immediate());
      return Emit(0, 0, 0, 0, Immediate());
    default:
      break;
  }
  const int operation = kOperations[Below(kOperations.size())];
  if (Below(2) == 0) return Emit(operation | wide | kRegisterOperand, dst, NumberRegister(), 0, 0);
  int32_t immediate = Immediate();
  if (for_kernel) {  // It refuses these.
    const bool shifts = operation == kLsh || operation == kRsh || operation == kArsh;
    if (shifts) immediate &= wide == kAlu32 ? 31 : 63;
    if ((operation == kDiv || operation == kMod) && immediate == 0) immediate = 1;
  }
  Emit(operation | wide, dst, 0, 0, immediate);
}

void Generator::BranchSomewhere() {
  branches_.push_back(code_.size());
  if (Below(12) == 0) return Emit(kJumpAlways, 0, 0, 0, 0);
  const int opcode = kComparisons[Below(kComparisons.size())] | (Below(3) == 0 ? kJmp32 : kJmp);
  if (Below(2) == 0) {
    Emit(opcode | kRegisterOperand, NumberRegister(), NumberRegister(), 0, 0);
  } else {
    Emit(opcode, NumberRegister(), 0, 0, Immediate());
  }
}

void Generator::Access() {
  const int size = kSizes[Below(kSizes.size())];
  const int bytes = AccessBytes(static_cast<uint8_t>(size));
  const int near = -bytes * static_cast<int>(1 + Below(Below(4) == 0 ? 64 / bytes : 16 / bytes));
  switch (Below(7)) {
    case 0:
      return Emit(kStx | kMemory | size, kFrame, NumberRegister(), near, 0);
    case 1:
      return Emit(kSt | kMemory | size, kFrame, 0, near, Immediate());
    case 2:
      return Emit(kLdx | kMemory | size, NumberRegister(), kFrame, near, 0);
    case 3:  // An address on the stack, and perhaps back.
      Emit(kStx | kMemory | kWord8, kFrame, Below(2) == 0 ? 6 : kFrame, -24, 0);
      if (Below(4) == 0) Access();
      Emit(kLdx | kMemory | kWord8, 5, kFrame, -24, 0);
      if (Below(4) == 0) {
        Emit(kLdx | kMemory | size, NumberRegister(), 5, int64_t{near} / 16 * bytes, 0);
      }
      return;
    default: {
      const auto& [offset, field] = kFields[Below(kFields.size())];
      return Emit(kLdx | kMemory | field, NumberRegister(), 6, Below(60) == 0 ? -8 : offset, 0);
    }
  }
}

void Generator::LookUp() {
  const int map = static_cast<int>(Below(3));
  const int key = -8 * static_cast<int>(1 + Below(3));
  if (Below(8) != 0) {
    Emit(kSt | kMemory | kWord8, kFrame, 0, key, static_cast<int64_t>(Below(6)));
    if (map == 2) Emit(kSt | kMemory | kWord4, kFrame, 0, key + 8, static_cast<int64_t>(Below(2)));
  }
  Emit(kMov | kAlu64 | kRegisterOperand, 2, kFrame, 0, 0);
  Emit(kAdd | kAlu64, 2, 0, 0, key);
  Emit(kWideLoad, 1, kMapReference, 0, map);
  Emit(0, 0, 0, 0, 0);
  Emit(kCall, 0, 0, 0, 1);
  if (Below(8) == 0) {  // On one way it is what another look-up returned.
    Emit(kJgt | kJmp | kRegisterOperand, 8, 9, 1, 0);
    Emit(kLdx | kMemory | kWord8, 0, kFrame, -32, 0);
  }
  const int value = Below(2) == 0 ? 0 : 4;
  if (value != 0) Emit(kMov | kAlu64 | kRegisterOperand, value, 0, 0, 0);
  const bool is_stored = Below(4) == 0;
  if (is_stored) Emit(kStx | kMemory | kWord8, kFrame, 0, -32, 0);
  const size_t check = code_.size();
  const bool jumps_if_null = Below(12) != 0;
  if (Below(16) != 0) {
    Emit(kJmp | (jumps_if_null ? kJeq : kJne), Below(6) == 0 ? 0 : value, 0, 0, 0);
  }
  const int cell = 8 * static_cast<int>(Below(Below(16) == 0 ? 4 : (map == 2 ? 1 : 2)));
  const int size = kSizes[Below(kSizes.size())];
  if (Below(16) == 0) Emit(kAdd | kAlu64, value, 0, 0, 8);
  switch (is_stored ? 2 : Below(4)) {
    case 0:
      Emit(kStx | kMemory | kWord8, value, NumberRegister(), cell, 0);
      break;
    case 1:
      Emit(kSt | kMemory | kWord8, value, 0, cell, Immediate());
      break;
    case 2:
      Emit(kLdx | kMemory | kWord8, 3, kFrame, -32, 0);
      Emit(kLdx | kMemory | size, 7, 3, cell, 0);
      break;
    default:
      Emit(kLdx | kMemory | size, 7, value, cell, 0);
      break;
  }
  if (code_[check].opcode == (kJmp | kJeq) || code_[check].opcode == (kJmp | kJne)) {
    code_[check].offset = static_cast<int16_t>(code_.size() - check - 1);
  }
  if (Below(10) != 0) Emit(kMov | kAlu64, 0, 0, 0, 1);
}

void Generator::Add() {
  const int map = static_cast<int>(Below(3));
  Emit(kSt | kMemory | kWord8, kFrame, 0, -16, static_cast<int64_t>(Below(6)));
  if (Below(8) != 0) Emit(kSt | kMemory | kWord8, kFrame, 0, -8, static_cast<int64_t>(Below(3)));
  Emit(kMov | kAlu64 | kRegisterOperand, 2, kFrame, 0, 0);
  Emit(kAdd | kAlu64, 2, 0, 0, -16);
  Emit(kWideLoad, 1, kMapReference, 0, map);
  Emit(0, 0, 0, 0, 0);
  Emit(kMov | kAlu64, 3, 0, 0, static_cast<int64_t>(Below(3)));
  Emit(kMov | kAlu64 | kRegisterOperand, 4, NumberRegister(), 0, 0);
  Emit(kCall, 0, 0, 0, 2);
}

void Generator::Noise() {
  switch (Below(5)) {
    case 0:
      return Emit(static_cast<int>(Any() & 255), static_cast<int>(Below(11)),
                  static_cast<int>(Below(11)), static_cast<int16_t>(Below(64)) - 32, Immediate());
    case 1:
      return Emit(kMov | kAlu64 | kRegisterOperand, static_cast<int>(Below(10)),
                  static_cast<int>(Below(11)), 0, 0);
    case 2:
      return Emit(kAdd | kAlu64, static_cast<int>(Below(10)), 0, 0,
                  static_cast<int64_t>(Below(64)) - 32);
    case 3:
      return Emit(kCall, 0, 0, 0, static_cast<int64_t>(Below(11)));
    default:
      return Emit(kCall, 0, 0, 0, 3);
  }
}

// Most branches lead a little forward, to where something begins; some may lead anywhere.
void Generator::ResolveBranches() {
  for (const size_t at : branches_) {
    const auto next = std::upper_bound(beginnings_.begin(), beginnings_.end(), at);
    const auto left = static_cast<uint64_t>(beginnings_.end() - next);
    // What a jump that is always taken leaves out could not be reached.
    const bool is_jump = code_[at].opcode == kJumpAlways && Below(4) != 0;
    const size_t target =
        *(next + static_cast<ptrdiff_t>(is_jump ? 0 : Below(std::min<uint64_t>(left, 5))));
    code_[at].offset = static_cast<int16_t>(target - at - 1);
    if (Below(50) == 0) code_[at].offset = static_cast<int16_t>(Below(64) - 32);
  }
  branches_.clear();
}

std::vector<Instruction> Generator::Make() {
  code_.clear();
  beginnings_.clear();
  Emit(kMov | kAlu64 | kRegisterOperand, 6, 1, 0, 0);
  for (const int reg : {0, 7, 8, 9}) Emit(kMov | kAlu64, reg, 0, 0, Immediate());
  for (int i = 1; i <= 4; ++i) {
    if (Below(3) != 0) Emit(kStx | kMemory | kWord8, kFrame, 7, int64_t{-8} * i, 0);
  }
  const uint64_t count = 1 + Below(Below(4) == 0 ? 60 : 15);
  const bool is_noisy = Below(3) == 0;
  for (uint64_t i = 0; i < count; ++i) {
    beginnings_.push_back(code_.size());
    const uint64_t kind = Below(20);
    if (kind < 6) {
      Arithmetic(false);
    } else if (kind < 10) {
      Access();
    } else if (kind < 14) {
      BranchSomewhere();
    } else if (kind < 17) {
      LookUp();
    } else if (kind < 19) {
      Add();
    } else if (is_noisy) {
      Noise();
    }
  }
  beginnings_.push_back(code_.size());
  Emit(kMov | kAlu64 | kRegisterOperand, 0, 7 + static_cast<int>(Below(3)), 0, 0);
  ResolveBranches();
  Emit(kExit, 0, 0, 0, 0);
  return code_;
}

std::vector<Instruction> Generator::Mutate(std::vector<Instruction> code) {
  const uint64_t count = 1 + Below(3);
  for (uint64_t i = 0; i < count && !code.empty(); ++i) {
    const size_t at = Below(code.size());
    switch (Below(8)) {
      case 0:
        code[at].opcode = static_cast<uint8_t>(Any());
        break;
      case 1:
        code[at].opcode ^= static_cast<uint8_t>(1 << Below(8));
        break;
      case 2:
        code[at].registers = static_cast<uint8_t>(Below(11) | Below(11) << 4);
        break;
      case 3:
        code[at].offset = static_cast<int16_t>(code[at].offset + static_cast<int>(Below(17)) - 8);
        break;
      case 4:
        code[at].immediate = Immediate();
        break;
      case 5:
        code.erase(code.begin() + static_cast<ptrdiff_t>(at));
        break;
      case 6: {
        const Instruction copy = code[Below(code.size())];
        code.insert(code.begin() + static_cast<ptrdiff_t>(at), copy);
        break;
      }
      default:
        std::swap(code[at], code[Below(code.size())]);
        break;
    }
  }
  return code;
}

std::vector<Instruction> Generator::MakeNumbers() {
  code_.clear();
  Emit(kLdx | kMemory | kWord8, 0, 1, 0, 0);
  Emit(kLdx | kMemory | kWord8, 7, 1, 8, 0);
  Emit(kLdx | kMemory | kWord4, 8, 1, 16, 0);
  Emit(kLdx | kMemory | kWord1, 9, 1, 24, 0);
  Emit(kMov | kAlu64 | kRegisterOperand, 6, 1, 0, 0);
  for (int i = 1; i <= 4; ++i) Emit(kStx | kMemory | kWord8, kFrame, 0, int64_t{-8} * i, 0);
  const uint64_t count = 5 + Below(40);
  // Within a wide load no branch may end.
  std::vector<size_t> halves;
  for (uint64_t i = 0; i < count; ++i) {
    const size_t at = code_.size();
    const int size = kSizes[Below(kSizes.size())];
    const int bytes = AccessBytes(static_cast<uint8_t>(size));
    const int offset = -bytes * static_cast<int>(1 + Below(32 / bytes));
    switch (Below(6)) {
      case 0:
        BranchSomewhere();
        break;
      case 1:
        Emit(kStx | kMemory | size, kFrame, NumberRegister(), offset, 0);
        break;
      case 2:
        Emit(kLdx | kMemory | size, NumberRegister(), kFrame, offset, 0);
        break;
      default:
        Arithmetic(true);
        break;
    }
    if (code_[at].opcode == kWideLoad) halves.push_back(at + 1);
  }
  const size_t end = code_.size();
  for (const size_t at : branches_) {
    size_t target = std::min(end, at + 1 + Below(8));
    if (std::find(halves.begin(), halves.end(), target) != halves.end()) ++target;
    // What a jump that is always taken leaves out could not be reached.
    if (code_[at].opcode == kJumpAlways) target = at + 1;
    code_[at].offset = static_cast<int16_t>(target - at - 1);
  }
  branches_.clear();
  Emit(kMov | kAlu64 | kRegisterOperand, 2, 0, 0, 0);
  Emit(kRsh | kAlu64, 2, 0, 0, 32);
  Emit(kXor | kAlu64 | kRegisterOperand, 0, 2, 0, 0);
  Emit(kMov | kAlu32 | kRegisterOperand, 0, 0, 0, 0);
  Emit(kExit, 0, 0, 0, 0);
  return code_;
}

}  // namespace warpline::policy::bpf::testing
