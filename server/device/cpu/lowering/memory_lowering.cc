#include "server/device/cpu/lowering/memory_lowering.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "ptx/printer.h"
#include "ptx/types.h"
#include "server/device/cpu/execution/memory_ops.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {

bool MemoryLowering::ElementsOf(const Instruction& in, const ptx::Description& what,
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

bool MemoryLowering::Load(const Instruction& in, const ptx::Description& what) {
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

bool MemoryLowering::Store(const Instruction& in, const ptx::Description& what) {
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

// Of a vector, one atomic for each element, which is all that PTX promises.
bool MemoryLowering::Update(const Instruction& in, const ptx::Description& what) {
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
