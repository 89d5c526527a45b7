// Parses the module level: headers, functions, and debug information to drop.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ptx/parser_impl.h"

namespace warpline::ptx {

bool Parser::ParseItem(Module* module) {
  if (token_.kind != TokenKind::kDotName) return Fail("expected a directive");
  if (++declarations_ > limits_.declarations) return Fail("too many declarations");
  if (AtDot("version")) return ParseVersion(module);
  if (AtDot("target")) return ParseTarget(module);
  if (AcceptDot("address_size")) {
    uint64_t size;
    if (!ExpectInteger(&size)) return false;
    if (size != 32 && size != 64) return Fail("address size is 32 or 64");
    module->address_size = static_cast<int>(size);
    return true;
  }
  if (AtDot("loc")) return ParseLocation();
  if (AtDot("file")) return ParseFile();
  if (AtDot("section")) return SkipSection();
  if (AcceptDot("pragma")) {
    if (token_.kind != TokenKind::kString) return Fail("expected a string");
    Advance();
    return Expect(';');
  }
  if (AtDot("alias")) return ParseAlias(module);

  std::string linkage;
  if (AtDot("extern") || AtDot("visible") || AtDot("weak") || AtDot("common")) {
    linkage = std::string(token_.text);
    Advance();
  }
  if (AtDot("entry") || AtDot("func")) {
    Function function;
    if (!ParseFunction(std::move(linkage), &function)) return false;
    module->items.emplace_back(std::move(function));
    return true;
  }
  if (AtDot("global") || AtDot("const") || AtDot("shared") || AtDot("tex")) {
    std::string space(token_.text);
    Advance();
    std::vector<Variable> variables;
    if (!ParseVariables(std::move(linkage), std::move(space), true, &variables)) return false;
    if (!Expect(';')) return false;
    for (Variable& variable : variables) module->items.emplace_back(std::move(variable));
    return true;
  }
  return Fail(absl::StrCat("unknown directive '.", std::string(token_.text), "'"));
}

bool Parser::ParseVersion(Module* module) {
  Advance();
  const std::string_view text = token_.text;
  const size_t dot = text.find('.');
  if (token_.kind != TokenKind::kFloat64 || dot == std::string_view::npos ||
      !absl::SimpleAtoi(std::string(text.substr(0, dot)), &module->version_major) ||
      !absl::SimpleAtoi(std::string(text.substr(dot + 1)), &module->version_minor) ||
      module->version_major <= 0 || module->version_minor < 0) {
    return Fail("expected a version such as 9.0");
  }
  Advance();
  return true;
}

bool Parser::ParseTarget(Module* module) {
  Advance();
  do {
    std::string name;
    if (!ExpectName(&name)) return false;
    module->targets.push_back(std::move(name));
    if (module->targets.size() > 64) return Fail("too many targets");
  } while (Accept(','));
  return true;
}

// .loc file line column [, function_name label[+offset]] [, inlined_at file line column]
bool Parser::ParseLocation() {
  Advance();
  uint64_t ignored;
  for (int i = 0; i < 3; ++i) {
    if (!ExpectInteger(&ignored)) return false;
  }
  while (Accept(',')) {
    std::string key;
    if (!ExpectName(&key)) return false;
    if (key == "function_name") {
      if (!ExpectName(&key)) return false;
      if (Accept('+') && !ExpectInteger(&ignored)) return false;
    } else if (key == "inlined_at") {
      for (int i = 0; i < 3; ++i) {
        if (!ExpectInteger(&ignored)) return false;
      }
    } else {
      return Fail("unknown attribute of .loc");
    }
  }
  return true;
}

// .file index "name" [, timestamp, size]
bool Parser::ParseFile() {
  Advance();
  uint64_t ignored;
  if (!ExpectInteger(&ignored)) return false;
  if (token_.kind != TokenKind::kString) return Fail("expected a file name");
  Advance();
  while (Accept(',')) {
    if (!ExpectInteger(&ignored)) return false;
  }
  return true;
}

bool Parser::SkipSection() {
  Advance();
  if (token_.kind != TokenKind::kDotName && token_.kind != TokenKind::kName) {
    return Fail("expected a section name");
  }
  Advance();
  if (!Expect('{')) return false;
  while (!AtPunct('}')) {
    if (token_.kind == TokenKind::kEnd || token_.kind == TokenKind::kError || AtPunct('{')) {
      return Fail("section without end");
    }
    Advance();
  }
  Advance();
  return true;
}

bool Parser::ParseAlias(Module* module) {
  Advance();
  Alias alias;
  if (!ExpectName(&alias.name) || !Expect(',') || !ExpectName(&alias.target) || !Expect(';')) {
    return false;
  }
  module->items.emplace_back(std::move(alias));
  return true;
}

bool Parser::ParseParams(std::vector<Variable>* params) {
  if (!Expect('(')) return false;
  if (Accept(')')) return true;
  do {
    if (!AtDot("param") && !AtDot("reg")) return Fail("expected .param or .reg");
    std::string space(token_.text);
    Advance();
    if (!ParseVariables("", std::move(space), false, params)) return false;
    if (params->size() > limits_.list_items) return Fail("too many parameters");
  } while (Accept(','));
  return Expect(')');
}

bool Parser::ParseFunction(std::string linkage, Function* function) {
  function->line.number = token_.line;
  function->linkage = std::move(linkage);
  function->is_entry = AtDot("entry");
  Advance();
  // .func .attribute(.unified(...)) exists; nothing here depends on it.
  while (AtDot("attribute")) {
    Variable ignored;
    Advance();
    if (!ParseAttribute(&ignored)) return false;
  }
  if (!function->is_entry && AtPunct('(') && !ParseParams(&function->results)) return false;
  if (!ExpectName(&function->name)) return false;
  if (AtPunct('(') && !ParseParams(&function->params)) return false;
  if (!ParseDirectives(&function->directives)) return false;
  if (Accept(';')) return true;
  if (!AtPunct('{')) return Fail("expected a function body");
  function->has_body = true;
  return ParseBody(&function->body);
}

bool Parser::ParseDirectives(std::vector<Directive>* directives) {
  while (token_.kind == TokenKind::kDotName) {
    if (directives->size() > 256) return Fail("too many directives");
    if (AtDot("loc")) {
      if (!ParseLocation()) return false;
      continue;
    }
    Directive directive;
    directive.name = std::string(token_.text);
    Advance();
    if (token_.kind == TokenKind::kString) {
      directive.text = std::string(token_.text);
      Advance();
      if (!Expect(';')) return false;
    } else if (token_.kind == TokenKind::kInteger) {
      do {
        uint64_t value;
        if (!ExpectInteger(&value)) return false;
        directive.values.push_back(value);
        if (directive.values.size() > 16) return Fail("too many values");
      } while (Accept(','));
    }
    directives->push_back(std::move(directive));
  }
  return true;
}

}  // namespace warpline::ptx
