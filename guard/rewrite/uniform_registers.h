// Which registers hold the same in all lanes of a warp.
#ifndef WARPLINE_GUARD_REWRITE_UNIFORM_REGISTERS_H_
#define WARPLINE_GUARD_REWRITE_UNIFORM_REGISTERS_H_

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "guard/rewrite/flatten.h"
#include "ptx/ast.h"

namespace warpline::guard {

// Finds them in one function: a register differs if anything that is written to it does, or is
// written where lanes may have parted before. That is a divergence analysis, which takes for parted
// whatever can be reached from a branch that lanes take differently, also where they have met
// again.
//
// What it says holds wherever all lanes of a warp are executed together. Thread-compatible.
class UniformRegisters {
 public:
  explicit UniformRegisters(const FlatFunction& function);

  bool Contains(const std::string& name) const { return !differing_.contains(name); }

 private:
  // Statements that are executed one after the other.
  struct Block {
    size_t begin = 0;
    size_t end = 0;
    std::vector<size_t> next;
    bool is_parted = false;
  };

  void FindBlocks();
  // Returns whether something new was found to differ.
  bool FollowBlock(const Block& block);
  bool Follow(const ptx::Instruction& instruction, bool is_parted);
  bool Differs(const ptx::Operand& operand) const;
  bool Mark(const ptx::Operand& operand);
  bool MarkParted();

  const FlatFunction& function_;
  std::vector<Block> blocks_;
  std::unordered_set<std::string> differing_;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_UNIFORM_REGISTERS_H_
