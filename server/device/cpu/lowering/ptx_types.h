// Sizes and layouts that PTX prescribes. Thread-safe.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_PTX_TYPES_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_PTX_TYPES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ptx/ast.h"
#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// Bytes of a fundamental type; 0 for .pred and for what is unknown.
int TypeBytes(std::string_view type);
bool IsSignedType(std::string_view type);
bool IsFloatType(std::string_view type);
// The register slot that a type needs; 8-bit types use 16 bits. False for unsupported ones.
bool TypeWidth(std::string_view type, Width* width);

// Of a whole variable. An array without a size has none.
uint64_t VariableBytes(const ptx::Variable& variable);
uint64_t VariableAlignment(const ptx::Variable& variable);

struct Placement {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
// Places variables one after the other, each aligned. `*total` is where the next one could start.
std::vector<Placement> PlaceInOrder(const std::vector<ptx::Variable>& variables, uint64_t* total);

inline uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_PTX_TYPES_H_
