// The letters of AluRow::operands for what an instruction takes in an operand, and the registers
// that hold it. Thread-safe.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_OPERAND_CODE_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_OPERAND_CODE_H_

#include <cstdint>
#include <string_view>

#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// Finds the width of the register slot that a type needs; 8-bit types use 16 bits. Returns false
// for types that are not supported.
bool TypeWidth(std::string_view type, Width* width);

Width WidthOf(char code);
// The letter for a register that holds an integer or a predicate.
char CodeOf(Width width);
// Returns '?' for a type of 8 or 128 bits, which has no letter.
char CodeOf(std::string_view type);

// Bytes of a slot for all lanes.
inline uint32_t SlotBytes(Width width) { return static_cast<uint32_t>(width) * kLanes; }

inline bool IsHalf(std::string_view type) { return type == "f16" || type == "bf16"; }
inline bool IsPair(std::string_view type) { return type == "f16x2" || type == "bf16x2"; }

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_OPERAND_CODE_H_
