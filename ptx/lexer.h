// Splits PTX text into tokens, in linear time and without copying.
//
// White space and comments are skipped wherever they stand, even inside an opcode, as ptxas does.
// Thread-compatible.
#ifndef WARPLINE_PTX_LEXER_H_
#define WARPLINE_PTX_LEXER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace warpline::ptx {

enum class TokenKind : uint8_t {
  kEnd,
  kError,    // Lexer::error() says what is wrong.
  kName,     // ld, %r1, $L__BB0_1, _
  kDotName,  // .global, .L2::cache_hint; `text` leaves the dot out.
  kInteger,  // `bits`
  kFloat32,  // 0f3F800000; `bits`
  kFloat64,  // 0d3FF0000000000000 or 1.5; `bits`
  kString,   // "nounroll"; `text` leaves the quotes out.
  kPunct,    // `punct`
};

// Operators of two characters, as they appear in `Token::punct`.
inline constexpr char kShiftLeft = 'L';
inline constexpr char kShiftRight = 'R';
inline constexpr char kEqual = 'E';
inline constexpr char kNotEqual = 'N';
inline constexpr char kLessEqual = 'l';
inline constexpr char kGreaterEqual = 'g';
inline constexpr char kAndAnd = 'A';
inline constexpr char kOrOr = 'O';

struct Token {
  TokenKind kind = TokenKind::kEnd;
  char punct = 0;
  bool is_unsigned = false;  // An integer with suffix U, or above the signed range.
  uint32_t line = 1;
  uint64_t bits = 0;
  std::string_view text;  // Points into the lexer's input.
};

class Lexer {
 public:
  // `text` must outlive the lexer and its tokens.
  explicit Lexer(std::string_view text) : text_(text) {}

  // Returns the next token. After kEnd or kError it keeps returning that token.
  Token Next();

  const std::string& error() const { return error_; }

 private:
  bool SkipBlanks();
  Token Name();
  Token DotName();
  Token Number();
  Token String();
  Token Punct();
  Token HexFloat(int digits, TokenKind kind);
  Token DecimalFloat(size_t end);
  Token Make(TokenKind kind, size_t length);
  Token Fail(std::string message);
  char At(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  std::string_view text_;
  size_t pos_ = 0;
  uint32_t line_ = 1;
  bool failed_ = false;
  std::string error_;
};

}  // namespace warpline::ptx

#endif  // WARPLINE_PTX_LEXER_H_
