// eBPF instructions as they lie in an object, and which of them the engine knows.
//
// The encoding is that of RFC 9669, section 3, little-endian. The engine knows arithmetic of 64 and
// 32 bits, byte swaps, plain loads and stores of 1 to 8 bytes, the wide load, jumps and branches of
// both widths, calls of helper functions and exit. It does not know atomic operations,
// sign-extending loads and moves, signed division, unconditional byte swaps, jumps of 32 bits,
// calls of functions of the program itself, and packet access. Everything here is immutable.
#ifndef WARPLINE_POLICY_BPF_INSTRUCTION_H_
#define WARPLINE_POLICY_BPF_INSTRUCTION_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace warpline::policy::bpf {

static_assert(std::endian::native == std::endian::little);

struct Instruction {
  uint8_t opcode = 0;
  uint8_t registers = 0;  // The destination in the low four bits, the source in the others.
  int16_t offset = 0;
  int32_t immediate = 0;

  constexpr uint8_t dst() const { return registers & 15; }
  constexpr uint8_t src() const { return registers >> 4; }
  friend bool operator==(const Instruction&, const Instruction&) = default;
};
static_assert(sizeof(Instruction) == 8);

inline constexpr int kRegisters = 11;
inline constexpr int kFrame = 10;  // r10: the end of the stack, which grows down from it.
inline constexpr int kStackBytes = 512;
inline constexpr size_t kMostInstructions = 4096;

// The low three bits of an opcode.
inline constexpr uint8_t kLd = 0;
inline constexpr uint8_t kLdx = 1;
inline constexpr uint8_t kSt = 2;
inline constexpr uint8_t kStx = 3;
inline constexpr uint8_t kAlu32 = 4;
inline constexpr uint8_t kJmp = 5;
inline constexpr uint8_t kJmp32 = 6;
inline constexpr uint8_t kAlu64 = 7;

// The high four bits of an opcode of arithmetic; bit 3 says that the operand is a register.
inline constexpr uint8_t kAdd = 0x00;
inline constexpr uint8_t kSub = 0x10;
inline constexpr uint8_t kMul = 0x20;
inline constexpr uint8_t kDiv = 0x30;
inline constexpr uint8_t kOr = 0x40;
inline constexpr uint8_t kAnd = 0x50;
inline constexpr uint8_t kLsh = 0x60;
inline constexpr uint8_t kRsh = 0x70;
inline constexpr uint8_t kNeg = 0x80;
inline constexpr uint8_t kMod = 0x90;
inline constexpr uint8_t kXor = 0xa0;
inline constexpr uint8_t kMov = 0xb0;
inline constexpr uint8_t kArsh = 0xc0;
inline constexpr uint8_t kSwap = 0xd0;

// The same of a jump.
inline constexpr uint8_t kJa = 0x00;
inline constexpr uint8_t kJeq = 0x10;
inline constexpr uint8_t kJgt = 0x20;
inline constexpr uint8_t kJge = 0x30;
inline constexpr uint8_t kJset = 0x40;
inline constexpr uint8_t kJne = 0x50;
inline constexpr uint8_t kJsgt = 0x60;
inline constexpr uint8_t kJsge = 0x70;
inline constexpr uint8_t kCallHelper = 0x80;
inline constexpr uint8_t kExitProgram = 0x90;
inline constexpr uint8_t kJlt = 0xa0;
inline constexpr uint8_t kJle = 0xb0;
inline constexpr uint8_t kJslt = 0xc0;
inline constexpr uint8_t kJsle = 0xd0;

inline constexpr uint8_t kRegisterOperand = 0x08;
inline constexpr uint8_t kMemory = 0x60;  // The mode of plain loads and stores.

// Sizes of loads and stores.
inline constexpr uint8_t kWord4 = 0x00;
inline constexpr uint8_t kWord2 = 0x08;
inline constexpr uint8_t kWord1 = 0x10;
inline constexpr uint8_t kWord8 = 0x18;

inline constexpr uint8_t kWideLoad = kLd | kWord8;  // Of two slots.
inline constexpr uint8_t kJumpAlways = kJmp | kJa;
inline constexpr uint8_t kCall = kJmp | kCallHelper;
inline constexpr uint8_t kExit = kJmp | kExitProgram;
// Byte order: the immediate says how many bits.
inline constexpr uint8_t kToLittle = kAlu32 | kSwap;
inline constexpr uint8_t kToBig = kAlu32 | kSwap | kRegisterOperand;

// The source of a wide load whose immediate is the number of a map.
inline constexpr uint8_t kMapReference = 1;

// How many bytes a load or store moves.
constexpr int AccessBytes(uint8_t opcode) {
  switch (opcode & 0x18) {
    case kWord8:
      return 8;
    case kWord4:
      return 4;
    case kWord2:
      return 2;
    default:
      return 1;
  }
}

// What an instruction's fields are used for. A field that is not used is 0.
enum class Shape : uint8_t {
  kUnknown,
  kAluImmediate,
  kAluRegister,
  kNegate,
  kByteSwap,
  kLoad,
  kStoreImmediate,
  kStoreRegister,
  kWide,
  kJump,
  kBranchImmediate,
  kBranchRegister,
  kCall,
  kExit,
};

struct FieldsUsed {
  bool dst, src, offset, immediate;
};

constexpr FieldsUsed FieldsOf(Shape shape) {
  switch (shape) {
    case Shape::kAluImmediate:
    case Shape::kByteSwap:
      return {true, false, false, true};
    case Shape::kAluRegister:
      return {true, true, false, false};
    case Shape::kNegate:
      return {true, false, false, false};
    case Shape::kLoad:
    case Shape::kStoreRegister:
    case Shape::kBranchRegister:
      return {true, true, true, false};
    case Shape::kStoreImmediate:
    case Shape::kBranchImmediate:
      return {true, false, true, true};
    case Shape::kWide:
      return {true, true, false, true};
    case Shape::kJump:
      return {false, false, true, false};
    case Shape::kCall:
      return {false, false, false, true};
    case Shape::kUnknown:
    case Shape::kExit:
      break;
  }
  return {false, false, false, false};
}

// The shape of each opcode. The verifier accepts what is known here, and the interpreter has it
// all.
inline constexpr std::array<Shape, 256> kShapes = [] {
  std::array<Shape, 256> shapes{};
  for (const int wide : {kAlu32, kAlu64}) {
    for (int operation = kAdd; operation <= kArsh; operation += 0x10) {
      if (operation == kNeg) continue;
      shapes[operation | wide] = Shape::kAluImmediate;
      shapes[operation | wide | kRegisterOperand] = Shape::kAluRegister;
    }
    shapes[kNeg | wide] = Shape::kNegate;
  }
  for (const int wide : {kJmp, kJmp32}) {
    for (int operation = kJeq; operation <= kJsle; operation += 0x10) {
      if (operation == kCallHelper || operation == kExitProgram) continue;
      shapes[operation | wide] = Shape::kBranchImmediate;
      shapes[operation | wide | kRegisterOperand] = Shape::kBranchRegister;
    }
  }
  for (const int size : {kWord1, kWord2, kWord4, kWord8}) {
    shapes[kLdx | kMemory | size] = Shape::kLoad;
    shapes[kSt | kMemory | size] = Shape::kStoreImmediate;
    shapes[kStx | kMemory | size] = Shape::kStoreRegister;
  }
  shapes[kToLittle] = shapes[kToBig] = Shape::kByteSwap;
  shapes[kWideLoad] = Shape::kWide;
  shapes[kJumpAlways] = Shape::kJump;
  shapes[kCall] = Shape::kCall;
  shapes[kExit] = Shape::kExit;
  return shapes;
}();

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_INSTRUCTION_H_
