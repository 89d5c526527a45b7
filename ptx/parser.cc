#include "ptx/parser.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ptx/parser_impl.h"

namespace warpline::ptx {

Parser::Parser(std::string_view text, const ParseLimits& limits)
    : lexer_(text.size() > limits.text_bytes ? std::string_view() : text),
      limits_(limits),
      too_large_(text.size() > limits.text_bytes) {
  next_ = lexer_.Next();
  Advance();
}

void Parser::Advance() {
  token_ = next_;
  next_ = lexer_.Next();
}

bool Parser::Fail(std::string_view message) {
  if (error_.empty()) {
    error_line_ = token_.line;
    // The lexer's error explains more than the name of the token that was expected in its place.
    error_ = token_.kind == TokenKind::kError ? lexer_.error() : std::string(message);
    if (error_.size() > 200) error_.resize(200);
  }
  return false;
}

absl::Status Parser::status() const {
  if (error_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("line ", error_line_, ": ", error_));
}

bool Parser::Accept(char punct) {
  if (!AtPunct(punct)) return false;
  Advance();
  return true;
}

bool Parser::AcceptDot(std::string_view text) {
  if (!AtDot(text)) return false;
  Advance();
  return true;
}

bool Parser::Expect(char punct) {
  if (Accept(punct)) return true;
  return Fail(absl::StrCat("expected '", std::string(1, punct), "'"));
}

bool Parser::ExpectName(std::string* name) {
  if (token_.kind != TokenKind::kName) return Fail("expected a name");
  *name = std::string(token_.text);
  Advance();
  return true;
}

bool Parser::ExpectInteger(uint64_t* value) {
  if (token_.kind != TokenKind::kInteger) return Fail("expected an integer");
  *value = token_.bits;
  Advance();
  return true;
}

bool Parser::ParseModule(Module* module) {
  if (too_large_) return Fail("text exceeds the size limit");
  while (token_.kind != TokenKind::kEnd) {
    if (!ParseItem(module)) return false;
  }
  if (module->version_major == 0) return Fail("no .version directive");
  if (module->targets.empty()) return Fail("no .target directive");
  return true;
}

absl::StatusOr<Module> Parse(std::string_view text, const ParseLimits& limits) {
  Parser parser(text, limits);
  Module module;
  if (!parser.ParseModule(&module)) return parser.status();
  return module;
}

}  // namespace warpline::ptx
