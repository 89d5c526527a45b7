#include "ptx/lexer.h"

#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace warpline::ptx {
namespace {

constexpr size_t kMaxNameBytes = 16384;
constexpr size_t kMaxFloatBytes = 64;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsNameStart(char c) { return IsLetter(c) || c == '_' || c == '$' || c == '%'; }
bool IsNamePart(char c) { return IsLetter(c) || IsDigit(c) || c == '_' || c == '$'; }

// Returns the value of a digit in base 16, or -1 for another character.
int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct Pair {
  char first, second, punct;
};
constexpr Pair kPairs[] = {
    {'<', '<', kShiftLeft}, {'>', '>', kShiftRight},   {'=', '=', kEqual},  {'!', '=', kNotEqual},
    {'<', '=', kLessEqual}, {'>', '=', kGreaterEqual}, {'&', '&', kAndAnd}, {'|', '|', kOrOr},
};

}  // namespace

Token Lexer::Make(TokenKind kind, size_t length) {
  Token token;
  token.kind = kind;
  token.line = line_;
  token.text = text_.substr(pos_, length);
  pos_ += length;
  return token;
}

Token Lexer::Fail(std::string message) {
  failed_ = true;
  error_ = std::move(message);
  return Make(TokenKind::kError, 0);
}

bool Lexer::SkipBlanks() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c == '\n') {
      ++line_;
      ++pos_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++pos_;
    } else if (c == '/' && At(pos_ + 1) == '/') {
      const size_t end = text_.find('\n', pos_);
      pos_ = end == std::string_view::npos ? text_.size() : end;
    } else if (c == '/' && At(pos_ + 1) == '*') {
      const size_t end = text_.find("*/", pos_ + 2);
      if (end == std::string_view::npos) return false;
      for (; pos_ < end; ++pos_) line_ += text_[pos_] == '\n';
      pos_ = end + 2;
    } else {
      break;
    }
  }
  return true;
}

Token Lexer::Next() {
  if (failed_) return Make(TokenKind::kError, 0);
  if (!SkipBlanks()) return Fail("comment without end");
  // A NUL ends the text, as it does for the driver.
  if (pos_ >= text_.size() || text_[pos_] == '\0') {
    pos_ = text_.size();
    return Make(TokenKind::kEnd, 0);
  }
  const char c = text_[pos_];
  if (IsDigit(c)) return Number();
  if (c == '.') return DotName();
  if (c == '"') return String();
  // '%' is also the remainder operator; in a register name a letter follows it.
  if (IsNameStart(c) && (c != '%' || (IsNamePart(At(pos_ + 1)) && !IsDigit(At(pos_ + 1))))) {
    return Name();
  }
  return Punct();
}

Token Lexer::Name() {
  size_t end = pos_ + 1;
  while (IsNamePart(At(end))) ++end;
  if (end - pos_ > kMaxNameBytes) return Fail("name too long");
  return Make(TokenKind::kName, end - pos_);
}

Token Lexer::DotName() {
  size_t end = pos_ + 1;
  for (;;) {
    while (IsNamePart(At(end))) ++end;
    if (At(end) != ':' || At(end + 1) != ':' || !IsNamePart(At(end + 2))) break;
    end += 2;
  }
  if (end == pos_ + 1) return Fail("'.' without a name");
  if (end - pos_ > kMaxNameBytes) return Fail("name too long");
  Token token = Make(TokenKind::kDotName, end - pos_);
  token.text.remove_prefix(1);
  return token;
}

Token Lexer::HexFloat(int digits, TokenKind kind) {
  uint64_t bits = 0;
  for (int i = 0; i < digits; ++i) {
    const int value = HexValue(At(pos_ + 2 + i));
    if (value < 0) return Fail("floating-point literal too short");
    bits = bits << 4 | static_cast<uint64_t>(value);
  }
  if (IsNamePart(At(pos_ + 2 + digits))) return Fail("floating-point literal too long");
  Token token = Make(kind, 2 + digits);
  token.bits = bits;
  return token;
}

Token Lexer::DecimalFloat(size_t end) {
  if (At(end) == '.') ++end;
  while (IsDigit(At(end))) ++end;
  if (At(end) == 'e' || At(end) == 'E') {
    ++end;
    if (At(end) == '+' || At(end) == '-') ++end;
    while (IsDigit(At(end))) ++end;
  }
  if (IsNamePart(At(end)) || end - pos_ > kMaxFloatBytes) return Fail("malformed number");
  Token token = Make(TokenKind::kFloat64, end - pos_);
  double value;
  if (!absl::SimpleAtod(std::string(token.text), &value)) return Fail("malformed number");
  std::memcpy(&token.bits, &value, sizeof(value));
  return token;
}

Token Lexer::Number() {
  int base = 10;
  size_t start = pos_;
  if (text_[pos_] == '0') {
    const char next = At(pos_ + 1);
    if (next == 'f' || next == 'F') return HexFloat(8, TokenKind::kFloat32);
    if (next == 'd' || next == 'D') return HexFloat(16, TokenKind::kFloat64);
    if (next == 'x' || next == 'X') {
      base = 16;
      start += 2;
    } else if (next == 'b' || next == 'B') {
      base = 2;
      start += 2;
    }
  }
  size_t end = start;
  while (base == 16 ? HexValue(At(end)) >= 0 : IsDigit(At(end))) ++end;
  if (base == 10 && (At(end) == '.' || At(end) == 'e' || At(end) == 'E')) return DecimalFloat(end);
  if (end == start) return Fail("number without digits");
  if (base == 10 && text_[start] == '0' && end > start + 1) base = 8;
  uint64_t value = 0;
  for (size_t i = start; i < end; ++i) {
    const int digit = HexValue(text_[i]);
    if (digit >= base) return Fail("digit out of range");
    if (__builtin_mul_overflow(value, static_cast<uint64_t>(base), &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(digit), &value)) {
      return Fail("integer does not fit into 64 bits");
    }
  }
  const bool suffix = At(end) == 'U';
  if (suffix) ++end;
  if (IsNamePart(At(end))) return Fail("malformed number");
  Token token = Make(TokenKind::kInteger, end - pos_);
  token.bits = value;
  token.is_unsigned = suffix || value > static_cast<uint64_t>(INT64_MAX);
  return token;
}

Token Lexer::String() {
  size_t end = pos_ + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n' && text_[end] != '\0') ++end;
  if (At(end) != '"') return Fail("string without end");
  Token token = Make(TokenKind::kString, end + 1 - pos_);
  token.text = token.text.substr(1, token.text.size() - 2);
  return token;
}

Token Lexer::Punct() {
  const char c = text_[pos_];
  for (const Pair& pair : kPairs) {
    if (c == pair.first && At(pos_ + 1) == pair.second) {
      Token token = Make(TokenKind::kPunct, 2);
      token.punct = pair.punct;
      return token;
    }
  }
  if (std::strchr("{}()[],;:|!@=<>+-*/%&^~?", c) == nullptr) {
    return Fail(absl::StrCat("unexpected character, code ", static_cast<unsigned char>(c)));
  }
  Token token = Make(TokenKind::kPunct, 1);
  token.punct = c;
  return token;
}

}  // namespace warpline::ptx
