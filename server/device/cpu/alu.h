// Arithmetic on the lanes of a warp: one function per instruction, found by mnemonic.
//
// The functions exist twice, for any x86-64 and for AVX2 with FMA; the table picks what this
// processor has. Mnemonics are those of PTX less what changes nothing: `add.rn.f32` is "add.f32".
#ifndef WARPLINE_SERVER_DEVICE_CPU_ALU_H_
#define WARPLINE_SERVER_DEVICE_CPU_ALU_H_

#include <string_view>

#include "server/device/cpu/op.h"

namespace warpline::cpu {

struct AluRow {
  const char* mnemonic;
  // Operands, destination first: h, i, l integers of 16, 32, 64 bits; f, d floats; p predicate.
  char operands[6];
  AluFn fn;
  bool uses_carry;  // r[5] is the carry flag, a predicate.
};

// Null for an instruction that is not implemented.
const AluRow* FindAlu(std::string_view mnemonic);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_ALU_H_
