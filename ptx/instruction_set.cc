#include "ptx/instruction_set.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace warpline::ptx {
namespace {

// A row with its texts cut into words.
struct Entry {
  const InstructionRow* row = nullptr;
  std::vector<std::string_view> name;  // After the opcode
  std::vector<std::string_view> words;
};

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// The rows by opcode, those with the longest names first.
using Index = std::unordered_map<std::string_view, std::vector<Entry>>;

Index* BuildIndex() {
  auto* const index = new Index;
  for (const InstructionRow& row : InstructionRows()) {
    Entry entry;
    entry.row = &row;
    entry.name = Split(row.mnemonic, '.');
    const std::string_view opcode = entry.name.front();
    entry.name.erase(entry.name.begin());
    entry.words = Split(row.modifiers, ' ');
    (*index)[opcode].push_back(std::move(entry));
  }
  for (auto& [opcode, entries] : *index) {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.name.size() > b.name.size(); });
  }
  return index;
}

const Entry* FindEntry(const Instruction& instruction) {
  static const Index& index = *BuildIndex();
  const auto found = index.find(instruction.opcode);
  if (found == index.end()) return nullptr;
  const std::vector<std::string>& modifiers = instruction.modifiers;
  for (const Entry& entry : found->second) {
    if (entry.name.size() <= modifiers.size() &&
        std::equal(entry.name.begin(), entry.name.end(), modifiers.begin())) {
      return &entry;
    }
  }
  return nullptr;
}

bool IsOneOf(std::string_view text, absl::Span<const std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Cache and scope modifiers: they say when other threads see an access, but not where it goes.
bool IsHint(std::string_view modifier) {
  static constexpr std::string_view kHints[] = {"weak", "cta", "cluster", "gpu",     "sys",
                                                "ca",   "cg",  "cs",      "cv",      "lu",
                                                "wb",   "wt",  "nc",      "unified", "noftz"};
  return IsOneOf(modifier, kHints) || modifier.substr(0, 4) == "L1::" ||
         modifier.substr(0, 4) == "L2::";
}

bool IsOrder(std::string_view modifier) {
  static constexpr std::string_view kOrders[] = {"volatile", "relaxed", "acquire",
                                                 "release",  "acq_rel", "mmio"};
  return IsOneOf(modifier, kOrders);
}

bool IsOperation(std::string_view modifier) {
  static constexpr std::string_view kOperations[] = {"and", "or",  "xor", "cas", "exch",
                                                     "add", "inc", "dec", "min", "max"};
  return IsOneOf(modifier, kOperations);
}

uint32_t VectorOf(std::string_view modifier) {
  return modifier == "v2" ? 2 : modifier == "v4" ? 4 : modifier == "v8" ? 8 : 0;
}

// "m16n8k16"
bool IsShape(std::string_view modifier) {
  return modifier.size() >= 6 && modifier[0] == 'm' &&
         modifier.find_first_not_of("mnk0123456789") == std::string_view::npos;
}

// The types that PTX has for matrices and not for registers.
bool IsType(std::string_view modifier) {
  static constexpr std::string_view kTypes[] = {"tf32", "s4", "u4", "b1"};
  return TypeBytes(modifier) != 0 || IsOneOf(modifier, kTypes);
}

Role RoleOf(char letter) {
  switch (letter) {
    case 'd':
      return Role::kDestination;
    case 's':
      return Role::kSource;
    case 'p':
      return Role::kPredicate;
    case 'i':
      return Role::kImmediate;
    case 't':
      return Role::kTarget;
    case 'l':
      return Role::kList;
    default:
      return Role::kAddress;
  }
}

}  // namespace

const InstructionRow* FindInstruction(const Instruction& instruction) {
  const Entry* const entry = FindEntry(instruction);
  return entry == nullptr ? nullptr : entry->row;
}

// Tries both ways for each operand that may be left out, first with the operand.
bool Description::MatchOperands(const Instruction& instruction, std::string_view letters,
                                size_t operand) {
  if (letters.empty()) {
    count_ = operand;
    return operand == instruction.operands.size();
  }
  const bool optional = letters.size() > 1 && letters[1] == '?';
  const std::string_view rest = letters.substr(optional ? 2 : 1);
  if (operand < instruction.operands.size() && operand < kMostOperands) {
    const Operand::Kind kind = instruction.operands[operand].kind;
    const Role role = RoleOf(letters[0]);
    roles_[operand] = role;
    letters_[operand] = letters[0];
    if ((kind == Operand::Kind::kAddress) == (role == Role::kAddress) &&
        (kind == Operand::Kind::kList) == (role == Role::kList) &&
        (kind == Operand::Kind::kInteger || role != Role::kImmediate) &&
        MatchOperands(instruction, rest, operand + 1)) {
      return true;
    }
  }
  return optional && MatchOperands(instruction, rest, operand);
}

// Returns false for a modifier that the row does not have. A type stands at the end.
bool Description::ReadModifiers(absl::Span<const std::string> modifiers,
                                absl::Span<const std::string_view> words) {
  for (const std::string& modifier : modifiers) {
    const auto has = [&](std::string_view word) { return IsOneOf(word, words); };
    StateSpace space;
    if (has("<type>") && &modifier == &modifiers.back()) {
      type_ = modifier;
      if (!IsType(type_)) return false;
    } else if (has("<space>") && FindStateSpace(modifier, &space)) {
      if (space_count_ == accesses_.size()) return false;
      accesses_[space_count_++].space = space;
    } else if (has("<order>") && IsOrder(modifier)) {
      ordered_ = true;
    } else if (has("<vector>") && VectorOf(modifier) != 0) {
      vector_ = VectorOf(modifier);
    } else if (has("<operation>") && IsOperation(modifier)) {
      if (!operation_.empty()) return false;
      operation_ = modifier;
    } else if (!(has("<hint>") && IsHint(modifier)) && !(has("<shape>") && IsShape(modifier)) &&
               !has(modifier)) {
      return false;
    }
  }
  return !type_.empty() || !IsOneOf("<type>", words);
}

void Description::FindAccesses(const Instruction& instruction) {
  uint64_t bytes = 0;
  switch (row_->extent) {
    case Extent::kNone:
    case Extent::kMatrix:
      break;
    case Extent::kElements:
      bytes = static_cast<uint64_t>(TypeBytes(type_)) * vector_;
      break;
    case Extent::kImmediate:
      for (size_t i = 0; i < count_; ++i) {
        if (roles_[i] == Role::kImmediate) bytes = instruction.operands[i].value;
      }
      break;
    case Extent::kBarrier:
      bytes = 8;
      break;
    case Extent::kTileRow:
      bytes = 16;
      break;
  }
  for (size_t i = 0; i < count_; ++i) {
    if (roles_[i] != Role::kAddress) continue;
    MemoryAccess& access = accesses_[access_count_++];
    access.operand = static_cast<uint8_t>(i);
    access.kind = letters_[i] == 'R'   ? AccessKind::kRead
                  : letters_[i] == 'W' ? AccessKind::kWrite
                  : letters_[i] == 'U' ? AccessKind::kUpdate
                                       : AccessKind::kNone;
    access.bytes = access.kind == AccessKind::kNone ? 0 : bytes;
  }
}

Verdict Describe(const Instruction& instruction, Description* description) {
  const Entry* const entry = FindEntry(instruction);
  if (entry == nullptr) return Verdict::kUnknown;
  *description = Description();
  description->row_ = entry->row;
  const absl::Span<const std::string> modifiers =
      absl::MakeConstSpan(instruction.modifiers).subspan(entry->name.size());
  if (!entry->words.empty() && !description->ReadModifiers(modifiers, entry->words)) {
    return Verdict::kUnknown;
  }
  if (!description->MatchOperands(instruction, entry->row->operands, 0)) {
    return Verdict::kWrongOperands;
  }
  description->FindAccesses(instruction);
  return description->space_count_ <= description->access_count_ ? Verdict::kKnown
                                                                 : Verdict::kUnknown;
}

}  // namespace warpline::ptx
