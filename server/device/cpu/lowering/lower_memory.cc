// Loads, stores and atomics.
#include <string>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/execution/memory_ops.h"
#include "server/device/cpu/lowering/function_lowering.h"
#include "server/device/cpu/lowering/ptx_types.h"

namespace warpline::cpu {
namespace {

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// Caching hints, scopes and the like, which change nothing here.
bool IsHint(std::string_view text) {
  for (const std::string_view hint : {"weak", "cta", "cluster", "gpu", "sys", "ca", "cg", "cs",
                                      "cv", "lu", "wb", "wt", "nc", "unified", "noftz"}) {
    if (text == hint) return true;
  }
  return StartsWith(text, "L1::") || StartsWith(text, "L2::");
}
bool IsOrdering(std::string_view text) {
  for (const std::string_view order :
       {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}) {
    if (text == order) return true;
  }
  return false;
}

// True for a state space; sub-qualifiers such as shared::cta included.
bool FindSpace(std::string_view text, Space* space, bool* is_const) {
  *is_const = false;
  const std::string_view base = text.substr(0, text.find("::"));
  if (text == "shared::cluster") return false;
  if (base == "global") {
    *space = Space::kGlobal;
  } else if (base == "const") {
    *space = Space::kGlobal;
    *is_const = true;
  } else if (base == "shared") {
    *space = Space::kShared;
  } else if (base == "local") {
    *space = Space::kLocal;
  } else if (base == "param") {
    *space = Space::kParam;
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool FunctionLowering::ParseAccess(const Instruction& in, Access* access) {
  if (in.modifiers.empty()) return Invalid("access without a type");
  access->type = in.modifiers.back();
  for (size_t i = 0; i + 1 < in.modifiers.size(); ++i) {
    const std::string& modifier = in.modifiers[i];
    if (FindSpace(modifier, &access->space, &access->is_const) || IsHint(modifier)) continue;
    if (IsOrdering(modifier)) {
      access->ordered = true;
    } else if (modifier == "v2" || modifier == "v4") {
      access->vector = modifier[1] - '0';
    } else {
      return Unsupported(in);
    }
  }
  const int bytes = TypeBytes(access->type);
  if (bytes == 0 || bytes > 8 || bytes * access->vector > 16) return Unsupported(in);
  // In a .func parameters live in the local frame.
  if (access->space == Space::kParam && !function_.is_entry) access->space = Space::kLocal;
  return true;
}

// Fills the address fields of `op`, which must not have been emitted yet: this may emit others.
bool FunctionLowering::ResolveAddress(const Operand& operand, const Access& access, Op* op) {
  if (operand.kind != Operand::Kind::kAddress || !operand.elements.empty()) {
    return Invalid("expected an address");
  }
  op->space = access.space;
  op->imm = static_cast<uint64_t>(operand.offset);
  op->r[0] = kNoSlot;
  if (operand.name.empty()) {
    // An absolute address of a local variable would depend on our own layout.
    if (access.space == Space::kLocal) return Unsupported("absolute local address");
    return true;
  }
  Operand base;
  base.name = operand.name;
  Symbol symbol;
  if (RegisterOf(base, &symbol)) {
    if (symbol.width != Width::k32 && symbol.width != Width::k64) {
      return Invalid("address register has the wrong size");
    }
    if (symbol.width == Width::k32 && access.space != Space::kShared &&
        access.space != Space::kLocal && access.space != Space::kParam) {
      return Invalid("32-bit address of global memory");
    }
    op->r[0] = symbol.slot;
    op->wide_address = symbol.width == Width::k64;
    return true;
  }
  if (const Symbol* const found = Find(operand.name)) {
    const Space space = found->kind == Symbol::Kind::kParam    ? Space::kParam
                        : found->kind == Symbol::Kind::kShared ? Space::kShared
                                                               : Space::kLocal;
    // A .param of a call site is local memory, also in a kernel.
    if (access.space != space && access.space != Space::kGeneric &&
        !(access.space == Space::kParam && space == Space::kLocal)) {
      return Invalid("variable of another state space");
    }
    op->space = space;
    op->imm += found->offset;
    return true;
  }
  uint32_t slot;
  bool known = false;
  if (!SymbolAddress(base, access.space == Space::kShared ? 'i' : 'l', &slot, &known)) return false;
  if (!known) return Invalid(absl::StrCat("unknown symbol ", operand.name));
  if (access.space == Space::kGeneric && kernel_->symbols->shared.count(operand.name) != 0) {
    op->space = Space::kShared;
  }
  op->r[0] = slot;
  op->wide_address = access.space != Space::kShared;
  return true;
}

bool FunctionLowering::LowerLoad(const Instruction& in) {
  Access access;
  if (!ParseAccess(in, &access)) return false;
  if (in.operands.size() < 2) return Invalid("malformed load");
  Op op;
  if (!ResolveAddress(in.operands[1], access, &op)) return false;
  const Operand& data = in.operands[0];
  const bool is_vector = data.kind == Operand::Kind::kVector;
  const size_t count = static_cast<size_t>(access.vector);
  if (is_vector ? data.elements.size() != count : count != 1) return Invalid("malformed load");
  const int bytes = TypeBytes(access.type);
  Width width = Width::k16;
  TypeWidth(access.type, &width);
  bool first = true;
  for (size_t i = 0; i < count; ++i) {
    const Operand& element = is_vector ? data.elements[i] : data;
    if (element.name == "_") continue;
    Symbol symbol;
    if (!RegisterOf(element, &symbol) || symbol.width == Width::kPred ||
        static_cast<int>(symbol.width) < bytes) {
      return Invalid("destination is not a register that holds the type");
    }
    if (!first && symbol.width != width) return Unsupported(in);
    width = symbol.width;
    first = false;
    op.r[1 + i] = symbol.slot;
  }
  for (size_t i = 0; i < count; ++i) {
    if (op.r[1 + i] == kNoSlot) op.r[1 + i] = NewSlot(width);
  }
  op.memory = FindLoad(bytes, IsSignedType(access.type), width);
  if (op.memory == nullptr) return Unsupported(in);
  op.kind = OpKind::kLoad;
  op.vector = static_cast<uint8_t>(access.vector);
  op.bytes = static_cast<uint8_t>(bytes);
  op.ordered = access.ordered;
  Op& emitted = Emit(OpKind::kLoad);
  op.line = emitted.line;
  op.guard = emitted.guard;
  op.guard_negated = emitted.guard_negated;
  emitted = op;
  return true;
}

bool FunctionLowering::LowerStore(const Instruction& in) {
  Access access;
  if (!ParseAccess(in, &access)) return false;
  if (in.operands.size() < 2) return Invalid("malformed store");
  if (access.is_const) return Invalid("store to constant memory");
  Op op;
  if (!ResolveAddress(in.operands[0], access, &op)) return false;
  if (op.space == Space::kParam) return Invalid("store to a kernel parameter");
  const Operand& data = in.operands[1];
  const bool is_vector = data.kind == Operand::Kind::kVector;
  const size_t count = static_cast<size_t>(access.vector);
  if (is_vector ? data.elements.size() != count : count != 1) return Invalid("malformed store");
  const int bytes = TypeBytes(access.type);
  Width width = Width::kPred;
  for (size_t i = 0; i < count; ++i) {
    const Operand& element = is_vector ? data.elements[i] : data;
    Symbol symbol;
    if (!RegisterOf(element, &symbol)) continue;
    if (symbol.width == Width::kPred || static_cast<int>(symbol.width) < bytes) {
      return Invalid("register is narrower than the type");
    }
    if (width != Width::kPred && width != symbol.width) return Unsupported(in);
    width = symbol.width;
  }
  if (width == Width::kPred) TypeWidth(access.type, &width);  // Literals only
  char code = width == Width::k16 ? 'h' : width == Width::k32 ? 'i' : 'l';
  for (size_t i = 0; i < count; ++i) {
    const Operand& element = is_vector ? data.elements[i] : data;
    if (element.kind != Operand::Kind::kName && IsFloatType(access.type)) {
      code = access.type == "f32" ? 'f' : 'd';
    }
    if (!Source(element, code, &op.r[1 + i])) return false;
  }
  op.memory = FindStore(bytes, width);
  if (op.memory == nullptr) return Unsupported(in);
  op.kind = OpKind::kStore;
  op.vector = static_cast<uint8_t>(access.vector);
  op.bytes = static_cast<uint8_t>(bytes);
  op.ordered = access.ordered;
  Op& emitted = Emit(OpKind::kStore);
  op.line = emitted.line;
  op.guard = emitted.guard;
  op.guard_negated = emitted.guard_negated;
  emitted = op;
  return true;
}

// One atomic for each element, which is all that PTX promises.
bool FunctionLowering::LowerVectorAtomic(const Instruction& in) {
  const bool returns = in.opcode == "atom";
  Instruction scalar = in;
  size_t count = 0;
  for (size_t i = 0; i < scalar.modifiers.size(); ++i) {
    const std::string& modifier = scalar.modifiers[i];
    if (modifier != "v2" && modifier != "v4" && modifier != "v8") continue;
    count = static_cast<size_t>(modifier[1] - '0');
    scalar.modifiers.erase(scalar.modifiers.begin() + static_cast<ptrdiff_t>(i));
    break;
  }
  const size_t skip = returns ? 1 : 0;
  if (in.operands.size() != skip + 2 || in.operands[skip + 1].elements.size() != count ||
      (returns && in.operands[0].elements.size() != count)) {
    return Invalid("malformed vector atomic");
  }
  const int bytes = TypeBytes(in.modifiers.back());
  for (size_t i = 0; i < count; ++i) {
    scalar.operands = in.operands;
    if (returns) scalar.operands[0] = in.operands[0].elements[i];
    scalar.operands[skip].offset = static_cast<int64_t>(
        static_cast<uint64_t>(in.operands[skip].offset) + i * static_cast<uint64_t>(bytes));
    scalar.operands[skip + 1] = in.operands[skip + 1].elements[i];
    if (!LowerAtomic(scalar)) return false;
  }
  return true;
}

bool FunctionLowering::LowerAtomic(const Instruction& in) {
  Access access;
  std::string operation;
  if (in.modifiers.empty()) return Invalid("atomic without a type");
  access.type = in.modifiers.back();
  for (size_t i = 0; i + 1 < in.modifiers.size(); ++i) {
    const std::string& modifier = in.modifiers[i];
    if (FindSpace(modifier, &access.space, &access.is_const) || IsHint(modifier) ||
        IsOrdering(modifier)) {
      continue;
    }
    if (modifier == "v2" || modifier == "v4" || modifier == "v8") return LowerVectorAtomic(in);
    if (!operation.empty()) return Unsupported(in);
    operation = modifier;
  }
  const AtomicRow* const row = FindAtomic(operation, access.type);
  if (row == nullptr || access.is_const) return Unsupported(in);
  const size_t skip = in.opcode == "atom" ? 1 : 0;
  if (in.operands.size() < skip + 1 + row->operands) return Invalid("wrong number of operands");
  const char code = access.type == "f32"   ? 'f'
                    : access.type == "f64" ? 'd'
                    : row->bytes == 2      ? 'h'
                    : row->bytes == 4      ? 'i'
                                           : 'l';
  Op op;
  if (!ResolveAddress(in.operands[skip], access, &op)) return false;
  for (size_t i = 0; i < row->operands; ++i) {
    if (!Source(in.operands[skip + 1 + i], code, &op.r[2 + i])) return false;
  }
  if (skip == 1 && in.operands[0].name != "_" && !Destination(in.operands[0], code, &op.r[1])) {
    return false;
  }
  op.memory = row->fn;
  op.kind = OpKind::kAtomic;
  op.bytes = row->bytes;
  Op& emitted = Emit(OpKind::kAtomic);
  op.line = emitted.line;
  op.guard = emitted.guard;
  op.guard_negated = emitted.guard_negated;
  emitted = op;
  return true;
}

}  // namespace warpline::cpu
