#include "guard/verify/reader.h"

#include <limits>

#include "absl/strings/ascii.h"

namespace warpline::guard {
namespace {

constexpr size_t kMostParts = 4096;  // Operands and their elements in one instruction

bool IsNamePart(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$'; }
bool IsUpperHex(char c) { return absl::ascii_isdigit(c) || (c >= 'A' && c <= 'F'); }

// A name with what may stand around it.
bool ReadNamed(Cursor* cursor, Operand* operand) {
  operand->negated = cursor->Skip("!");
  if (!cursor->Name(&operand->name)) return false;
  if (cursor->Skip(".") && !cursor->Word(&operand->component)) return false;
  return cursor->Offset(&operand->value);
}

// `_`, unless it begins a name.
bool ReadSink(Cursor* cursor, Operand* operand) {
  const std::string_view rest = cursor->rest();
  if (rest.empty() || rest[0] != '_' || (rest.size() > 1 && IsNamePart(rest[1]))) return false;
  operand->kind = Operand::Kind::kSink;
  return cursor->Skip("_");
}

// What may be an element of something else.
bool ReadElement(Cursor* cursor, Operand* operand) {
  if (ReadSink(cursor, operand)) return true;
  if (cursor->rest().starts_with("0f") || cursor->rest().starts_with("0d")) {
    operand->kind = Operand::Kind::kFloat;
    return cursor->Float();
  }
  if (!cursor->AtEnd() && (cursor->Sees('-') || absl::ascii_isdigit(cursor->rest()[0]))) {
    operand->kind = Operand::Kind::kInteger;
    return cursor->Integer(&operand->value);
  }
  operand->kind = Operand::Kind::kName;
  return ReadNamed(cursor, operand);
}

bool AddElement(Cursor* cursor, Operand* operand, std::vector<Operand>* elements) {
  if (elements->size() >= kMostParts) return false;
  ++operand->count;
  return ReadElement(cursor, &elements->emplace_back());
}

bool ReadElements(Cursor* cursor, std::string_view end, Operand* operand,
                  std::vector<Operand>* elements) {
  if (cursor->Skip(end)) return true;
  do {
    if (!AddElement(cursor, operand, elements)) return false;
  } while (cursor->Skip(", "));
  return cursor->Skip(end);
}

bool ReadOperand(Cursor* cursor, Operand* operand, std::vector<Operand>* elements) {
  operand->first = static_cast<uint32_t>(elements->size());
  if (cursor->Skip("[")) {
    operand->kind = Operand::Kind::kAddress;
    return cursor->Name(&operand->name) && cursor->Offset(&operand->value) && cursor->Skip("]");
  }
  if (cursor->Skip("{")) {
    operand->kind = Operand::Kind::kVector;
    return ReadElements(cursor, "}", operand, elements);
  }
  if (cursor->Skip("(")) {
    operand->kind = Operand::Kind::kList;
    return ReadElements(cursor, ")", operand, elements);
  }
  if (!ReadElement(cursor, operand)) return false;
  if (!cursor->Skip("|")) return true;
  if (elements->size() >= kMostParts) return false;
  Operand pair;
  pair.kind = Operand::Kind::kPair;
  pair.first = operand->first;
  pair.count = 1;
  elements->push_back(*operand);
  *operand = pair;
  return AddElement(cursor, operand, elements);
}

}  // namespace

bool Lines::Next() {
  const size_t end = rest_.find('\n');
  if (end == std::string_view::npos) return false;
  line_ = {line_.number + 1, rest_.substr(0, end)};
  rest_.remove_prefix(end + 1);
  return true;
}

bool Cursor::Skip(std::string_view text) {
  if (!rest_.starts_with(text)) return false;
  rest_.remove_prefix(text.size());
  return true;
}

bool Cursor::Name(std::string_view* name) {
  if (rest_.empty()) return false;
  const bool letter = absl::ascii_isalpha(rest_[0]);
  if (!letter && rest_[0] != '_' && rest_[0] != '$' && rest_[0] != '%') return false;
  size_t size = 1;
  while (size < rest_.size() && IsNamePart(rest_[size])) ++size;
  *name = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return letter || size > 1;
}

bool Cursor::Word(std::string_view* word) {
  size_t size = 0;
  while (size < rest_.size()) {
    if (absl::ascii_isalnum(rest_[size]) || rest_[size] == '_') {
      ++size;
    } else if (size > 0 && rest_.substr(size, 2) == "::") {
      size += 2;
    } else {
      break;
    }
  }
  *word = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return size > 0 && word->back() != ':';
}

bool Cursor::Integer(int64_t* value) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  const bool negative = Skip("-");
  uint64_t size = 0;
  size_t digits = 0;
  for (; digits < rest_.size() && absl::ascii_isdigit(rest_[digits]); ++digits) {
    const uint64_t digit = static_cast<uint64_t>(rest_[digits] - '0');
    if (digits >= 19 || size > (kMost + 1 - digit) / 10) return false;  // Up to 2^63
    size = size * 10 + digit;
  }
  if (digits == 0 || (rest_[0] == '0' && (digits > 1 || negative))) return false;
  if (size > kMost && !negative) return false;
  rest_.remove_prefix(digits);
  *value = static_cast<int64_t>(negative ? 0 - size : size);
  return true;
}

bool Cursor::Count(int64_t* value) { return Integer(value) && *value >= 0; }

bool Cursor::Offset(int64_t* value) {
  *value = 0;
  return !Skip("+") || (Integer(value) && *value != 0);
}

bool Cursor::Float() {
  const size_t size = rest_.starts_with("0f") ? 10 : rest_.starts_with("0d") ? 18 : 0;
  if (size == 0 || rest_.size() < size) return false;
  for (const char c : rest_.substr(2, size - 2)) {
    if (!IsUpperHex(c)) return false;
  }
  rest_.remove_prefix(size);
  return true;
}

Refusal ReadInstruction(std::string_view line, Instruction* instruction) {
  instruction->modifiers.clear();
  instruction->operands.clear();
  instruction->elements.clear();
  instruction->predicate = {};
  if (line.size() < 3 || line.front() != '\t' || line.back() != ';') {
    return "a statement stands between a tab and a semicolon";
  }
  Cursor cursor(line.substr(1, line.size() - 2));
  instruction->has_predicate = cursor.Skip("@");
  if (instruction->has_predicate) {
    cursor.Skip("!");
    if (!cursor.Name(&instruction->predicate) || !cursor.Skip(" ")) return "a malformed predicate";
  }
  instruction->text = cursor.rest();
  if (!cursor.Word(&instruction->opcode)) return "a malformed opcode";
  while (cursor.Skip(".")) {
    if (instruction->modifiers.size() >= kMostParts) return "too many modifiers";
    if (!cursor.Word(&instruction->modifiers.emplace_back())) return "a malformed modifier";
  }
  if (cursor.AtEnd()) return {};
  if (!cursor.Skip(" ")) return "a malformed opcode";
  do {
    if (instruction->operands.size() >= kMostParts) return "too many operands";
    if (!ReadOperand(&cursor, &instruction->operands.emplace_back(), &instruction->elements)) {
      return "a malformed operand";
    }
  } while (cursor.Skip(", "));
  return cursor.AtEnd() ? Refusal() : "something follows the operands";
}

}  // namespace warpline::guard
