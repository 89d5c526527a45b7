// Constant expressions, folded while parsing. PTX gives them C's operators and 64-bit integers.
#include "absl/strings/str_cat.h"
#include "ptx/parser_impl.h"

namespace warpline::ptx {
namespace {

struct Binary {
  char punct;
  int precedence;
};
constexpr Binary kBinary[] = {
    {'*', 10},        {'/', 10}, {'%', 10}, {'+', 9},        {'-', 9},           {kShiftLeft, 8},
    {kShiftRight, 8}, {'<', 7},  {'>', 7},  {kLessEqual, 7}, {kGreaterEqual, 7}, {kEqual, 6},
    {kNotEqual, 6},   {'&', 5},  {'^', 4},  {'|', 3},        {kAndAnd, 2},       {kOrOr, 1},
};

// Returns the precedence of a binary operator, or 0 for any other token.
int Precedence(const Token& token) {
  if (token.kind != TokenKind::kPunct) return 0;
  for (const Binary& binary : kBinary) {
    if (binary.punct == token.punct) return binary.precedence;
  }
  return 0;
}

}  // namespace

bool Parser::ParseConstant(Constant* value) { return ParseTernary(0, value); }

bool Parser::ParseIntegerConstant(uint64_t* value) {
  Constant constant;
  if (!ParseConstant(&constant)) return false;
  if (constant.kind != Constant::Kind::kInteger) return Fail("expected an integer constant");
  *value = constant.bits;
  return true;
}

bool Parser::ParseTernary(size_t depth, Constant* value) {
  if (depth > limits_.expression_depth) return Fail("expression nested too deeply");
  if (!ParseBinary(1, depth, value)) return false;
  if (!AtPunct('?')) return true;
  Advance();
  Constant yes, no;
  if (!ParseTernary(depth + 1, &yes) || !Expect(':') || !ParseTernary(depth + 1, &no)) return false;
  *value = value->bits != 0 ? yes : no;
  return true;
}

bool Parser::ParseBinary(int min_precedence, size_t depth, Constant* value) {
  if (depth > limits_.expression_depth) return Fail("expression nested too deeply");
  if (!ParseUnary(depth, value)) return false;
  for (int precedence = Precedence(token_); precedence >= min_precedence && precedence > 0;
       precedence = Precedence(token_)) {
    const char op = token_.punct;
    Advance();
    Constant right;
    if (!ParseBinary(precedence + 1, depth + 1, &right)) return false;
    if (!Apply(op, right, value)) return false;
  }
  return true;
}

bool Parser::ParseUnary(size_t depth, Constant* value) {
  if (depth > limits_.expression_depth) return Fail("expression nested too deeply");
  switch (token_.kind) {
    case TokenKind::kInteger:
      *value = {Constant::Kind::kInteger, token_.bits, token_.is_unsigned};
      Advance();
      return true;
    case TokenKind::kFloat32:
    case TokenKind::kFloat64:
      value->kind =
          token_.kind == TokenKind::kFloat32 ? Constant::Kind::kFloat32 : Constant::Kind::kFloat64;
      value->bits = token_.bits;
      Advance();
      return true;
    case TokenKind::kName:
      if (token_.text != "WARP_SZ") return Fail("expected a constant");
      *value = {Constant::Kind::kInteger, 32, false};
      Advance();
      return true;
    case TokenKind::kPunct:
      break;
    default:
      return Fail("expected a constant");
  }
  if (Accept('(')) {
    if (AtDot("s64") || AtDot("u64")) {
      const bool is_unsigned = AtDot("u64");
      Advance();
      if (!Expect(')') || !ParseUnary(depth + 1, value)) return false;
      if (value->kind != Constant::Kind::kInteger) return Fail("cast of a floating-point constant");
      value->is_unsigned = is_unsigned;
      return true;
    }
    return ParseTernary(depth + 1, value) && Expect(')');
  }
  const char op = token_.punct;
  if (op != '-' && op != '+' && op != '~' && op != '!') return Fail("expected a constant");
  Advance();
  if (!ParseUnary(depth + 1, value)) return false;
  if (value->kind != Constant::Kind::kInteger) {
    if (op == '~' || op == '!') return Fail("operator needs an integer");
    const uint64_t sign =
        value->kind == Constant::Kind::kFloat32 ? uint64_t{1} << 31 : uint64_t{1} << 63;
    if (op == '-') value->bits ^= sign;
    return true;
  }
  if (op == '-') value->bits = -value->bits;
  if (op == '~') value->bits = ~value->bits;
  if (op == '!') *value = {Constant::Kind::kInteger, value->bits == 0 ? 1u : 0u, false};
  return true;
}

bool Parser::Apply(char op, const Constant& right, Constant* left) {
  if (left->kind != Constant::Kind::kInteger || right.kind != Constant::Kind::kInteger) {
    return Fail("operator needs integers");
  }
  const uint64_t a = left->bits;
  const uint64_t b = right.bits;
  const auto sa = static_cast<int64_t>(a);
  const auto sb = static_cast<int64_t>(b);
  const bool shift = op == kShiftLeft || op == kShiftRight;
  const bool is_unsigned = left->is_unsigned || (right.is_unsigned && !shift);
  uint64_t r = 0;
  bool is_bool = false;
  switch (op) {
    case '*':
      r = a * b;
      break;
    case '+':
      r = a + b;
      break;
    case '-':
      r = a - b;
      break;
    case '&':
      r = a & b;
      break;
    case '|':
      r = a | b;
      break;
    case '^':
      r = a ^ b;
      break;
    case kShiftLeft:
      r = b < 64 ? a << b : 0;
      break;
    case kShiftRight:
      if (is_unsigned) {
        r = b < 64 ? a >> b : 0;
      } else {
        r = static_cast<uint64_t>(sa >> (b < 64 ? b : 63));
      }
      break;
    case '/':
    case '%':
      if (b == 0) return Fail("division by zero");
      if (is_unsigned) {
        r = op == '/' ? a / b : a % b;
      } else if (sb == -1) {  // The quotient of the least integer does not fit.
        r = op == '/' ? -a : 0;
      } else {
        r = static_cast<uint64_t>(op == '/' ? sa / sb : sa % sb);
      }
      break;
    default:
      is_bool = true;
      switch (op) {
        case kEqual:
          r = a == b;
          break;
        case kNotEqual:
          r = a != b;
          break;
        case '<':
          r = is_unsigned ? a < b : sa < sb;
          break;
        case '>':
          r = is_unsigned ? a > b : sa > sb;
          break;
        case kLessEqual:
          r = is_unsigned ? a <= b : sa <= sb;
          break;
        case kGreaterEqual:
          r = is_unsigned ? a >= b : sa >= sb;
          break;
        case kAndAnd:
          r = a != 0 && b != 0;
          break;
        default:
          r = a != 0 || b != 0;
          break;
      }
  }
  *left = {Constant::Kind::kInteger, r, is_unsigned && !is_bool};
  return true;
}

}  // namespace warpline::ptx
