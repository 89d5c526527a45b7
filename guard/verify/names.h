// The names that a module and its functions declare, and which names may be declared at all.
//
// Each name is declared once, and no function declares a name of its module, so that a name means
// the same to ptxas as to the verifier. Thread-compatible.
#ifndef WARPLINE_GUARD_VERIFY_NAMES_H_
#define WARPLINE_GUARD_VERIFY_NAMES_H_

#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "guard/verify/reader.h"

namespace warpline::guard {

struct Name {
  enum class Kind : uint8_t {
    kRegister,
    kEntryParameter,
    kFunctionParameter,
    kResult,
    kBodyParameter,  // A variable of space .param that a body declares
    kShared,
    kLocals,  // wlg_locals
    kConst,   // wlg_const
    kFunction,
    kLabel,
  };
  Kind kind = Kind::kRegister;
  std::string_view type = {};  // Of registers and variables: "b32"
  int64_t bytes = 0;           // Of variables; 0 for an array without a size
  int64_t alignment = 1;       // Of variables
};

class Scope {
 public:
  // `outer` is the module's scope, for a function; it is null for the module itself.
  explicit Scope(const Scope* outer) : outer_(outer) {}

  // Returns false if the name is declared already.
  bool Declare(std::string_view name, const Name& value);
  // Declares the registers prefix0 to prefix<count-1>. The prefix does not end in a digit. Returns
  // false if the prefix is declared already; what else is declared under one of these names, Find()
  // does not find.
  bool DeclareRange(std::string_view prefix, int64_t count, std::string_view type);
  // Returns null for a name that is not declared here or outside, and for one that two
  // declarations could mean. What is returned lives until the next declaration.
  const Name* Find(std::string_view name) const;

 private:
  struct Range {
    int64_t count;
    Name value;
  };
  int Matches(std::string_view name, const Name** match) const;

  const Scope* const outer_;
  absl::flat_hash_map<std::string_view, Name> names_;
  absl::flat_hash_map<std::string_view, Range> ranges_;
};

// Whether a name begins with wlg_.
bool IsGuardName(std::string_view name);
// wlg_w and a number: a label to which only whole warps come.
bool IsJoinedLabel(std::string_view name);
// The type of a guard register; empty for other names.
std::string_view GuardRegisterType(std::string_view name);
// Whether a register of that type has integers of so many bits.
bool IsInteger32(std::string_view type);
bool IsInteger64(std::string_view type);

// Whether a tenant may declare a name. Behind a % only one to three letters may stand before
// something else, and neither tid nor pm: ptxas has special registers that nobody documents, and
// `.reg .b32 %envreg<3>;` would not hide those of that name.
Refusal CheckTenantName(std::string_view name);
// Whether a tenant may define a function of that name: ptxas has some of its own.
Refusal CheckFunctionName(std::string_view name);

// Whether the special register may be read. `component` is empty, or "x" of %tid.x.
bool IsReadableSpecialRegister(std::string_view name, std::string_view component);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_NAMES_H_
