#include "server/device/cpu/lowering/operand_lowering.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {
namespace {

struct SpecialRow {
  std::string_view name;
  Special special;
  Width width;
};
constexpr SpecialRow kSpecials[] = {
    {"%tid.x", Special::kTidX, Width::k32},
    {"%tid.y", Special::kTidY, Width::k32},
    {"%tid.z", Special::kTidZ, Width::k32},
    {"%ntid.x", Special::kNtidX, Width::k32},
    {"%ntid.y", Special::kNtidY, Width::k32},
    {"%ntid.z", Special::kNtidZ, Width::k32},
    {"%ctaid.x", Special::kCtaidX, Width::k32},
    {"%ctaid.y", Special::kCtaidY, Width::k32},
    {"%ctaid.z", Special::kCtaidZ, Width::k32},
    {"%nctaid.x", Special::kNctaidX, Width::k32},
    {"%nctaid.y", Special::kNctaidY, Width::k32},
    {"%nctaid.z", Special::kNctaidZ, Width::k32},
    {"%laneid", Special::kLaneId, Width::k32},
    {"%warpid", Special::kWarpId, Width::k32},
    {"%nwarpid", Special::kNwarpId, Width::k32},
    {"%smid", Special::kSmId, Width::k32},
    {"%nsmid", Special::kNsmId, Width::k32},
    {"%gridid", Special::kGridId, Width::k64},
    {"%lanemask_eq", Special::kLanemaskEq, Width::k32},
    {"%lanemask_le", Special::kLanemaskLe, Width::k32},
    {"%lanemask_lt", Special::kLanemaskLt, Width::k32},
    {"%lanemask_ge", Special::kLanemaskGe, Width::k32},
    {"%lanemask_gt", Special::kLanemaskGt, Width::k32},
    {"%clock", Special::kClock, Width::k32},
    {"%clock_hi", Special::kClockHi, Width::k32},
    {"%clock64", Special::kClock64, Width::k64},
    {"%globaltimer", Special::kGlobaltimer, Width::k64},
    {"%globaltimer_lo", Special::kGlobaltimerLo, Width::k32},
    {"%globaltimer_hi", Special::kGlobaltimerHi, Width::k32},
    {"%envreg0", Special::kZero, Width::k32},
    {"%envreg1", Special::kEnvReg1, Width::k32},
    {"%envreg2", Special::kEnvReg2, Width::k32},
    // Clusters consist of one block.
    {"%clusterid.x", Special::kCtaidX, Width::k32},
    {"%clusterid.y", Special::kCtaidY, Width::k32},
    {"%clusterid.z", Special::kCtaidZ, Width::k32},
    {"%nclusterid.x", Special::kNctaidX, Width::k32},
    {"%nclusterid.y", Special::kNctaidY, Width::k32},
    {"%nclusterid.z", Special::kNctaidZ, Width::k32},
    {"%cluster_ctaid.x", Special::kZero, Width::k32},
    {"%cluster_ctaid.y", Special::kZero, Width::k32},
    {"%cluster_ctaid.z", Special::kZero, Width::k32},
    {"%cluster_ctarank", Special::kZero, Width::k32},
    {"%cluster_nctaid.x", Special::kOne, Width::k32},
    {"%cluster_nctaid.y", Special::kOne, Width::k32},
    {"%cluster_nctaid.z", Special::kOne, Width::k32},
    {"%cluster_nctarank", Special::kOne, Width::k32},
    {"%total_smem_size", Special::kTotalSmem, Width::k32},
    {"%aggr_smem_size", Special::kAggrSmem, Width::k32},
    {"%dynamic_smem_size", Special::kDynamicSmem, Width::k32},
    {"%reserved_smem_offset_end", Special::kZero, Width::k32},
};

const SpecialRow* FindSpecial(std::string_view name) {
  for (const SpecialRow& row : kSpecials) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Finds the bits of a literal in an operand of the given code; returns false if it has no such
// meaning.
bool LiteralBits(const ptx::Operand& operand, char code, uint64_t* bits) {
  using Kind = ptx::Operand::Kind;
  *bits = operand.value;
  if (operand.kind == Kind::kInteger) return code != 'f' && code != 'd';
  if (operand.kind == Kind::kFloat32) {
    if (code != 'd') return code == 'f' || code == 'i';
    const auto narrow = static_cast<uint32_t>(operand.value);
    float value;
    std::memcpy(&value, &narrow, sizeof(value));
    const double wide = value;
    std::memcpy(bits, &wide, sizeof(wide));
    return true;
  }
  if (code != 'f') return code == 'd' || code == 'l';
  double wide;
  std::memcpy(&wide, &operand.value, sizeof(wide));
  const auto value = static_cast<float>(wide);
  uint32_t narrow;
  std::memcpy(&narrow, &value, sizeof(value));
  *bits = narrow;
  return true;
}

}  // namespace

bool OperandLowering::RegisterOf(const Operand& operand, Symbol* symbol) {
  if (operand.kind != Operand::Kind::kName) return false;
  const Symbol* const found = Find(operand.name);
  if (found == nullptr || found->kind != Symbol::Kind::kRegister) return false;
  *symbol = *found;
  if (operand.component.size() == 1 && found->vector_width > 1) {
    const size_t at = std::string_view("xyzw").find(operand.component[0]);
    const size_t color = std::string_view("rgba").find(operand.component[0]);
    const size_t element = at != std::string_view::npos ? at : color;
    if (element >= found->vector_width) return false;
    symbol->slot += static_cast<uint32_t>(element) * static_cast<uint32_t>(found->width) * kLanes;
  }
  return true;
}

bool OperandLowering::Source(const Operand& operand, char code, uint32_t* slot, bool* negated) {
  const Width width = WidthOf(code);
  if (code == 'p') {
    bool inverted = false;
    if (!Predicate(operand, slot, &inverted)) return false;
    if (negated != nullptr) {
      *negated = inverted;
    } else if (inverted) {
      const uint32_t flipped = NewSlot(Width::kPred);
      if (!EmitNamed("not.pred", flipped, *slot)) return false;
      *slot = flipped;
    }
    return true;
  }
  if (operand.kind == Operand::Kind::kInteger || operand.kind == Operand::Kind::kFloat32 ||
      operand.kind == Operand::Kind::kFloat64) {
    uint64_t bits;
    if (!LiteralBits(operand, code, &bits)) return Invalid("literal of the wrong type");
    *slot = Constant(width, bits);
    return true;
  }
  Symbol symbol;
  if (RegisterOf(operand, &symbol)) {
    if (symbol.width != width) {
      return Invalid(absl::StrCat("register ", operand.name, " has the wrong size"));
    }
    *slot = symbol.slot;
    return true;
  }
  if (operand.kind == Operand::Kind::kName && !operand.name.empty() && operand.name[0] == '%') {
    const std::string name = operand.component.empty()
                                 ? operand.name
                                 : absl::StrCat(operand.name, ".", operand.component);
    const SpecialRow* const row = FindSpecial(name);
    if (row == nullptr) return Unsupported(absl::StrCat("register ", name));
    *slot = code_.SpecialSlot(row->special, row->width);
    if (row->width == width) return true;
    // mov.u32 of a 64-bit register takes its low half, and mov.u64 of a 32-bit one extends it.
    const uint32_t converted = NewSlot(width);
    const std::string to = absl::StrCat("u", 8 * static_cast<int>(width));
    const std::string from = absl::StrCat("u", 8 * static_cast<int>(row->width));
    if (!EmitNamed(absl::StrCat("cvt.", to, ".", from), converted, *slot)) return false;
    *slot = converted;
    return true;
  }
  bool found = false;
  if (!SymbolAddress(operand, code, slot, &found)) return false;
  if (found) return true;
  return Invalid(absl::StrCat("unknown operand ", operand.name));
}

bool OperandLowering::SymbolAddress(const Operand& operand, char code, uint32_t* slot,
                                    bool* found) {
  const bool element = operand.kind == Operand::Kind::kElement;
  if (operand.kind != Operand::Kind::kName && !element) return true;
  if (code != 'l' && code != 'i') return true;
  const auto offset_of = [&](uint64_t element_bytes) {
    return static_cast<uint64_t>(operand.offset) * (element ? element_bytes : 1);
  };
  *found = true;
  if (const Symbol* const symbol = Find(operand.name)) {
    const uint64_t value = symbol->offset + offset_of(symbol->element_bytes);
    if (symbol->kind != Symbol::Kind::kLocal) {
      *slot = Constant(WidthOf(code), value);
      return true;
    }
    const uint32_t address = NewSlot(Width::k64);
    Op& op = Emit(OpKind::kLocalAddress);
    op.r[0] = address;
    op.imm = value;
    *slot = address;
    if (code == 'l') return true;
    *slot = NewSlot(Width::k32);
    return EmitNamed("cvt.u32.u64", *slot, address);
  }
  const ModuleSymbols& symbols = *kernel_->symbols;
  if (const auto it = symbols.globals.find(operand.name); it != symbols.globals.end()) {
    if (code != 'l') return Invalid("address of a variable in a 32-bit register");
    const uint64_t bytes =
        it->second.bytes / std::max<uint64_t>(it->second.variable->element_count, 1);
    *slot = Constant(Width::k64, it->second.address + offset_of(bytes));
    return true;
  }
  if (const auto it = symbols.shared.find(operand.name); it != symbols.shared.end()) {
    const uint64_t bytes =
        static_cast<uint64_t>(ptx::TypeBytes(it->second->type)) * it->second->vector_width;
    *slot = Constant(WidthOf(code), kernel_->shared_offsets[it->second] + offset_of(bytes));
    return true;
  }
  if (const auto it = symbols.functions.find(operand.name); it != symbols.functions.end()) {
    const uint64_t address = symbols.AddressOf(it->second);
    if (address == 0 || code != 'l') {
      return Unsupported(absl::StrCat("address of function ", operand.name));
    }
    *slot = Constant(Width::k64, address);
    return true;
  }
  *found = false;
  return true;
}

bool OperandLowering::Predicate(const Operand& operand, uint32_t* slot, bool* negated) {
  if (operand.kind == Operand::Kind::kInteger) {
    *slot = Constant(Width::kPred, operand.value != 0 ? 1 : 0);
    *negated = false;
    return true;
  }
  Symbol symbol;
  if (!RegisterOf(operand, &symbol) || symbol.width != Width::kPred) {
    return Invalid("expected a predicate register");
  }
  *slot = symbol.slot;
  *negated = operand.negated;
  return true;
}

bool OperandLowering::Destination(const Operand& operand, char code, uint32_t* slot) {
  if (operand.kind == Operand::Kind::kName && operand.name == "_") {
    *slot = NewSlot(WidthOf(code));
    return true;
  }
  Symbol symbol;
  if (!RegisterOf(operand, &symbol)) return Invalid("destination is not a register");
  if (symbol.width != WidthOf(code)) {
    return Invalid(absl::StrCat("register ", operand.name, " has the wrong size"));
  }
  *slot = symbol.slot;
  return true;
}

bool OperandLowering::SpaceOf(ptx::StateSpace space, Space* out) const {
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
      // In a .func parameters live in the local frame.
      *out = function_.is_entry ? Space::kParam : Space::kLocal;
      return true;
    case ptx::StateSpace::kSharedCluster:
      return false;
  }
  return false;
}

bool OperandLowering::ResolveAddress(const Operand& operand, Space space, Op* op) {
  if (operand.kind != Operand::Kind::kAddress || !operand.elements.empty()) {
    return Invalid("expected an address");
  }
  op->space = space;
  op->imm = static_cast<uint64_t>(operand.offset);
  op->r[0] = kNoSlot;
  if (operand.name.empty()) {
    // An absolute address of a local variable would depend on our own layout.
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
    // A .param of a call site is local memory, also in a kernel.
    if (space != its && space != Space::kGeneric &&
        !(space == Space::kParam && its == Space::kLocal)) {
      return Invalid("variable of another state space");
    }
    op->space = its;
    op->imm += found->offset;
    return true;
  }
  uint32_t slot = kNoSlot;
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

bool OperandLowering::GenericAddress(const Instruction& in, const ptx::MemoryAccess& access,
                                     uint32_t* slot) {
  Space space;
  if (!SpaceOf(access.space, &space)) return Unsupported(in);
  Op op;
  if (!ResolveAddress(in.operands[access.operand], space, &op)) return false;
  const uint64_t window = op.space == Space::kShared  ? kSharedWindow
                          : op.space == Space::kLocal ? kLocalWindow
                          : op.space == Space::kParam ? kParamWindow
                                                      : 0;
  // Beyond a window's end a place would lead to memory elsewhere. Its last ones fault, too.
  constexpr uint64_t kLastPlace = kWindowBytes - 128;
  if (op.r[0] == kNoSlot) {
    const uint64_t place = window == 0 ? op.imm : window + std::min(uint64_t{op.imm}, kLastPlace);
    if (op.space != Space::kLocal) {
      *slot = Constant(Width::k64, place);
      return true;
    }
    *slot = NewSlot(Width::k64);
    Op& address = Emit(OpKind::kLocalAddress);
    address.r[0] = *slot;
    address.imm = place;
    return true;
  }
  *slot = op.r[0];
  if (!op.wide_address) {
    *slot = NewSlot(Width::k64);
    if (!EmitNamed("cvt.u64.u32", *slot, op.r[0])) return false;
  }
  const auto then = [&](const char* name, uint64_t value) {
    const uint32_t before = *slot;
    *slot = NewSlot(Width::k64);
    return EmitNamed(name, *slot, before, Constant(Width::k64, value));
  };
  if (op.imm != 0 && !then("add.u64", op.imm)) return false;
  return window == 0 || (then("min.u64", kLastPlace) && then("add.u64", window));
}

}  // namespace warpline::cpu
