// Takes a function's nested blocks away: every name becomes unique in its function, declarations
// come first, and what is left is a plain list of labels and instructions.
//
// Thread-safe.
#ifndef WARPLINE_GUARD_REWRITE_FLATTEN_H_
#define WARPLINE_GUARD_REWRITE_FLATTEN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "ptx/ast.h"

namespace warpline::guard {

// What a name of a function stands for.
struct Symbol {
  enum class Kind : uint8_t {
    kRegister,
    kParameter,  // One of the function's own
    kResult,     // The same, for what it returns
    kArgument,   // A parameter that the body declares, for calls
    kShared,
    kLocal,
  };
  Kind kind = Kind::kRegister;
  std::string type;
  uint64_t bytes = 0;      // Of one that is not a register; 0 without a size
  uint64_t alignment = 1;  // Of a kShared
  uint64_t offset = 0;     // Of a parameter among the parameters, of a kLocal among the locals
};

struct FlatFunction {
  const ptx::Function* source = nullptr;
  std::vector<ptx::Variable> params;
  std::vector<ptx::Variable> results;
  std::vector<ptx::Variable> declarations;  // Registers, arguments and shared variables
  std::vector<ptx::Statement> code;         // Labels, instructions and pragmas
  std::unordered_set<std::string> labels;
  uint64_t local_bytes = 0;
  uint64_t param_bytes = 0;

  // Null for a name that the function does not declare.
  const Symbol* Find(std::string_view name) const;

  struct Range {
    std::string prefix;
    uint32_t count = 0;
    Symbol symbol;
  };
  std::unordered_map<std::string, Symbol> names;
  std::vector<Range> ranges;  // `%r<40>`
};

// `module_names` are those of the module's own variables and functions. INVALID_ARGUMENT, with
// "line N: ...", for what a guarded function may not have: branch targets, prototypes, vectors of
// registers, variables with initialisers, and names that are declared twice.
absl::StatusOr<FlatFunction> Flatten(const ptx::Function& function,
                                     const std::unordered_set<std::string>& module_names);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_FLATTEN_H_
