#include "guard/verify/instructions.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "guard/verify/instruction_table.h"

namespace warpline::guard {
namespace {

// Finds rows by their opcodes, and words.
class Table {
 public:
  Table() {
    for (const Row& row : Rows()) {
      rows_[row.mnemonic.substr(0, row.mnemonic.find('.'))].push_back(&row);
    }
    for (const Word& word : AllWords()) words_.emplace(word.word, &word);
  }

  // Returns null for an instruction that has no row. `skipped` is how many modifiers belong to
  // the mnemonic.
  const Row* FindRow(const Instruction& instruction, size_t* skipped) const {
    const auto found = rows_.find(instruction.opcode);
    if (found == rows_.end()) return nullptr;
    for (const Row* row : found->second) {
      if (IsNamedBy(*row, instruction, skipped)) return row;
    }
    return nullptr;
  }

  const Word* FindWord(std::string_view word) const {
    const auto found = words_.find(word);
    return found == words_.end() ? nullptr : found->second;
  }

 private:
  static bool IsNamedBy(const Row& row, const Instruction& instruction, size_t* skipped) {
    std::string_view rest = row.mnemonic.substr(instruction.opcode.size());
    for (*skipped = 0; !rest.empty(); ++*skipped) {
      if (*skipped == instruction.modifiers.size()) return false;
      rest.remove_prefix(1);  // The dot
      const std::string_view word = rest.substr(0, rest.find('.'));
      if (word != instruction.modifiers[*skipped]) return false;
      rest.remove_prefix(word.size());
    }
    return true;
  }

  absl::flat_hash_map<std::string_view, std::vector<const Row*>> rows_;
  absl::flat_hash_map<std::string_view, const Word*> words_;
};

const Table& TheTable() {
  static const Table* const table = new Table();
  return *table;
}

// Whether a modifier of an instruction on registers may be such that it names memory.
bool MayNameMemory(std::string_view modifier) {
  const Word* const word = TheTable().FindWord(modifier);
  if (word != nullptr) {
    return (word->groups & (kSpaceWord | kBulkWord)) != 0 || modifier == "async";
  }
  return modifier == "bulk" || modifier == "tensor" || modifier == "tensormap" ||
         (modifier.find("::") != std::string_view::npos && !modifier.starts_with("sp::") &&
          !modifier.starts_with("kind::") && !modifier.starts_with("scale_vec::"));
}

// What the modifiers of an instruction say.
struct Modifiers {
  int spaces = 0;  // How many are named
  uint8_t named = 0;
  Space space = Space::kGeneric;
  int types = 0;
  int64_t type_bytes = 0;
  int vectors = 0;
  int64_t elements = 1;
};

Refusal ReadModifiers(const Instruction& instruction, const Row& row, size_t skipped,
                      Modifiers* modifiers) {
  for (size_t i = skipped; i < instruction.modifiers.size(); ++i) {
    if (row.words == kAnyWord) {
      if (MayNameMemory(instruction.modifiers[i])) return "a modifier that names memory";
      continue;
    }
    const Word* const word = TheTable().FindWord(instruction.modifiers[i]);
    if (word == nullptr || (word->groups & row.words) == 0) return "an unknown modifier";
    const uint32_t groups = word->groups & row.words;
    if ((groups & kSpaceWord) != 0) {
      ++modifiers->spaces;
      modifiers->space = word->space;
      modifiers->named |= SpaceBit(word->space);
    }
    if ((groups & kTypeWord) != 0) {
      ++modifiers->types;
      modifiers->type_bytes = word->number;
    }
    if ((groups & kVectorWord) != 0) {
      ++modifiers->vectors;
      modifiers->elements = word->number;
    }
  }
  return {};
}

// Describes the two addresses of a copy from global to shared memory.
Refusal DescribeCopy(const Instruction& instruction, const Modifiers& modifiers,
                     Description* description) {
  constexpr uint8_t kBoth = SpaceBit(Space::kGlobal) | SpaceBit(Space::kShared);
  if (modifiers.spaces != 2 || modifiers.named != kBoth) return "not a copy from global to shared";
  const Operand& size = instruction.operands[2];
  if (size.kind != Operand::Kind::kInteger ||
      (size.value != 4 && size.value != 8 && size.value != 16)) {
    return "not a number of bytes that can be copied";
  }
  description->count = 2;
  description->accesses[0] = {.operand = 0, .space = Space::kShared, .writes = true};
  description->accesses[1] = {.operand = 1, .space = Space::kGlobal};
  for (Access& access : description->accesses) access.bytes = size.value;
  return {};
}

// Describes the addresses of a copy of many bytes, which is one of these.
Refusal DescribeBulkCopy(const Instruction& instruction, Description* description) {
  using Words = std::vector<std::string_view>;
  constexpr std::string_view kDone = "mbarrier::complete_tx::bytes";
  const Words words(instruction.modifiers.begin(), instruction.modifiers.end());
  const bool to_shared = words == Words{"async", "bulk", "shared::cta", "global", kDone} ||
                         words == Words{"async", "bulk", "shared::cluster", "global", kDone};
  const bool to_global = words == Words{"async", "bulk", "global", "shared::cta", "bulk_group"};
  if (!to_shared && !to_global) return "not a copy between global and shared memory";
  if (instruction.operands.size() != (to_shared ? 4u : 3u)) return "a wrong number of operands";
  const Space target = to_shared ? Space::kShared : Space::kGlobal;
  const Space source = to_shared ? Space::kGlobal : Space::kShared;
  description->count = to_shared ? 3 : 2;
  description->accesses[0] = {.operand = 0, .space = target, .writes = true, .is_bulk = true};
  description->accesses[1] = {.operand = 1, .space = source, .is_bulk = true};
  description->accesses[2] = {
      .operand = 3, .space = Space::kShared, .writes = true, .is_barrier = true, .bytes = 8};
  return {};
}

Refusal DescribeMemory(const Row& row, const Modifiers& modifiers, Description* description) {
  if (modifiers.spaces > 1) return "more than one space";
  if ((row.spaces & SpaceBit(modifiers.space)) == 0) return "not a space of this instruction";
  description->count = 1;
  Access& access = description->accesses[0];
  access.operand = row.address;
  access.space = modifiers.space;
  access.writes = row.writes;
  access.is_matrix = (row.words & kMatrixWord) != 0;
  access.is_barrier = (row.words & kMbarrierWord) != 0;
  access.bytes = row.bytes;
  if (row.bytes != 0 || access.is_matrix) return {};
  if (modifiers.types != 1 || modifiers.vectors > 1) return "not exactly one type";
  access.bytes = modifiers.type_bytes * modifiers.elements;
  return access.bytes <= 32 ? Refusal() : "a vector that is too large";
}

}  // namespace

Refusal Describe(const Instruction& instruction, Description* description) {
  size_t skipped = 0;
  const Row* const row = TheTable().FindRow(instruction, &skipped);
  if (row == nullptr) return "an instruction that is not allowed";
  Modifiers modifiers;
  if (Refusal refusal = ReadModifiers(instruction, *row, skipped, &modifiers); !refusal.empty()) {
    return refusal;
  }
  const size_t count = instruction.operands.size();
  if (count < row->least || count > row->most) return "a wrong number of operands";
  description->rule = row->rule;
  const bool may_reduce = row->mnemonic == "barrier";
  description->writes_first = row->rule == Rule::kMemory ? row->address != 0
                              : may_reduce ? absl::c_linear_search(instruction.modifiers, "red")
                                           : row->writes;
  description->count = 0;
  if (row->rule != Rule::kMemory) return {};
  const bool copies = row->mnemonic == "cp.async";
  const Refusal refusal = row->mnemonic == "cp.async.bulk"
                              ? DescribeBulkCopy(instruction, description)
                          : copies ? DescribeCopy(instruction, modifiers, description)
                                   : DescribeMemory(*row, modifiers, description);
  if (!refusal.empty()) return refusal;
  for (size_t i = 0; i < description->count; ++i) {
    if (instruction.operands[description->accesses[i].operand].kind != Operand::Kind::kAddress) {
      return "an address is missing";
    }
  }
  return {};
}

absl::Span<const Operand> BarrierNumbers(const Instruction& barrier) {
  const absl::Span<const Operand> operands = barrier.operands;
  if (!absl::c_linear_search(barrier.modifiers, "red")) return operands;
  // The result stands before them, and the predicate behind.
  return operands.size() < 3 ? operands : operands.subspan(1, operands.size() - 2);
}

}  // namespace warpline::guard
