#include "policy/bpf/machine_state.h"

namespace warpline::policy::bpf {
namespace {

// Whether the value is the unchanged result of a look-up, whatever is known of it.
bool IsResult(const Value& value) {
  return (value.kind == Kind::kValue && value.offset == 0) || value.kind == Kind::kValueOrNull ||
         value.kind == Kind::kNull;
}

Value Refined(const Value& value, uint16_t origin, bool is_null) {
  if (value.kind != Kind::kValueOrNull || value.origin != origin) return value;
  Value refined = value;
  refined.kind = is_null ? Kind::kNull : Kind::kValue;
  return refined;
}

}  // namespace

Value Join(const Value& a, const Value& b) {
  if (a == b) return a;
  if (a.kind == Kind::kUnwritten || b.kind == Kind::kUnwritten) return {};
  // The same call's result, of which one way knows more than the other, or the opposite.
  if (IsResult(a) && IsResult(b) && a.origin == b.origin && a.map == b.map) {
    return {.kind = Kind::kValueOrNull, .map = a.map, .origin = a.origin};
  }
  if (a.IsScalar() && b.IsScalar()) return kAnyScalar;
  return {.kind = Kind::kMixed};
}

MachineState MachineState::AtEntry() {
  MachineState state;
  state.reg(1).kind = Kind::kContext;
  state.reg(kFrame).kind = Kind::kStack;
  return state;
}

Value MachineState::LoadStack(int offset, int bytes) const {
  const StackWord& word = stack_[WordOf(offset)];
  if (word.stored.kind != Kind::kUnwritten && bytes == 8) return word.stored;
  if (word.stored.IsReference()) return {.kind = Kind::kMixed};
  return IsWritten(offset, bytes) ? kAnyScalar : Value{};
}

void MachineState::StoreStack(int offset, int bytes, const Value& value) {
  StackWord& word = stack_[WordOf(offset)];
  word.stored = {};
  if (bytes == 8 && value.kind != Kind::kScalar) word.stored = value;
  if (value.IsReference()) {
    word.written_bytes = 0;
  } else {
    word.written_bytes |= BytesMask(offset, bytes);
  }
}

bool MachineState::IsWritten(int offset, int bytes) const {
  for (int end = offset + bytes; offset < end; ++offset) {
    if ((stack_[WordOf(offset)].written_bytes & BytesMask(offset, 1)) == 0) return false;
  }
  return true;
}

void MachineState::Refine(uint16_t origin, bool is_null) {
  for (Value& value : registers_) value = Refined(value, origin, is_null);
  for (StackWord& word : stack_) {
    const Value refined = Refined(word.stored, origin, is_null);
    if (refined == word.stored) continue;
    word.stored = refined;
    if (is_null) word.written_bytes = 0xff;
  }
}

void MachineState::JoinWith(const MachineState& other) {
  for (int i = 0; i < kRegisters; ++i) registers_[i] = Join(registers_[i], other.registers_[i]);
  for (int i = 0; i < kWords; ++i) {
    StackWord& word = stack_[i];
    word.written_bytes &= other.stack_[i].written_bytes;
    word.stored = Join(word.stored, other.stack_[i].stored);
    const bool is_kept = word.stored.IsReference() || word.stored.kind == Kind::kNull;
    if (!is_kept) word.stored = {};
  }
}

}  // namespace warpline::policy::bpf
