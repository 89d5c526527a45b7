// Groups of instructions that the rewriter handles alike.
#ifndef WARPLINE_GUARD_REWRITE_FAMILIES_H_
#define WARPLINE_GUARD_REWRITE_FAMILIES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "ptx/ast.h"
#include "ptx/instruction_set.h"

namespace warpline::guard {

inline bool Has(const ptx::Instruction& instruction, std::string_view modifier) {
  return std::find(instruction.modifiers.begin(), instruction.modifiers.end(), modifier) !=
         instruction.modifiers.end();
}

// Whether it is a type of whole numbers of 32 bits.
inline bool IsInteger32(std::string_view type) {
  return type == "b32" || type == "s32" || type == "u32";
}

// Whether an instruction may write such an operand. What a call returns comes by its list.
inline bool MayBeWritten(ptx::Role role) {
  return role == ptx::Role::kDestination || role == ptx::Role::kList;
}

// Whether ptxas takes the code behind it to be reached by all lanes of a warp together.
inline bool IsOfAWarp(ptx::Family family) {
  switch (family) {
    case ptx::Family::kMatrixMultiply:
    case ptx::Family::kWmmaMultiply:
    case ptx::Family::kWmmaLoad:
    case ptx::Family::kWmmaStore:
    case ptx::Family::kTileLoad:
    case ptx::Family::kTileStore:
    case ptx::Family::kTileMove:
    case ptx::Family::kWarpgroupMultiply:
    case ptx::Family::kWarpgroupOrder:
      return true;
    default:
      return false;
  }
}

// Whether all lanes of a warp have to come to it together, in a function where they have to come so
// to barriers of a block or not.
inline bool NeedsWholeWarp(ptx::Family family, bool at_barriers) {
  return IsOfAWarp(family) || (at_barriers && family == ptx::Family::kBlockBarrier);
}

// Whether fewer lanes may be behind it than before.
inline bool Parts(ptx::Family family) {
  return family == ptx::Family::kBranch || family == ptx::Family::kCall ||
         family == ptx::Family::kReturn || family == ptx::Family::kExit ||
         family == ptx::Family::kTrap;
}

// Whether a literal names all lanes of a warp.
inline bool NamesAllLanes(const ptx::Operand& operand) {
  return operand.kind == ptx::Operand::Kind::kInteger &&
         static_cast<uint32_t>(operand.value) == 0xffffffff;
}

// Whether some lanes may go on from it before others do, though all go the same way.
inline bool MaySeparate(const ptx::Instruction& instruction, const ptx::Description& what) {
  switch (what.row().family) {
    case ptx::Family::kSleep:
      return !instruction.guard.empty();
    case ptx::Family::kBlockBarrier:
      if (!instruction.guard.empty()) return true;
      for (size_t i = 0; i < instruction.operands.size(); ++i) {
        if (what.roles()[i] == ptx::Role::kSource &&
            instruction.operands[i].kind != ptx::Operand::Kind::kInteger) {
          return true;
        }
      }
      return false;
    case ptx::Family::kWarpBarrier:
    case ptx::Family::kShuffle:
    case ptx::Family::kVote:
    case ptx::Family::kMatch:
    case ptx::Family::kReduce:
      return !instruction.guard.empty() || !Has(instruction, "sync") ||
             !NamesAllLanes(instruction.operands.back());
    case ptx::Family::kElect:  // The rewriter has a barrier of a warp instead.
      return true;
    default:
      return false;
  }
}

// Whether a run of statements of the same lanes ends with it.
inline bool EndsRun(const ptx::Instruction& instruction, const ptx::Description& what) {
  return Parts(what.row().family) || (IsOfAWarp(what.row().family) && !instruction.guard.empty());
}
inline bool EndsRun(const ptx::Instruction& instruction) {
  ptx::Description what;
  return ptx::Describe(instruction, &what) != ptx::Verdict::kKnown || EndsRun(instruction, what);
}

// Whether an instruction may access shared memory, as far as its words tell.
inline bool MayUseShared(const ptx::Instruction& instruction) {
  static constexpr std::string_view kAccesses[] = {
      "ld", "ldu", "st", "atom", "red", "cp", "wmma", "ldmatrix", "stmatrix", "mbarrier",
  };
  static constexpr std::string_view kOthers[] = {"global", "local", "param", "const"};
  if (std::find(std::begin(kAccesses), std::end(kAccesses), instruction.opcode) ==
      std::end(kAccesses)) {
    return false;
  }
  const auto names = [&instruction](std::string_view space) {
    return std::any_of(
        instruction.modifiers.begin(), instruction.modifiers.end(),
        [space](const std::string& word) { return word.substr(0, word.find(':')) == space; });
  };
  return names("shared") || std::none_of(std::begin(kOthers), std::end(kOthers), names);
}

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_FAMILIES_H_
