// Reads the lines of guarded PTX: one statement a line, in the only spelling that is allowed.
//
// There is one way to write each statement. White space, comments, numbers in other bases, nested
// vectors and the like are not skipped or understood but refused. Nothing is copied: what is read
// points into the text. Thread-compatible.
#ifndef WARPLINE_GUARD_VERIFY_READER_H_
#define WARPLINE_GUARD_VERIFY_READER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace warpline::guard {

// Says why something is refused. It is a literal; it is empty for what is accepted.
using Refusal = std::string_view;

struct Line {
  size_t number = 0;
  std::string_view text;  // Without its end
};

// A refused line. `refusal` is empty if nothing is refused.
struct Finding {
  Line line;
  Refusal refusal;
};

// Splits a text into lines.
class Lines {
 public:
  // `number` is that of the line before the first one.
  explicit Lines(std::string_view text, size_t number = 0) : rest_(text), line_{number, {}} {}

  // Goes to the next line. Returns false at the end, and at a line that has no end.
  bool Next();

  const Line& line() const { return line_; }
  std::string_view rest() const { return rest_; }  // What follows the line

 private:
  std::string_view rest_;
  Line line_;
};

// A place in a line. Each method reads one thing and steps behind it; if the thing does not stand
// there, the method returns false and the place may be anywhere.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool AtEnd() const { return rest_.empty(); }
  bool Sees(char c) const { return !rest_.empty() && rest_[0] == c; }
  std::string_view rest() const { return rest_; }

  // Reads exactly `text`. The place does not move otherwise.
  bool Skip(std::string_view text);
  // A name of PTX: a letter, or one of _ $ % and another character, and letters, digits, _ and $.
  bool Name(std::string_view* name);
  // Letters, digits, _ and ::, as in an opcode or modifier.
  bool Word(std::string_view* word);
  // A decimal number in 64 bits, without a needless zero or sign.
  bool Integer(int64_t* value);
  // An Integer() from 0 on.
  bool Count(int64_t* value);
  // Nothing, which is 0, or + and an Integer() that is not 0.
  bool Offset(int64_t* value);
  // 0f or 0d, and 8 or 16 digits in capitals.
  bool Float();

 private:
  std::string_view rest_;
};

struct Operand {
  enum class Kind : uint8_t {
    kName,     // [!]name[.component][+value]
    kSink,     // _
    kInteger,  // value
    kFloat,
    kVector,   // {elements}
    kPair,     // element|element
    kAddress,  // [name+value]
    kList,     // (elements), in calls
  };
  Kind kind = Kind::kName;
  bool negated = false;
  std::string_view name = {};
  std::string_view component = {};  // "x" of %tid.x; empty if there is none
  int64_t value = 0;
  // The elements of this operand in Instruction::elements. Elements have none of their own.
  uint32_t first = 0;
  uint32_t count = 0;
};

struct Instruction {
  bool has_predicate = false;
  std::string_view predicate;  // The name, without ! and @
  std::string_view text;       // What follows the predicate, without the semicolon
  std::string_view opcode;
  absl::InlinedVector<std::string_view, 12> modifiers;
  absl::InlinedVector<Operand, 6> operands;
  std::vector<Operand> elements;

  absl::Span<const Operand> ElementsOf(const Operand& operand) const {
    return absl::MakeConstSpan(elements).subspan(operand.first, operand.count);
  }
};

// Reads a line with an instruction: a tab, the instruction, and a semicolon. `instruction` is
// overwritten, so that one object serves a whole text.
Refusal ReadInstruction(std::string_view line, Instruction* instruction);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_READER_H_
