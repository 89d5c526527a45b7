// Arithmetic on the lanes of a warp: one function per instruction, found by mnemonic.
//
// The functions exist twice, for any x86-64 and for AVX2 with FMA; the table picks what this
// processor has. Mnemonics are those of PTX without the modifiers that change nothing: `add.rn.f32`
// is "add.f32".
#ifndef WARPLINE_SERVER_DEVICE_CPU_ALU_ALU_H_
#define WARPLINE_SERVER_DEVICE_CPU_ALU_ALU_H_

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

struct AluRow {
  const char* mnemonic;
  // Operands, destination first: h, i, l integers of 16, 32, 64 bits; f, d floats; p predicate.
  char operands[6];
  AluFn fn;
  bool uses_carry;  // r[5] is the carry flag, a predicate.
};

using AluTable = std::unordered_map<std::string_view, const AluRow*>;

// Returns null for an instruction that is not implemented.
const AluRow* FindAlu(std::string_view mnemonic);

// The addresses of a memory operation's lanes, and what is known about them.
struct AddressSummary {
  uint64_t address[kLanes];  // Idle lanes repeat the address of an active one.
  uint64_t low;
  uint64_t high;
  uint64_t bits;     // All addresses or-ed together
  bool consecutive;  // All 32 lanes take part and follow each other without a gap.
};
// Adds `base` to the address register of `op`, if it has one. `mask` must not be empty.
using AddressFn = void (*)(const uint8_t* regs, const Op& op, uint32_t mask, uint32_t bytes,
                           uint64_t base, AddressSummary* out);
AddressFn FindAddressFn();

// The two tables, for comparison. The second must not be used without HasAvx2().
const AluTable& GenericAlu();
const AluTable& Avx2Alu();
bool HasAvx2();

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_ALU_ALU_H_
