// Lowers loads, stores and atomics.

#include "absl/strings/str_cat.h"
#include "ptx/printer.h"
#include "server/device/cpu/execution/memory_ops.h"
#include "server/device/cpu/lowering/function_lowering.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {

// Returns false for a space that this device does not have.
bool FunctionLowering::SpaceOf(ptx::StateSpace space, Space* out) const {
  switch (space) {
    case ptx::StateSpace::kGeneric:
      *out = Space::kGeneric;
      return true;
    case ptx::StateSpace::kGlobal:
    case ptx::StateSpace::kConst:
      *out = Space::kGlobal;
      return true;
    case ptx::StateSpace::kShared:
      *out = Space::kShared;
      return true;
    case ptx::StateSpace::kLocal:
      *out = Space::kLocal;
      return true;
    case ptx::StateSpace::kParam:
      // The parameters of a .func live in the local frame.
      *out = function_.is_entry ? Space::kParam : Space::kLocal;
      return true;
    case ptx::StateSpace::kSharedCluster:
      return false;
  }
  return false;
}

// Fills in the address fields of `op`, which must not have been emitted yet, because this may emit
// others.
bool FunctionLowering::ResolveAddress(const Operand& operand, Space space, Op* op) {
  if (operand.kind != Operand::Kind::kAddress || !operand.elements.empty()) {
    return Invalid("expected an address");
  }
  op->space = space;
  op->imm = static_cast<uint64_t>(operand.offset);
  op->r[0] = kNoSlot;
  if (operand.name.empty()) {
    // An absolute address of a local variable would depend on the layout that this device chooses.
    if (space == Space::kLocal) return Unsupported("absolute local address");
    return true;
  }
  Operand base;
  base.name = operand.name;
  Symbol symbol;
  if (RegisterOf(base, &symbol)) {
    if (symbol.width != Width::k32 && symbol.width != Width::k64) {
      return Invalid("address register has the wrong size");
    }
    if (symbol.width == Width::k32 && space != Space::kShared && space != Space::kLocal &&
        space != Space::kParam) {
      return Invalid("32-bit address of global memory");
    }
    op->r[0] = symbol.slot;
    op->wide_address = symbol.width == Width::k64;
    return true;
  }
  if (const Symbol* const found = Find(operand.name)) {
    const Space its = found->kind == Symbol::Kind::kParam    ? Space::kParam
                      : found->kind == Symbol::Kind::kShared ? Space::kShared
                                                             : Space::kLocal;
    // A .param of a call site is local memory, in a kernel as well.
    if (space != its && space != Space::kGeneric &&
        !(space == Space::kParam && its == Space::kLocal)) {
      return Invalid("variable of another state space");
    }
    op->space = its;
    op->imm += found->offset;
    return true;
  }
  uint32_t slot;
  bool known = false;
  if (!SymbolAddress(base, space == Space::kShared ? 'i' : 'l', &slot, &known)) return false;
  if (!known) return Invalid(absl::StrCat("unknown symbol ", operand.name));
  if (space == Space::kGeneric && kernel_->symbols->shared.count(operand.name) != 0) {
    op->space = Space::kShared;
  }
  op->r[0] = slot;
  op->wide_address = space != Space::kShared;
  return true;
}

bool FunctionLowering::ElementsOf(const Instruction& in, const ptx::Description& what,
                                  Elements* elements) {
  const int bytes = ptx::TypeBytes(what.type());
  if (bytes == 0 || bytes > 8 || what.vector() > 4 || what.accesses()[0].bytes > 16) {
    return Unsupported(in);
  }
  const Operand& data = in.operands[what.accesses()[0].operand == 0 ? 1 : 0];
  const bool is_vector = data.kind == Operand::Kind::kVector;
  elements->count = what.vector();
  if ((is_vector ? data.elements.size() : 1) != elements->count) {
    return Invalid(absl::StrCat("wrong number of elements: ", ptx::Print(in)));
  }
  for (size_t i = 0; i < elements->count; ++i) {
    elements->operands[i] = is_vector ? &data.elements[i] : &data;
  }
  return true;
}

bool FunctionLowering::LowerLoad(const Instruction& in, const ptx::Description& what) {
  const ptx::MemoryAccess& access = what.accesses()[0];
  Elements elements;
  Space space;
  Op op;
  if (!ElementsOf(in, what, &elements)) return false;
  if (!SpaceOf(access.space, &space)) return Unsupported(in);
  if (!ResolveAddress(in.operands[access.operand], space, &op)) return false;
  const int bytes = ptx::TypeBytes(what.type());
  Width width = Width::k16;
  TypeWidth(what.type(), &width);
  bool first = true;
  for (size_t i = 0; i < elements.count; ++i) {
    const Operand& element = *elements.operands[i];
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
  for (size_t i = 0; i < elements.count; ++i) {
    if (op.r[1 + i] == kNoSlot) op.r[1 + i] = NewSlot(width);
  }
  op.memory = FindLoad(bytes, ptx::IsSignedType(what.type()), width);
  if (op.memory == nullptr) return Unsupported(in);
  op.kind = OpKind::kLoad;
  op.vector = static_cast<uint8_t>(elements.count);
  op.bytes = static_cast<uint8_t>(bytes);
  op.ordered = what.ordered();
  EmitPrepared(op);
  return true;
}

bool FunctionLowering::LowerStore(const Instruction& in, const ptx::Description& what) {
  const ptx::MemoryAccess& access = what.accesses()[0];
  Elements elements;
  Space space;
  Op op;
  if (!ElementsOf(in, what, &elements)) return false;
  if (access.space == ptx::StateSpace::kConst) return Invalid("store to constant memory");
  if (!SpaceOf(access.space, &space)) return Unsupported(in);
  if (!ResolveAddress(in.operands[access.operand], space, &op)) return false;
  if (op.space == Space::kParam) return Invalid("store to a kernel parameter");
  const int bytes = ptx::TypeBytes(what.type());
  Width width = Width::kPred;
  for (size_t i = 0; i < elements.count; ++i) {
    Symbol symbol;
    if (!RegisterOf(*elements.operands[i], &symbol)) continue;
    if (symbol.width == Width::kPred || static_cast<int>(symbol.width) < bytes) {
      return Invalid("register is narrower than the type");
    }
    if (width != Width::kPred && width != symbol.width) return Unsupported(in);
    width = symbol.width;
  }
  if (width == Width::kPred) TypeWidth(what.type(), &width);  // For literals only.
  char code = CodeOf(width);
  for (size_t i = 0; i < elements.count; ++i) {
    const Operand& element = *elements.operands[i];
    if (element.kind != Operand::Kind::kName && ptx::IsFloatType(what.type())) {
      code = CodeOf(what.type());
    }
    if (!Source(element, code, &op.r[1 + i])) return false;
  }
  op.memory = FindStore(bytes, width);
  if (op.memory == nullptr) return Unsupported(in);
  op.kind = OpKind::kStore;
  op.vector = static_cast<uint8_t>(elements.count);
  op.bytes = static_cast<uint8_t>(bytes);
  op.ordered = what.ordered();
  EmitPrepared(op);
  return true;
}

// A vector becomes one atomic for each element, which is all that PTX promises.
bool FunctionLowering::LowerAtomic(const Instruction& in, const ptx::Description& what) {
  const ptx::MemoryAccess& access = what.accesses()[0];
  const AtomicRow* const row = FindAtomic(what.operation(), what.type());
  Space space;
  if (row == nullptr || access.space == ptx::StateSpace::kConst || !SpaceOf(access.space, &space)) {
    return Unsupported(in);
  }
  const size_t given = access.operand + size_t{1};
  if (in.operands.size() < given + row->operands) return Invalid("wrong number of operands");
  const bool returns = access.operand > 0;
  const bool is_vector = what.vector() > 1;
  if (is_vector && (row->operands != 1 || in.operands[given].elements.size() != what.vector() ||
                    (returns && in.operands[0].elements.size() != what.vector()))) {
    return Invalid(absl::StrCat("wrong number of elements: ", ptx::Print(in)));
  }
  const char code = CodeOf(what.type());
  for (size_t element = 0; element < what.vector(); ++element) {
    const auto of = [&](const Operand& operand) -> const Operand& {
      return is_vector ? operand.elements[element] : operand;
    };
    Operand address = in.operands[access.operand];
    address.offset = static_cast<int64_t>(static_cast<uint64_t>(address.offset) +
                                          element * static_cast<uint64_t>(row->bytes));
    Op op;
    if (!ResolveAddress(address, space, &op)) return false;
    for (size_t i = 0; i < row->operands; ++i) {
      if (!Source(of(in.operands[given + i]), code, &op.r[2 + i])) return false;
    }
    if (returns && of(in.operands[0]).name != "_" &&
        !Destination(of(in.operands[0]), code, &op.r[1])) {
      return false;
    }
    op.memory = row->fn;
    op.kind = OpKind::kAtomic;
    op.bytes = row->bytes;
    EmitPrepared(op);
  }
  return true;
}

}  // namespace warpline::cpu
