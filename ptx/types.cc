#include "ptx/types.h"

#include <algorithm>

namespace warpline::ptx {

int TypeBytes(std::string_view type) {
  if (type == "b8" || type == "u8" || type == "s8") return 1;
  if (type == "b16" || type == "u16" || type == "s16" || type == "f16" || type == "bf16") return 2;
  if (type == "b32" || type == "u32" || type == "s32" || type == "f32" || type == "f16x2" ||
      type == "bf16x2") {
    return 4;
  }
  if (type == "b64" || type == "u64" || type == "s64" || type == "f64") return 8;
  if (type == "b128") return 16;
  if (type == "texref" || type == "samplerref" || type == "surfref") return 8;
  return 0;
}

bool IsSignedType(std::string_view type) { return !type.empty() && type[0] == 's'; }
bool IsFloatType(std::string_view type) { return type == "f32" || type == "f64"; }

bool FindStateSpace(std::string_view modifier, StateSpace* space) {
  const std::string_view base = modifier.substr(0, modifier.find("::"));
  if (modifier == "shared::cluster") {
    *space = StateSpace::kSharedCluster;
  } else if (base == "global") {
    *space = StateSpace::kGlobal;
  } else if (base == "const") {
    *space = StateSpace::kConst;
  } else if (base == "shared") {
    *space = StateSpace::kShared;
  } else if (base == "local") {
    *space = StateSpace::kLocal;
  } else if (base == "param") {
    *space = StateSpace::kParam;
  } else {
    return false;
  }
  return true;
}

uint64_t VariableBytes(const Variable& variable) {
  return static_cast<uint64_t>(TypeBytes(variable.type)) * variable.vector_width *
         variable.element_count;
}

uint64_t VariableAlignment(const Variable& variable) {
  const uint64_t natural = static_cast<uint64_t>(TypeBytes(variable.type)) * variable.vector_width;
  return std::max<uint64_t>({natural, variable.alignment, 1});
}

std::vector<Placement> PlaceInOrder(const std::vector<Variable>& variables, uint64_t* total) {
  std::vector<Placement> places;
  uint64_t offset = 0;
  for (const Variable& variable : variables) {
    offset = AlignUp(offset, VariableAlignment(variable));
    places.push_back({offset, VariableBytes(variable)});
    offset += VariableBytes(variable);
  }
  *total = offset;
  return places;
}

}  // namespace warpline::ptx
