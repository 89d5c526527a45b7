// Where a guarded module's variables lie.
//
// The driver puts a module's `.global` variables wherever it likes, which is outside of every
// arena. So a guarded module has none: its variables are one block in the arena, whose address is
// one of the guard's words. Its constants are one variable, which begins with these words.
#ifndef WARPLINE_GUARD_REWRITE_MODULE_LAYOUT_H_
#define WARPLINE_GUARD_REWRITE_MODULE_LAYOUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "ptx/ast.h"

namespace warpline::guard {

// The block of variables lies at a multiple of this, as the constants do.
inline constexpr uint64_t kVariableAlignment = 128;

// A variable that the application may ask for by its name.
struct PlacedVariable {
  std::string name;
  uint64_t offset = 0;  // In the block of its kind
  uint64_t bytes = 0;
  // Why kernels may not use it; empty if they may.
  std::string refusal;
};

// An eight-byte word in the block of variables that holds the address of another variable, or of
// some byte of it. The loader adds the block's address to it.
struct Relocation {
  uint64_t offset = 0;
};

struct ModuleLayout {
  std::vector<PlacedVariable> globals;
  std::vector<PlacedVariable> consts;  // Behind the guard's words
  std::vector<PlacedVariable> own;     // kWordsVariable, which the application may not find
  uint64_t globals_bytes = 0;
  // The bytes from the start of the block on; those behind are zero.
  std::string globals_image;
  std::vector<Relocation> relocations;
  std::string consts_image;  // The guard's words, all zero, and the constants

  std::unordered_map<std::string, const PlacedVariable*> globals_by_name;
  std::unordered_map<std::string, const PlacedVariable*> consts_by_name;
};

// Whether they lie in a block between these bytes. What is refused has no place.
bool LieWithin(const std::vector<PlacedVariable>& variables, uint64_t first, uint64_t end);

// INVALID_ARGUMENT when they are too large in sum.
absl::StatusOr<ModuleLayout> PlaceVariables(const ptx::Module& module);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_MODULE_LAYOUT_H_
