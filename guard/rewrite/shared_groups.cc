#include "guard/rewrite/shared_groups.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "guard/rewrite/families.h"
#include "guard/rewrite/limits.h"

namespace warpline::guard {
namespace {

using ptx::Instruction;
using ptx::Operand;

// Whether lanes may end at what becomes of it, other than by its own words.
bool MayEndLanes(const Instruction& instruction, const ptx::Description& what) {
  return what.row().family == ptx::Family::kCopyAsync && instruction.operands.size() > 3;
}

}  // namespace

SharedGroups::SharedGroups(const FlatFunction& function) : function_(function) {
  for (const ptx::Statement& statement : function.code) {
    if (const auto* const instruction = std::get_if<Instruction>(&statement.node)) {
      Follow(statement, *instruction);
    } else if (std::holds_alternative<ptx::Label>(statement.node)) {
      EndRun();
    }
  }
  EndRun();
}

const SharedGroups::Place* SharedGroups::Find(const ptx::Statement* statement) const {
  const auto found = places_.find(statement);
  return found == places_.end() ? nullptr : &found->second;
}

void SharedGroups::Follow(const ptx::Statement& statement, const Instruction& instruction) {
  ptx::Description what;
  if (ptx::Describe(instruction, &what) != ptx::Verdict::kKnown || EndsRun(instruction, what) ||
      MayEndLanes(instruction, what)) {
    EndRun();
    return;
  }
  NoteAccess(statement, instruction, what);
  NoteWrites(instruction, what);
}

void SharedGroups::NoteAccess(const ptx::Statement& statement, const Instruction& instruction,
                              const ptx::Description& what) {
  // Not all lanes have to give a tile's address.
  const ptx::Family family = what.row().family;
  const bool is_tile = family == ptx::Family::kTileLoad || family == ptx::Family::kTileStore;
  if (what.accesses().size() != 1 || !instruction.guard.empty() || is_tile) return;
  const ptx::MemoryAccess& access = what.accesses()[0];
  const Operand& address = instruction.operands[access.operand];
  const Symbol* const symbol = function_.Find(address.name);
  const bool is_power_of_two = access.bytes != 0 && (access.bytes & (access.bytes - 1)) == 0;
  if (access.space != ptx::StateSpace::kShared || !address.elements.empty() || symbol == nullptr ||
      symbol->kind != Symbol::Kind::kRegister || !is_power_of_two ||
      access.bytes > kMostAccessBytes || address.offset < -kMostOffset ||
      address.offset > kMostOffset) {
    return;
  }
  const int64_t end = address.offset + static_cast<int64_t>(access.bytes);
  const auto most = static_cast<int64_t>(kMostSharedSpan - kMostAccessBytes);
  if (const auto found = open_.find(address.name);
      found != open_.end() &&
      std::max(found->second.end, end) - std::min(found->second.least, address.offset) > most) {
    Close(address.name);
  }
  const auto [found, is_new] = open_.try_emplace(address.name);
  Candidate& candidate = found->second;
  if (is_new) {
    candidate.base = address.name;
    candidate.least = address.offset;
    candidate.end = end;
  }
  candidate.least = std::min(candidate.least, address.offset);
  candidate.end = std::max(candidate.end, end);
  candidate.accesses.push_back({&statement, address.offset, access.bytes});
}

void SharedGroups::NoteWrites(const Instruction& instruction, const ptx::Description& what) {
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    if (what.roles()[i] == ptx::Role::kDestination) NoteWrite(instruction.operands[i]);
  }
}

void SharedGroups::NoteWrite(const Operand& operand) {
  if (!operand.name.empty()) Close(operand.name);
  for (const Operand& element : operand.elements) NoteWrite(element);
}

void SharedGroups::Close(const std::string& base) {
  const auto found = open_.find(base);
  if (found == open_.end()) return;
  if (found->second.accesses.size() > 1) closed_.push_back(std::move(found->second));
  open_.erase(found);
}

// Gives registers to the groups of a run, to those first that begin first.
void SharedGroups::EndRun() {
  while (!open_.empty()) Close(std::string(open_.begin()->first));
  std::sort(closed_.begin(), closed_.end(), [](const Candidate& a, const Candidate& b) {
    return a.accesses.front().statement < b.accesses.front().statement;
  });
  std::array<const ptx::Statement*, kSharedGroups> busy_until = {};
  for (const Candidate& candidate : closed_) {
    for (size_t i = 0; i < busy_until.size(); ++i) {
      if (busy_until[i] != nullptr && busy_until[i] >= candidate.accesses.front().statement) {
        continue;
      }
      if (Add(candidate, static_cast<int>(i))) {
        busy_until[i] = candidate.accesses.back().statement;
      }
      break;
    }
  }
  closed_.clear();
}

bool SharedGroups::Add(const Candidate& candidate, int number) {
  SharedGroup group;
  group.base = candidate.base;
  group.is_wide = ptx::TypeBytes(function_.Find(candidate.base)->type) == 8;
  group.number = number;
  // The largest access says how the base is aligned: at a multiple of its bytes from itself.
  const auto largest =
      std::max_element(candidate.accesses.begin(), candidate.accesses.end(),
                       [](const Access& a, const Access& b) { return a.bytes < b.bytes; });
  const auto alignment = static_cast<int64_t>(largest->bytes);
  const int64_t steps = (largest->offset - candidate.least + alignment - 1) / alignment;
  group.alignment = largest->bytes;
  group.offset = largest->offset - steps * alignment;
  // Shared memory ends at a multiple of 16.
  group.span = ptx::AlignUp(static_cast<uint64_t>(candidate.end - group.offset),
                            std::min<uint64_t>(group.alignment, 16));
  for (const Access& access : candidate.accesses) {
    if ((access.offset - group.offset) % static_cast<int64_t>(access.bytes) != 0) return false;
  }
  for (const Access& access : candidate.accesses) {
    places_[access.statement] = {groups_.size(), access.offset - group.offset,
                                 &access == &candidate.accesses.front()};
  }
  groups_.push_back(std::move(group));
  return true;
}

}  // namespace warpline::guard
