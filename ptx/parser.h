// Parses PTX text into its syntax tree.
//
// The parser is made for hostile text: its time is linear, its recursion is bounded, and sizes are
// limited. Debug sections, .file and .loc are dropped. It does not check meaning (types, known
// opcodes, declared names). Thread-safe.
//
//   const absl::StatusOr<Module> module = Parse(text);
//   if (!module.ok()) return module.status();  // "line 7: ..."
//   for (const auto& item : module->items) { ... }
#ifndef WARPLINE_PTX_PARSER_H_
#define WARPLINE_PTX_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "ptx/ast.h"

namespace warpline::ptx {

struct ParseLimits {
  size_t text_bytes = size_t{256} << 20;
  size_t statements = 4'000'000;      // In all bodies together.
  size_t declarations = 1'000'000;    // Variables and functions of the module.
  size_t init_elements = 16'000'000;  // In all initialisers together.
  size_t list_items = 65'536;         // Operands, targets, values in one list.
  size_t block_depth = 64;
  size_t expression_depth = 64;
};

// Returns INVALID_ARGUMENT with "line N: ..." for text that is not PTX or exceeds a limit.
absl::StatusOr<Module> Parse(std::string_view text, const ParseLimits& limits = {});

}  // namespace warpline::ptx

#endif  // WARPLINE_PTX_PARSER_H_
