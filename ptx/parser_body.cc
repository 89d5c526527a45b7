// Function bodies: statements, instructions, operands.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ptx/parser_impl.h"

namespace warpline::ptx {

bool Parser::Append(Statement statement, std::vector<Statement>* body) {
  if (++statements_ > limits_.statements) return Fail("too many statements");
  body->push_back(std::move(statement));
  return true;
}

bool Parser::ParseBody(std::vector<Statement>* body) {
  if (!Expect('{')) return false;
  size_t depth = 0;
  for (;;) {
    Statement statement;
    statement.line.number = token_.line;
    if (AtPunct('{')) {
      if (++depth > limits_.block_depth) return Fail("blocks nested too deeply");
      Advance();
      statement.node = OpenBlock();
    } else if (AtPunct('}')) {
      Advance();
      if (depth-- == 0) return true;
      statement.node = CloseBlock();
    } else if (token_.kind == TokenKind::kDotName) {
      if (!ParseBodyDirective(body)) return false;
      continue;
    } else if (token_.kind == TokenKind::kName && NextIsPunct(':')) {
      if (!ParseLabelled(body)) return false;
      continue;
    } else if (token_.kind == TokenKind::kName || AtPunct('@')) {
      statement.node = Instruction();
      if (!ParseInstruction(&std::get<Instruction>(statement.node))) return false;
    } else {
      return Fail("expected a statement");
    }
    if (!Append(std::move(statement), body)) return false;
  }
}

bool Parser::ParseBodyDirective(std::vector<Statement>* body) {
  Statement statement;
  statement.line.number = token_.line;
  if (AtDot("loc")) return ParseLocation();
  if (AtDot("file")) return ParseFile();
  if (AcceptDot("pragma")) {
    if (token_.kind != TokenKind::kString) return Fail("expected a string");
    statement.node = Pragma{std::string(token_.text)};
    Advance();
    return Expect(';') && Append(std::move(statement), body);
  }
  if (!AtDot("reg") && !AtDot("local") && !AtDot("shared") && !AtDot("param") && !AtDot("global") &&
      !AtDot("const")) {
    return Fail(absl::StrCat("unknown directive '.", std::string(token_.text), "'"));
  }
  std::string space(token_.text);
  Advance();
  std::vector<Variable> variables;
  if (!ParseVariables("", std::move(space), true, &variables)) return false;
  if (!Expect(';')) return false;
  for (Variable& variable : variables) {
    Statement declaration;
    declaration.line = variable.line;
    declaration.node = std::move(variable);
    if (!Append(std::move(declaration), body)) return false;
  }
  return true;
}

bool Parser::ParseLabelled(std::vector<Statement>* body) {
  Statement statement;
  statement.line.number = token_.line;
  std::string label(token_.text);
  Advance();
  Advance();
  if (AtDot("branchtargets") || AtDot("calltargets")) {
    TargetList list;
    list.label = std::move(label);
    list.is_call = AtDot("calltargets");
    Advance();
    do {
      std::string target;
      if (!ExpectName(&target)) return false;
      list.targets.push_back(std::move(target));
      if (list.targets.size() > limits_.list_items) return Fail("too many targets");
    } while (Accept(','));
    if (!Expect(';')) return false;
    statement.node = std::move(list);
  } else if (AtDot("callprototype")) {
    Prototype prototype;
    prototype.label = std::move(label);
    if (!ParsePrototype(&prototype)) return false;
    statement.node = std::move(prototype);
  } else {
    statement.node = Label{std::move(label)};
  }
  return Append(std::move(statement), body);
}

bool Parser::ParsePrototype(Prototype* prototype) {
  Advance();
  if (AtPunct('(') && !ParseParams(&prototype->results)) return false;
  std::string name;
  if (!ExpectName(&name)) return false;
  if (name != "_") return Fail("expected '_'");
  if (AtPunct('(') && !ParseParams(&prototype->params)) return false;
  if (AcceptDot("noreturn")) prototype->noreturn = true;
  return Expect(';');
}

bool Parser::ParseInstruction(Instruction* instruction) {
  if (Accept('@')) {
    instruction->guard_negated = Accept('!');
    if (!ExpectName(&instruction->guard)) return false;
  }
  if (!ExpectName(&instruction->opcode)) return false;
  while (token_.kind == TokenKind::kDotName) {
    if (instruction->modifiers.size() >= 32) return Fail("too many modifiers");
    instruction->modifiers.emplace_back(token_.text);
    Advance();
  }
  if (Accept(';')) return true;
  const bool in_call = instruction->opcode == "call";
  do {
    if (instruction->operands.size() >= 64) return Fail("too many operands");
    Operand operand;
    if (!ParseOperand(0, in_call, &operand)) return false;
    instruction->operands.push_back(std::move(operand));
  } while (Accept(','));
  return Expect(';');
}

bool Parser::ParseElements(char end, size_t depth, bool in_call, Operand* operand) {
  if (Accept(end)) return true;
  do {
    if (operand->elements.size() >= limits_.list_items) return Fail("list too long");
    Operand element;
    if (!ParseOperand(depth + 1, in_call, &element)) return false;
    operand->elements.push_back(std::move(element));
  } while (Accept(','));
  return Expect(end);
}

bool Parser::ParseOperand(size_t depth, bool in_call, Operand* operand) {
  if (depth > 4) return Fail("operand nested too deeply");
  if (Accept('[')) return ParseAddress(depth, operand);
  if (Accept('{')) {
    operand->kind = Operand::Kind::kVector;
    return ParseElements('}', depth, in_call, operand);
  }
  if (in_call && Accept('(')) {
    operand->kind = Operand::Kind::kList;
    return ParseElements(')', depth, in_call, operand);
  }
  if (AtPunct('!') && next_.kind == TokenKind::kName) {
    Advance();
    operand->negated = true;
  }
  if (token_.kind == TokenKind::kName && token_.text != "WARP_SZ") {
    return ParseNameOperand(depth, operand);
  }
  if (operand->negated) return Fail("expected a name");
  Constant constant;
  if (!ParseConstant(&constant)) return false;
  operand->value = constant.bits;
  operand->kind = constant.kind == Constant::Kind::kInteger   ? Operand::Kind::kInteger
                  : constant.kind == Constant::Kind::kFloat32 ? Operand::Kind::kFloat32
                                                              : Operand::Kind::kFloat64;
  return true;
}

bool Parser::ParseNameOperand(size_t depth, Operand* operand) {
  operand->kind = Operand::Kind::kName;
  if (!ExpectName(&operand->name)) return false;
  if (token_.kind == TokenKind::kDotName) {
    operand->component = std::string(token_.text);
    Advance();
  }
  if (AtPunct('+') || AtPunct('-')) return ParseOffset(&operand->offset);
  if (Accept('[')) {
    operand->kind = Operand::Kind::kElement;
    uint64_t index;
    if (!ParseIntegerConstant(&index) || !Expect(']')) return false;
    operand->offset = static_cast<int64_t>(index);
    return true;
  }
  if (AtPunct('|')) {
    if (depth > 1) return Fail("operand nested too deeply");
    Advance();
    Operand first = std::move(*operand);
    Operand second;
    if (!ParseOperand(depth + 2, false, &second)) return false;
    *operand = Operand();
    operand->kind = Operand::Kind::kPair;
    operand->elements.push_back(std::move(first));
    operand->elements.push_back(std::move(second));
  }
  return true;
}

bool Parser::ParseOffset(int64_t* offset) {
  const bool minus = AtPunct('-');
  Advance();
  uint64_t value;
  if (!ParseIntegerConstant(&value)) return false;
  *offset = static_cast<int64_t>(minus ? -value : value);
  return true;
}

bool Parser::ParseAddress(size_t depth, Operand* operand) {
  operand->kind = Operand::Kind::kAddress;
  if (token_.kind == TokenKind::kName && token_.text != "WARP_SZ") {
    if (!ExpectName(&operand->name)) return false;
    if ((AtPunct('+') || AtPunct('-')) && !ParseOffset(&operand->offset)) return false;
  } else {
    uint64_t value;
    if (!ParseIntegerConstant(&value)) return false;
    operand->offset = static_cast<int64_t>(value);
  }
  if (Accept(',')) return ParseElements(']', depth, false, operand);
  return Expect(']');
}

}  // namespace warpline::ptx
