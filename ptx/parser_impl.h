// The recursive-descent parser behind parser.h. Private to this package.
//
// Every method returns false after it has recorded the first error; callers return at once.
#ifndef WARPLINE_PTX_PARSER_IMPL_H_
#define WARPLINE_PTX_PARSER_IMPL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "ptx/ast.h"
#include "ptx/lexer.h"
#include "ptx/parser.h"

namespace warpline::ptx {

class Parser {
 public:
  Parser(std::string_view text, const ParseLimits& limits);

  bool ParseModule(Module* module);
  absl::Status status() const;

 private:
  // A folded constant.
  struct Constant {
    enum class Kind { kInteger, kFloat32, kFloat64 } kind = Kind::kInteger;
    uint64_t bits = 0;
    bool is_unsigned = false;
  };

  // --- Tokens (parser.cc).
  void Advance();
  bool Fail(std::string_view message);
  bool AtPunct(char punct) const {
    return token_.kind == TokenKind::kPunct && token_.punct == punct;
  }
  bool NextIsPunct(char punct) const {
    return next_.kind == TokenKind::kPunct && next_.punct == punct;
  }
  bool AtDot(std::string_view text) const {
    return token_.kind == TokenKind::kDotName && token_.text == text;
  }
  bool Accept(char punct);
  bool AcceptDot(std::string_view text);
  bool Expect(char punct);
  bool ExpectName(std::string* name);
  bool ExpectInteger(uint64_t* value);

  // --- Module level (parser_module.cc).
  bool ParseItem(Module* module);
  bool ParseVersion(Module* module);
  bool ParseTarget(Module* module);
  bool ParseLocation();
  bool ParseFile();
  bool SkipSection();
  bool ParseAlias(Module* module);
  bool ParseFunction(std::string linkage, Function* function);
  bool ParseParams(std::vector<Variable>* params);
  bool ParseDirectives(std::vector<Directive>* directives);

  // --- Variables (parser_variable.cc).
  // Starts after the state space, and appends one Variable for each declared name. Stops before
  // `;`, `,` or `)`.
  bool ParseVariables(std::string linkage, std::string space, bool allow_list,
                      std::vector<Variable>* variables);
  bool ParseVariableModifiers(Variable* variable);
  bool ParseAttribute(Variable* variable);
  bool ParseDimensions(Variable* variable, std::vector<uint64_t>* dims);
  bool ParseInitializer(const std::vector<uint64_t>& dims, Variable* variable);
  bool ParseInitElement(Variable* variable);
  bool ParseInitSymbol(uint64_t mask, Variable* variable);
  bool PadInit(uint64_t multiple, Variable* variable);

  // --- Bodies (parser_body.cc).
  bool ParseBody(std::vector<Statement>* body);
  bool ParseBodyDirective(std::vector<Statement>* body);
  bool ParseLabelled(std::vector<Statement>* body);
  bool ParsePrototype(Prototype* prototype);
  bool ParseInstruction(Instruction* instruction);
  bool ParseOperand(size_t depth, bool in_call, Operand* operand);
  bool ParseNameOperand(size_t depth, Operand* operand);
  bool ParseAddress(size_t depth, Operand* operand);
  bool ParseElements(char end, size_t depth, bool in_call, Operand* operand);
  bool ParseOffset(int64_t* offset);
  bool Append(Statement statement, std::vector<Statement>* body);

  // --- Constant expressions (parser_constant.cc).
  bool ParseConstant(Constant* value);
  bool ParseIntegerConstant(uint64_t* value);
  bool ParseTernary(size_t depth, Constant* value);
  bool ParseBinary(int min_precedence, size_t depth, Constant* value);
  bool ParseUnary(size_t depth, Constant* value);
  bool Apply(char op, const Constant& right, Constant* left);

  Lexer lexer_;
  const ParseLimits limits_;
  const bool too_large_;
  Token token_;
  Token next_;
  size_t statements_ = 0;
  size_t declarations_ = 0;
  size_t init_elements_ = 0;
  std::string error_;
  uint32_t error_line_ = 0;
};

// Whether `text` is a type that PTX names after a state space: u32, f64, b8, pred, texref, ...
bool IsTypeName(std::string_view text);

}  // namespace warpline::ptx

#endif  // WARPLINE_PTX_PARSER_IMPL_H_
