// What the verifier knows of registers and stack before an instruction: the abstract values, and
// how two ways to the same instruction join.
#ifndef WARPLINE_POLICY_BPF_MACHINE_STATE_H_
#define WARPLINE_POLICY_BPF_MACHINE_STATE_H_

#include <array>
#include <cstdint>

#include "policy/bpf/instruction.h"

namespace warpline::policy::bpf {

enum class Kind : uint8_t {
  kUnwritten,    // On some way to here nothing was written.
  kMixed,        // Different things on different ways to here: of no use until it is written again.
  kScalar,       // Any number.
  kContext,      // The address of the context, plus `offset`.
  kStack,        // The address of the end of the stack, plus `offset`.
  kMap,          // The map with the number `map`.
  kValue,        // The address of a value of `map`, plus `offset`.
  kValueOrNull,  // What the look-up at `origin` returned: the address of a value of `map`, or 0.
  kNull,         // The same, where it was 0. A number, too.
};

// An abstract value. Of a look-up's result the copies are known by its `origin`, the place of the
// call: a program has no loops, so a call returns once.
struct Value {
  Kind kind = Kind::kUnwritten;
  uint16_t map = 0;
  uint16_t origin = 0;  // Of kValue, kValueOrNull, kNull.
  int32_t offset = 0;

  bool IsScalar() const { return kind == Kind::kScalar || kind == Kind::kNull; }
  // An address, or a map.
  bool IsReference() const { return kind >= Kind::kContext && kind <= Kind::kValueOrNull; }
  friend bool operator==(const Value&, const Value&) = default;
};

inline constexpr Value kAnyScalar = {.kind = Kind::kScalar};

// What holds for both.
Value Join(const Value& a, const Value& b);

// Eight bytes of the stack. Either bytes of numbers, of which some are written, or one Value that
// was stored as a whole.
struct StackWord {
  Value stored;               // A reference or kNull; otherwise kUnwritten.
  uint8_t written_bytes = 0;  // A bit for each byte that holds (part of) a number.

  friend bool operator==(const StackWord&, const StackWord&) = default;
};

// Copied for each branch: 1.1 KiB. Offsets of the stack are from its end, and so below 0; the
// caller has checked that what is named lies within the stack.
class MachineState {
 public:
  // At the start of a program: r1 has the context, r10 the stack.
  static MachineState AtEntry();

  Value& reg(int number) { return registers_[number]; }
  const Value& reg(int number) const { return registers_[number]; }

  // The result of a load of an aligned word of `bytes`: kUnwritten if a byte was not written,
  // kMixed if it would be a part of a reference.
  Value LoadStack(int offset, int bytes) const;
  // Stores a value that is written and not mixed. A reference takes 8 bytes.
  void StoreStack(int offset, int bytes, const Value& value);
  // Whether these bytes are all written, and of numbers.
  bool IsWritten(int offset, int bytes) const;

  // The result of the look-up at `origin` has been compared with 0.
  void Refine(uint16_t origin, bool is_null);

  void JoinWith(const MachineState& other);

 private:
  static constexpr int kWords = kStackBytes / 8;
  static int WordOf(int offset) { return (offset + kStackBytes) / 8; }
  static uint8_t BytesMask(int offset, int bytes) {
    return static_cast<uint8_t>(((1 << bytes) - 1) << ((offset + kStackBytes) % 8));
  }

  std::array<Value, kRegisters> registers_;
  std::array<StackWord, kWords> stack_;
};

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_MACHINE_STATE_H_
