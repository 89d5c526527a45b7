// What PTX prescribes for types, state spaces, and the layout of variables. Thread-safe.
#ifndef WARPLINE_PTX_TYPES_H_
#define WARPLINE_PTX_TYPES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ptx/ast.h"

namespace warpline::ptx {

// The bytes of a fundamental type; 0 for .pred and for an unknown type.
int TypeBytes(std::string_view type);
bool IsSignedType(std::string_view type);
bool IsFloatType(std::string_view type);

enum class StateSpace : uint8_t {
  kGeneric,
  kGlobal,
  kConst,
  kShared,         // Of this block
  kSharedCluster,  // Of any block of the cluster
  kLocal,
  kParam,
};
// Finds the space that a modifier such as "global" or "shared::cta" names. Returns false for one
// that names none.
bool FindStateSpace(std::string_view modifier, StateSpace* space);

// The size of a whole variable; 0 for an array without a size.
uint64_t VariableBytes(const Variable& variable);
uint64_t VariableAlignment(const Variable& variable);

struct Placement {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
// Places the variables one after the other, each aligned. `*total` is where the next one could
// start.
std::vector<Placement> PlaceInOrder(const std::vector<Variable>& variables, uint64_t* total);

inline uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace warpline::ptx

#endif  // WARPLINE_PTX_TYPES_H_
