// The syntax tree of a PTX module.
//
// Opcodes stay generic: a base opcode, its modifiers in order, and its operands. What an opcode
// means is decided by the code that walks the tree (the CPU device, the guard). Constant
// expressions are already folded. The nodes are plain values: copyable and comparable. Comparison
// ignores source lines.
#ifndef WARPLINE_PTX_AST_H_
#define WARPLINE_PTX_AST_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace warpline::ptx {

// The line of the text on which something stood. All lines compare equal.
struct SourceLine {
  uint32_t number = 0;
  friend bool operator==(SourceLine, SourceLine) { return true; }
};

struct Operand {
  enum class Kind : uint8_t {
    kName,     // Register, label, symbol or `_`: [!]name[.component][+ offset]
    kInteger,  // value: 64 bits, sign-extended where the text had a minus
    kFloat32,  // value: the 32 bits
    kFloat64,  // value: the 64 bits
    kVector,   // {elements}
    kAddress,  // [name + offset, elements...]; without a name, absolute
    kList,     // (elements), in calls
    kPair,     // elements[0] | elements[1]
    kElement,  // name[offset], counted in elements of the array
  };
  Kind kind = Kind::kName;
  bool negated = false;
  std::string name;
  std::string component;  // "x" of %tid.x; "" if none
  uint64_t value = 0;
  int64_t offset = 0;
  std::vector<Operand> elements;

  bool operator==(const Operand&) const = default;
};

struct Instruction {
  std::string guard;  // Predicate register of `@p`; "" if none.
  bool guard_negated = false;
  std::string opcode;                  // "ld"
  std::vector<std::string> modifiers;  // "global", "nc", "u32"
  std::vector<Operand> operands;

  bool operator==(const Instruction&) const = default;
};

// A symbol whose address is part of an initialiser: `generic(name)`, or masked, `0xFF00(name)`.
struct InitSymbol {
  std::string name;
  bool generic = false;
  uint64_t mask = 0;  // 0: none

  bool operator==(const InitSymbol&) const = default;
};

struct InitElement {
  enum class Kind : uint8_t { kInteger, kFloat32, kFloat64, kSymbol };
  Kind kind = Kind::kInteger;
  uint32_t symbol = 0;  // Index into Variable::init_symbols.
  uint64_t bits = 0;    // The value; for a symbol, what is added to its address.

  bool operator==(const InitElement&) const = default;
};

// A register, parameter or variable in any state space.
struct Variable {
  std::string linkage;  // "visible", "extern", "weak", "common" or ""
  std::string space;    // "reg", "param", "global", "const", "shared", "local"
  std::string type;     // "u32"; "" only in an untyped parameter
  std::string name;
  uint32_t alignment = 0;       // 0: that of the type
  uint32_t vector_width = 1;    // .v2, .v4
  uint32_t register_count = 0;  // of `%r<count>`; 0 for a plain name
  bool is_array = false;
  uint64_t element_count = 1;     // All dimensions multiplied; 0 for `[]`.
  bool is_pointer = false;        // A parameter with .ptr ...
  std::string pointer_space;      // ... and where it points; "" is generic
  bool managed = false;           // .attribute(.managed)
  std::vector<InitElement> init;  // Shorter than the variable: the rest is zero.
  std::vector<InitSymbol> init_symbols;
  SourceLine line;

  bool operator==(const Variable&) const = default;
};

struct Label {
  std::string name;
  bool operator==(const Label&) const = default;
};
struct OpenBlock {
  bool operator==(const OpenBlock&) const = default;
};
struct CloseBlock {
  bool operator==(const CloseBlock&) const = default;
};
struct Pragma {
  std::string text;
  bool operator==(const Pragma&) const = default;
};
// `label: .branchtargets a, b;` or `.calltargets`
struct TargetList {
  std::string label;
  bool is_call = false;
  std::vector<std::string> targets;
  bool operator==(const TargetList&) const = default;
};
// `label: .callprototype (results) _ (params);`
struct Prototype {
  std::string label;
  std::vector<Variable> results;
  std::vector<Variable> params;
  bool noreturn = false;
  bool operator==(const Prototype&) const = default;
};

// The statements of a body are in order. Nested scopes are not nested here: OpenBlock and
// CloseBlock bracket them, in balance.
struct Statement {
  std::variant<Instruction, Label, Variable, OpenBlock, CloseBlock, Pragma, TargetList, Prototype>
      node;
  SourceLine line;

  bool operator==(const Statement&) const = default;
};

// `.maxntid 256, 1, 1`
struct Directive {
  std::string name;
  std::vector<uint64_t> values;
  std::string text;  // The text of a .pragma.
  bool operator==(const Directive&) const = default;
};

struct Function {
  std::string linkage;
  bool is_entry = false;
  std::string name;
  std::vector<Variable> results;
  std::vector<Variable> params;
  std::vector<Directive> directives;
  bool has_body = false;
  std::vector<Statement> body;
  SourceLine line;

  bool operator==(const Function&) const = default;
};

struct Alias {
  std::string name;
  std::string target;
  bool operator==(const Alias&) const = default;
};

struct Module {
  int version_major = 0;
  int version_minor = 0;
  std::vector<std::string> targets;  // "sm_75", "debug"
  int address_size = 0;              // 0 when the text does not say: 32.
  std::vector<std::variant<Variable, Function, Alias>> items;

  bool operator==(const Module&) const = default;
};

}  // namespace warpline::ptx

#endif  // WARPLINE_PTX_AST_H_
