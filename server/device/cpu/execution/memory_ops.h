// Loads, stores and atomics of a warp: checks every lane's address, then touches memory.
//
// A fault has the result that CUDA gives: 700 for an address outside what is mapped, 716 for a
// misaligned one.
#ifndef WARPLINE_SERVER_DEVICE_CPU_EXECUTION_MEMORY_OPS_H_
#define WARPLINE_SERVER_DEVICE_CPU_EXECUTION_MEMORY_OPS_H_

#include <cstdint>
#include <string_view>

#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// Returns the handler that loads elements of `bytes` in memory, sign-extended or not, into
// registers of `width`, or null for a combination that PTX does not have.
//
// Op::r[0] is the address register or kNoSlot, and r[1] to r[4] are the data; Op::imm is added to
// the address.
MemoryFn FindLoad(int bytes, bool is_signed, Width width);
MemoryFn FindStore(int bytes, Width width);

// `operation` is "add", "min", ..., "cas"; `type` is the PTX type. Op::r[1] is the destination or
// kNoSlot, and r[2] and r[3] are the operands. `bytes` is the size of an operand, and `operands`
// says how many there are.
struct AtomicRow {
  const char* operation;
  const char* type;
  uint8_t bytes;
  uint8_t operands;
  MemoryFn fn;
};
const AtomicRow* FindAtomic(std::string_view operation, std::string_view type);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_EXECUTION_MEMORY_OPS_H_
