// Reads declarations: of registers, parameters and variables, and the heads of functions.
// Thread-safe.
#ifndef WARPLINE_GUARD_VERIFY_DECLARATIONS_H_
#define WARPLINE_GUARD_VERIFY_DECLARATIONS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "guard/verify/names.h"
#include "guard/verify/reader.h"

namespace warpline::guard {

inline constexpr int64_t kMostVariableBytes = int64_t{1} << 30;
// What a function's parameters, results, or body's variables of space .param take in sum.
inline constexpr int64_t kMostParameterBytes = 32'764;
// Of one declaration: ptxas takes memory for each.
inline constexpr int64_t kMostRegisters = int64_t{1} << 20;

struct Variable {
  std::string_view linkage;  // "visible", "weak", "extern" or empty
  std::string_view space;    // "reg", "param", "shared", "local", "const"
  std::string_view type;
  std::string_view name;
  int64_t alignment = 0;  // That of `.align`; 0 without
  int64_t registers = 0;  // Of %r<40>; 0 for a plain name
  bool is_array = false;
  int64_t elements = 1;  // 0 for []

  // At most kMostVariableBytes. It is 0 for an array without a size.
  int64_t Bytes() const;
  // That of `.align`, or of the type.
  int64_t Alignment() const;
  // What the name stands for. It is not for registers.
  Name Named(Name::Kind kind) const { return {kind, type, Bytes(), Alignment()}; }
};

// The size of a type of registers and variables; 1 for pred, 0 for what is no such type.
int64_t TypeBytes(std::string_view type);

// Reads a variable up to its initialiser or the end of its declaration.
Refusal ReadVariable(Cursor* cursor, Variable* variable);

// Reads `[linkage] .entry|.func [(results) ]name (parameters)` and, for a prototype, a semicolon.
struct Head {
  std::string_view linkage;
  bool is_entry = false;
  bool is_prototype = false;
  std::string_view name;
  std::vector<Variable> results;
  std::vector<Variable> parameters;
};
Refusal ReadHead(std::string_view line, Head* head);
bool IsHead(std::string_view line);
// Whether a prototype is that of a definition.
bool SameSignature(const Head& a, const Head& b);

// The bytes from the start of the first parameter to the end of the last one; at most
// kMostVariableBytes, more is refused.
Refusal MeasureParameters(absl::Span<const Variable> parameters, int64_t* bytes);

// Checks a line between a function's head and its body, such as `.maxntid 256, 1, 1`.
Refusal CheckDirective(std::string_view line);
// Whether such a line says that blocks have one thread in the direction of x.
bool SaysOneThreadWide(std::string_view line);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_DECLARATIONS_H_
