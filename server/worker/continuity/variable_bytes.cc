#include "server/worker/continuity/variable_bytes.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <system_error>

#include "common/elf/elf_header.h"
#include "common/elf/sections.h"

namespace warpline::worker {
namespace {

uint64_t Sum(uint64_t one, uint64_t other) { return std::min(one + other, kTooManyBytes); }

uint64_t Product(uint64_t one, uint64_t other) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(one, other, &product)) return kTooManyBytes;
  return std::min(product, kTooManyBytes);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsNamePart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '_' || c == '$' ||
         c == '%';
}

// The words of a PTX text: directives with their dot, names and instructions, single signs.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  // Empty at the end.
  std::string_view Next() {
    SkipBlanks();
    if (at_ >= text_.size()) return {};
    const size_t start = at_++;
    const bool directive = text_[start] == '.';
    if (!directive && !IsNamePart(text_[start])) return text_.substr(start, 1);
    // An instruction has its types in it (ld.global.u32); directives and numbers may touch others.
    const bool alone = directive || IsDigit(text_[start]);
    while (at_ < text_.size() && (IsNamePart(text_[at_]) || (!alone && text_[at_] == '.'))) ++at_;
    return text_.substr(start, at_ - start);
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size()) {
      if (text_.compare(at_, 2, "//") == 0) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.compare(at_, 2, "/*") == 0) {
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else if (text_[at_] == '"') {
        const size_t end = text_.find('"', at_ + 1);
        at_ = end == std::string_view::npos ? text_.size() : end + 1;
      } else if (static_cast<unsigned char>(text_[at_]) <= ' ') {
        ++at_;
      } else {
        return;
      }
    }
  }

  const std::string_view text_;
  size_t at_ = 0;
};

// Nothing unless all of the word is a number.
std::optional<uint64_t> Number(std::string_view word, int base) {
  uint64_t value = 0;
  const char* const end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, value, base);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

// Of one element of a type such as .u32 or .f16x2. Those of no number, such as .texref, are taken
// for the largest.
uint64_t TypeBytes(std::string_view type) {
  const size_t digits = type.find_first_of("0123456789");
  if (digits == std::string_view::npos) return 16;
  const std::string_view rest = type.substr(digits);
  const size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const auto bits = Number(rest.substr(0, end), 10);
  if (!bits.has_value() || *bits > 128) return 16;
  const uint64_t bytes = std::max<uint64_t>(*bits / 8, 1);
  return rest.substr(end) == "x2" ? 2 * bytes : bytes;
}

bool IsType(std::string_view word) {
  static constexpr std::string_view kNone[] = {
      ".global", ".align", ".attribute", ".visible", ".weak", ".common", ".v2", ".v4", ".v8"};
  return word.size() > 1 && word[0] == '.' &&
         std::find(std::begin(kNone), std::end(kNone), word) == std::end(kNone);
}

std::optional<uint64_t> Length(std::string_view word) {
  if (word.ends_with('U')) word.remove_suffix(1);
  if (word.starts_with("0x") || word.starts_with("0X")) return Number(word.substr(2), 16);
  // With a zero in front it would be octal.
  if (word.size() > 1 && word[0] == '0') return std::nullopt;
  return Number(word, 10);
}

// Reads what follows `.global` up to the end of the statement, and sums up what it declares.
class Declaration {
 public:
  explicit Declaration(Words* words) : words_(words) {}

  uint64_t Read() {
    for (std::string_view word = words_->Next(); !word.empty() && word != ";";
         word = words_->Next()) {
      if (word == ",") {
        EndVariable();
      } else if (word == ".align") {
        words_->Next();
      } else if (word == "(") {
        Skip("(", ")");
      } else if (word == "{") {
        // What an initialiser lists bounds the length of an array that leaves it open.
        open_length_ = Skip("{", "}") + 1;
      } else if (word == "[") {
        ReadLength();
      } else if (word[0] != '.') {
        named_ = true;  // What follows is no type any more, but may be a number such as 0.5.
      } else if (!named_ && word.size() == 3 && word[1] == 'v') {
        vector_ = Length(word.substr(2)).value_or(8);
      } else if (!named_ && IsType(word)) {
        type_ = TypeBytes(word);
      }
    }
    EndVariable();
    return sum_;
  }

 private:
  void ReadLength() {
    const std::string_view word = words_->Next();
    if (word == "]") {
      open_ = true;
      return;
    }
    elements_ = Product(elements_, Length(word).value_or(kTooManyBytes));
    if (words_->Next() == "]") return;
    // An expression.
    elements_ = kTooManyBytes;
    Skip("[", "]");
  }

  // Skips to the sign that closes, and returns the number of commas before it.
  uint64_t Skip(std::string_view opens, std::string_view closes) {
    uint64_t commas = 0;
    int depth = 1;
    while (depth > 0) {
      const std::string_view word = words_->Next();
      if (word.empty()) break;
      if (word == opens) ++depth;
      if (word == closes) --depth;
      if (word == ",") ++commas;
    }
    return commas;
  }

  void EndVariable() {
    const uint64_t elements = open_ ? Product(elements_, open_length_) : elements_;
    sum_ = Sum(sum_, Product(Product(type_, vector_), elements));
    elements_ = 1;
    open_ = false;
    open_length_ = 1;
  }

  Words* const words_;
  uint64_t type_ = 16;
  uint64_t vector_ = 1;
  uint64_t elements_ = 1;
  uint64_t open_length_ = 1;
  bool open_ = false;
  bool named_ = false;
  uint64_t sum_ = 0;
};

}  // namespace

uint64_t CubinVariableBytes(std::string_view cubin) {
  const elf::ReadAt read = elf::InMemory(cubin);
  // The device may take a file whatever class it says that it has.
  const auto header = elf::ReadHeader(read);
  if (!header.has_value()) return kTooManyBytes;
  const auto sections = elf::ReadSections(*header, read, cubin.size(), {});
  if (!sections.ok()) return kTooManyBytes;
  uint64_t sum = 0;
  for (const elf::Section& section : *sections) {
    if (!section.name.has_value()) return kTooManyBytes;
    if (section.name->starts_with(".nv.global")) sum = Sum(sum, section.header.sh_size);
  }
  return sum;
}

uint64_t PtxVariableBytes(std::string_view ptx) {
  uint64_t sum = 0;
  Words words(ptx);
  std::string_view before;
  bool defined_elsewhere = false;
  for (std::string_view word = words.Next(); !word.empty(); word = words.Next()) {
    // A parameter's .ptr .global says where it points.
    if (word == ".global" && before != ".ptr") {
      const uint64_t bytes = Declaration(&words).Read();
      if (!defined_elsewhere) sum = Sum(sum, bytes);
      word = ";";
    }
    if (word == ".extern") defined_elsewhere = true;
    if (word == ";" || word == "{" || word == "}") defined_elsewhere = false;
    before = word;
  }
  return sum;
}

}  // namespace warpline::worker
