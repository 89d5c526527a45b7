#include "policy/bpf/interpreter.h"

#include <array>
#include <bit>
#include <cstddef>

namespace warpline::policy::bpf {
namespace {

// Words of memory that may be cells of maps, which other threads write at the same time, and fields
// of structures of other types. GCC forgets the attribute of what depends on a template's type.
using Word1 [[gnu::may_alias]] = uint8_t;
using Word2 [[gnu::may_alias]] = uint16_t;
using Word4 [[gnu::may_alias]] = uint32_t;
using Word8 [[gnu::may_alias]] = uint64_t;

int64_t Signed(uint64_t value) { return static_cast<int64_t>(value); }
int32_t Signed(uint32_t value) { return static_cast<int32_t>(value); }

// The number that lies in memory with its most significant byte first where `value` lies with its
// least significant one first.
uint64_t ToBig(uint64_t value, int64_t bits) {
  const uint64_t swapped = __builtin_bswap64(value);
  return swapped >> (64 - bits);
}

uint64_t ToLittle(uint64_t value, int64_t bits) {
  return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

// No instruction has it; what the verifier rules out becomes this, and ends the program.
constexpr uint8_t kNoOpcode = 0;
static_assert(kShapes[kNoOpcode] == Shape::kUnknown);

// The address of a helper's function, as a step has it.
int64_t AddressOf(int32_t number, absl::Span<const Helper> helpers) {
  for (const Helper& helper : helpers) {
    if (helper.number == number) return reinterpret_cast<int64_t>(helper.call);
  }
  return 0;
}

}  // namespace

Executable::Executable(absl::Span<const Instruction> code,
                       absl::Span<const std::shared_ptr<Map>> maps,
                       absl::Span<const Helper> helpers) {
  steps_.reserve(code.size() + 1);
  for (size_t pc = 0; pc < code.size(); ++pc) {
    const Instruction& instruction = code[pc];
    Step step = {.opcode = instruction.opcode,
                 .dst = instruction.dst(),
                 .src = instruction.src(),
                 .offset = instruction.offset,
                 .immediate = instruction.immediate};
    const size_t target = pc + 1 + static_cast<size_t>(int64_t{instruction.offset});
    const bool jumps = (step.opcode & 7) == kJmp || (step.opcode & 7) == kJmp32;
    if (jumps && target > code.size()) step.opcode = kNoOpcode;
    if (step.opcode == kCall) {
      step.immediate = AddressOf(instruction.immediate, helpers);
      if (step.immediate == 0) step.opcode = kNoOpcode;
    }
    const bool is_wide = step.opcode == kWideLoad && pc + 1 < code.size();
    if (step.opcode == kWideLoad && !is_wide) step.opcode = kNoOpcode;
    if (is_wide && step.src == kMapReference) {
      step.immediate = reinterpret_cast<int64_t>(maps[instruction.immediate].get());
    } else if (is_wide) {
      step.immediate =
          std::bit_cast<int64_t>(uint64_t{static_cast<uint32_t>(code[pc + 1].immediate)} << 32 |
                                 static_cast<uint32_t>(instruction.immediate));
    }
    steps_.push_back(step);
    if (is_wide) {
      steps_.emplace_back();  // What is behind it is the next step but one.
      ++pc;
    }
  }
  steps_.emplace_back();  // The end, where no program arrives.
}

// Each of these stands for the cases of one operation: of 64 and 32 bits, with an immediate and
// with a register. `a` is the destination, `b` the operand, `T` their unsigned type.
#define WARPLINE_ARITHMETIC_CASE(operation, T, wide, operand, expression) \
  case (operation) | (wide): {                                            \
    const T a = static_cast<T>(r[step.dst]);                              \
    const T b = static_cast<T>(operand);                                  \
    (void)a;                                                              \
    r[step.dst] = static_cast<T>(expression);                             \
    break;                                                                \
  }
#define WARPLINE_ARITHMETIC(operation, expression)                                      \
  WARPLINE_ARITHMETIC_CASE(operation, uint64_t, kAlu64, step.immediate, expression)     \
  WARPLINE_ARITHMETIC_CASE(operation, uint64_t, kAlu64 | kRegisterOperand, r[step.src], \
                           expression)                                                  \
  WARPLINE_ARITHMETIC_CASE(operation, uint32_t, kAlu32, step.immediate, expression)     \
  WARPLINE_ARITHMETIC_CASE(operation, uint32_t, kAlu32 | kRegisterOperand, r[step.src], expression)

#define WARPLINE_BRANCH_CASE(operation, T, wide, operand, condition) \
  case (operation) | (wide): {                                       \
    const T a = static_cast<T>(r[step.dst]);                         \
    const T b = static_cast<T>(operand);                             \
    if (condition) at += step.offset;                                \
    break;                                                           \
  }
#define WARPLINE_BRANCH(operation, condition)                                                \
  WARPLINE_BRANCH_CASE(operation, uint64_t, kJmp, step.immediate, condition)                 \
  WARPLINE_BRANCH_CASE(operation, uint64_t, kJmp | kRegisterOperand, r[step.src], condition) \
  WARPLINE_BRANCH_CASE(operation, uint32_t, kJmp32, step.immediate, condition)               \
  WARPLINE_BRANCH_CASE(operation, uint32_t, kJmp32 | kRegisterOperand, r[step.src], condition)

// NOLINTBEGIN(bugprone-macro-parentheses): Word is a type.
#define WARPLINE_LOAD(Word, reg) \
  __atomic_load_n(reinterpret_cast<const Word*>(r[reg] + step.offset), __ATOMIC_RELAXED)
#define WARPLINE_STORE(Word, reg, value)                                                    \
  __atomic_store_n(reinterpret_cast<Word*>(r[reg] + step.offset), static_cast<Word>(value), \
                   __ATOMIC_RELAXED)
#define WARPLINE_ACCESS(size, Word)                 \
  case kLdx | kMemory | (size):                     \
    r[step.dst] = WARPLINE_LOAD(Word, step.src);    \
    break;                                          \
  case kSt | kMemory | (size):                      \
    WARPLINE_STORE(Word, step.dst, step.immediate); \
    break;                                          \
  case kStx | kMemory | (size):                     \
    WARPLINE_STORE(Word, step.dst, r[step.src]);    \
    break;
// NOLINTEND(bugprone-macro-parentheses)

std::optional<uint64_t> Executable::Run(const void* context, void* self) const {
  // Not set to zeros: a program reads what it has written.
  alignas(8) std::array<std::byte, kStackBytes> stack;
  std::array<uint64_t, kRegisters> registers = {};
  uint64_t* const r = registers.data();
  r[1] = reinterpret_cast<uint64_t>(context);
  r[kFrame] = reinterpret_cast<uint64_t>(stack.data() + stack.size());
  // No step is taken twice, since there are no loops.
  const Step* at = steps_.data();
  for (size_t left = steps_.size(); left != 0; --left, ++at) {
    const Step& step = *at;
    switch (step.opcode) {
      WARPLINE_ARITHMETIC(kAdd, a + b)
      WARPLINE_ARITHMETIC(kSub, a - b)
      WARPLINE_ARITHMETIC(kMul, a * b)
      WARPLINE_ARITHMETIC(kDiv, b == 0 ? 0 : a / b)
      WARPLINE_ARITHMETIC(kOr, a | b)
      WARPLINE_ARITHMETIC(kAnd, a & b)
      WARPLINE_ARITHMETIC(kLsh, a << (b & (sizeof(a) * 8 - 1)))
      WARPLINE_ARITHMETIC(kRsh, a >> (b & (sizeof(a) * 8 - 1)))
      WARPLINE_ARITHMETIC(kMod, b == 0 ? a : a % b)
      WARPLINE_ARITHMETIC(kXor, a ^ b)
      WARPLINE_ARITHMETIC(kMov, b)
      WARPLINE_ARITHMETIC(kArsh, Signed(a) >> (b & (sizeof(a) * 8 - 1)))
      case kNeg | kAlu64:
        r[step.dst] = -r[step.dst];
        break;
      case kNeg | kAlu32:
        r[step.dst] = -static_cast<uint32_t>(r[step.dst]);
        break;
      case kToLittle:
        r[step.dst] = ToLittle(r[step.dst], step.immediate);
        break;
      case kToBig:
        r[step.dst] = ToBig(r[step.dst], step.immediate);
        break;

        WARPLINE_ACCESS(kWord1, Word1)
        WARPLINE_ACCESS(kWord2, Word2)
        WARPLINE_ACCESS(kWord4, Word4)
        WARPLINE_ACCESS(kWord8, Word8)
      case kWideLoad:
        r[step.dst] = static_cast<uint64_t>(step.immediate);
        ++at;
        break;

        WARPLINE_BRANCH(kJeq, a == b)
        WARPLINE_BRANCH(kJgt, a > b)
        WARPLINE_BRANCH(kJge, a >= b)
        WARPLINE_BRANCH(kJset, (a & b) != 0)
        WARPLINE_BRANCH(kJne, a != b)
        WARPLINE_BRANCH(kJsgt, Signed(a) > Signed(b))
        WARPLINE_BRANCH(kJsge, Signed(a) >= Signed(b))
        WARPLINE_BRANCH(kJlt, a < b)
        WARPLINE_BRANCH(kJle, a <= b)
        WARPLINE_BRANCH(kJslt, Signed(a) < Signed(b))
        WARPLINE_BRANCH(kJsle, Signed(a) <= Signed(b))
      case kJumpAlways:
        at += step.offset;
        break;

      case kCall: {
        const auto function = reinterpret_cast<HelperFunction>(step.immediate);
        r[0] = function(self, r + 1);
        break;
      }
      case kExit:
        return r[0];
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

#undef WARPLINE_ARITHMETIC_CASE
#undef WARPLINE_ARITHMETIC
#undef WARPLINE_BRANCH_CASE
#undef WARPLINE_BRANCH
#undef WARPLINE_LOAD
#undef WARPLINE_STORE
#undef WARPLINE_ACCESS

}  // namespace warpline::policy::bpf
