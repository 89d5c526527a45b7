#include "server/device/cpu/lowering/async_lowering.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/device/cpu/execution/async_ops.h"

namespace warpline::cpu {
namespace {

bool Has(const ptx::Instruction& in, std::string_view modifier) {
  for (const std::string& m : in.modifiers) {
    if (m == modifier) return true;
  }
  return false;
}

}  // namespace

bool AsyncLowering::Copy(const Instruction& in, const ptx::Description& what) {
  const ptx::MemoryAccess& target = what.accesses()[0];
  const uint64_t bytes = target.bytes;
  if (bytes != 4 && bytes != 8 && bytes != 16) return Invalid("cp.async of a wrong size");
  uint32_t to, from, take = Constant(Width::k32, bytes);
  if (!GenericAddress(in, target, &to)) return false;
  if (!GenericAddress(in, what.accesses()[1], &from)) return false;
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

// The arrival that stands for the copies so far. Without .noinc it was added to the count.
bool AsyncLowering::ArriveAfterCopies(const Instruction& in, const ptx::Description& what) {
  if (!Has(in, "noinc")) return true;
  uint32_t barrier;
  if (!GenericAddress(in, what.accesses()[0], &barrier)) return false;
  const uint32_t one = Constant(Width::k32, 1);
  Op& op = EmitHandler(BarrierArrive);
  op.r[1] = barrier;
  op.r[2] = one;
  return true;
}

bool AsyncLowering::Init(const Instruction& in, const ptx::Description& what) {
  uint32_t barrier, count;
  if (!GenericAddress(in, what.accesses()[0], &barrier)) return false;
  if (!Source(in.operands[1], 'i', &count)) return false;
  Op& op = EmitHandler(BarrierInit);
  op.r[1] = barrier;
  op.r[2] = count;
  return true;
}

bool AsyncLowering::Arrive(const Instruction& in, const ptx::Description& what) {
  if (Has(in, "expect_tx")) return Unsupported(in);  // There are no bulk copies.
  const ptx::MemoryAccess& access = what.accesses()[0];
  const bool has_state = access.operand > 0;
  const size_t next = access.operand + size_t{1};
  uint32_t barrier, count = Constant(Width::k32, 1), state = kNoSlot;
  if (!GenericAddress(in, access, &barrier)) return false;
  if (in.operands.size() > next && !Source(in.operands[next], 'i', &count)) return false;
  if (has_state && in.operands[0].name != "_" && !Destination(in.operands[0], 'l', &state)) {
    return false;
  }
  Op& op = EmitHandler(BarrierArrive);
  op.r[0] = state;
  op.r[1] = barrier;
  op.r[2] = count;
  op.imm = in.modifiers[0] == "arrive_drop" ? 1 : 0;
  return true;
}

bool AsyncLowering::Test(const Instruction& in, const ptx::Description& what) {
  const bool parity = Has(in, "parity");
  uint32_t barrier, state, done;
  if (!GenericAddress(in, what.accesses()[0], &barrier)) return false;
  if (!Source(in.operands[2], parity ? 'i' : 'l', &state)) return false;
  if (!Destination(in.operands[0], 'p', &done)) return false;
  Op& op = EmitHandler(BarrierTest);
  op.r[0] = done;
  op.r[1] = barrier;
  op.r[2] = state;
  op.imm = parity ? 1 : 0;
  op.ordered = true;
  return true;
}

bool AsyncLowering::Pending(const Instruction& in) {
  uint32_t state, count;
  if (!Source(in.operands[1], 'l', &state) || !Destination(in.operands[0], 'i', &count)) {
    return false;
  }
  Op& op = EmitHandler(BarrierPending);
  op.r[0] = count;
  op.r[1] = state;
  return true;
}

}  // namespace warpline::cpu
