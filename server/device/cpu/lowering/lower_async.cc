// cp.async, mbarrier, and generic addresses for handlers that check each lane themselves.
#include <string>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/execution/async_ops.h"
#include "server/device/cpu/lowering/function_lowering.h"

namespace warpline::cpu {
namespace {

bool Has(const ptx::Instruction& in, std::string_view modifier) {
  for (const std::string& m : in.modifiers) {
    if (m == modifier) return true;
  }
  return false;
}

}  // namespace

bool FunctionLowering::GenericAddress(const Operand& operand, Space space, uint32_t* slot) {
  Access access;
  access.space = space;
  Op op;
  if (!ResolveAddress(operand, access, &op)) return false;
  uint64_t offset = op.imm;
  if (op.space == Space::kShared) offset += kSharedWindow;
  if (op.space == Space::kLocal) offset += kLocalWindow;
  if (op.space == Space::kParam) offset += kParamWindow;
  if (op.r[0] == kNoSlot) {
    if (op.space != Space::kLocal) {
      *slot = Constant(Width::k64, offset);
      return true;
    }
    *slot = NewSlot(Width::k64);
    Op& address = Emit(OpKind::kLocalAddress);
    address.r[0] = *slot;
    address.imm = offset;
    return true;
  }
  uint32_t base = op.r[0];
  if (!op.wide_address) {
    base = NewSlot(Width::k64);
    if (!EmitNamed("cvt.u64.u32", base, op.r[0])) return false;
  }
  *slot = base;
  if (offset == 0) return true;
  *slot = NewSlot(Width::k64);
  return EmitNamed("add.u64", *slot, base, Constant(Width::k64, offset));
}

Op& FunctionLowering::EmitHandler(MemoryFn fn) {
  Op& op = Emit(OpKind::kAtomic);
  op.memory = fn;
  return op;
}

bool FunctionLowering::LowerCpAsync(const Instruction& in) {
  if (in.modifiers.empty() || in.modifiers[0] != "async" || Has(in, "bulk")) return Unsupported(in);
  if (Has(in, "commit_group") || Has(in, "wait_group") || Has(in, "wait_all")) return true;
  if (Has(in, "mbarrier")) {
    // The arrival that stands for the copies so far. Without .noinc it was added to the count.
    if (!Has(in, "noinc")) return true;
    if (in.operands.size() != 1) return Invalid("malformed cp.async.mbarrier.arrive");
    uint32_t barrier;
    const Space space =
        Has(in, "shared") || Has(in, "shared::cta") ? Space::kShared : Space::kGeneric;
    if (!GenericAddress(in.operands[0], space, &barrier)) return false;
    const uint32_t one = Constant(Width::k32, 1);
    Op& op = EmitHandler(BarrierArrive);
    op.r[1] = barrier;
    op.r[2] = one;
    return true;
  }
  if (in.operands.size() < 3 || in.operands[2].kind != Operand::Kind::kInteger) {
    return Invalid("malformed cp.async");
  }
  const uint64_t bytes = in.operands[2].value;
  if (bytes != 4 && bytes != 8 && bytes != 16) return Invalid("cp.async of a wrong size");
  uint32_t to, from, take = Constant(Width::k32, bytes);
  if (!GenericAddress(in.operands[0], Space::kShared, &to)) return false;
  if (!GenericAddress(in.operands[1], Space::kGlobal, &from)) return false;
  Symbol symbol;
  if (in.operands.size() > 3 &&
      (!RegisterOf(in.operands[3], &symbol) || symbol.width != Width::k64)) {
    if (symbol.width == Width::kPred) return Unsupported(in);
    if (!Source(in.operands[3], 'i', &take)) return false;
  }
  Op& op = EmitHandler(CopyAsync);
  op.r[1] = to;
  op.r[2] = from;
  op.r[3] = take;
  op.imm = bytes;
  return true;
}

bool FunctionLowering::LowerMbarrier(const Instruction& in) {
  if (in.modifiers.empty() || Has(in, "shared::cluster")) return Unsupported(in);
  const std::string& operation = in.modifiers[0];
  const size_t count = in.operands.size();
  const Space space =
      Has(in, "shared") || Has(in, "shared::cta") ? Space::kShared : Space::kGeneric;
  uint32_t barrier, a = kNoSlot, d = kNoSlot;
  if (operation == "pending_count") {
    if (count != 2 || !Source(in.operands[1], 'l', &a)) return Invalid("malformed mbarrier");
    if (!Destination(in.operands[0], 'i', &d)) return false;
    Op& op = EmitHandler(BarrierPending);
    op.r[0] = d;
    op.r[1] = a;
    return true;
  }
  if (operation == "inval") return true;
  if (operation == "init") {
    if (count != 2) return Invalid("malformed mbarrier");
    if (!GenericAddress(in.operands[0], space, &barrier) || !Source(in.operands[1], 'i', &a)) {
      return false;
    }
    Op& op = EmitHandler(BarrierInit);
    op.r[1] = barrier;
    op.r[2] = a;
    return true;
  }
  const bool drops = operation == "arrive_drop";
  if (operation == "arrive" || drops) {
    if (Has(in, "expect_tx")) return Unsupported(in);
    // The state may be left out.
    const size_t first = count > 0 && in.operands[0].kind == Operand::Kind::kAddress ? 0 : 1;
    if (count < first + 1 || count > first + 2) return Invalid("malformed mbarrier");
    if (!GenericAddress(in.operands[first], space, &barrier)) return false;
    a = Constant(Width::k32, 1);
    if (count == first + 2 && !Source(in.operands[first + 1], 'i', &a)) return false;
    if (first == 1 && in.operands[0].name != "_" && !Destination(in.operands[0], 'l', &d)) {
      return false;
    }
    Op& op = EmitHandler(BarrierArrive);
    op.r[0] = d;
    op.r[1] = barrier;
    op.r[2] = a;
    op.imm = drops ? 1 : 0;
    return true;
  }
  if (operation != "test_wait" && operation != "try_wait") return Unsupported(in);
  const bool parity = Has(in, "parity");
  if (count < 3 || count > 4) return Invalid("malformed mbarrier");
  if (!GenericAddress(in.operands[1], space, &barrier)) return false;
  if (!Source(in.operands[2], parity ? 'i' : 'l', &a)) return false;
  if (!Destination(in.operands[0], 'p', &d)) return false;
  Op& op = EmitHandler(BarrierTest);
  op.r[0] = d;
  op.r[1] = barrier;
  op.r[2] = a;
  op.imm = parity ? 1 : 0;
  op.ordered = true;
  return true;
}

}  // namespace warpline::cpu
