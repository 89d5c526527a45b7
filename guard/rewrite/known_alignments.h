// What registers of 32 bits are known to be multiples of, in a run of statements without labels: by
// shifts, masks, and sums of such, and by the addresses of variables in shared memory.
//
// Thread-compatible.
#ifndef WARPLINE_GUARD_REWRITE_KNOWN_ALIGNMENTS_H_
#define WARPLINE_GUARD_REWRITE_KNOWN_ALIGNMENTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ptx/ast.h"
#include "ptx/instruction_set.h"

namespace warpline::guard {

// More is not asked for.
inline constexpr uint64_t kMostKnownAlignment = 16;

class KnownAlignments {
 public:
  // Says the alignment of a variable in shared memory, or 0 for another name.
  using OfVariable = std::function<uint64_t(const std::string& name)>;

  explicit KnownAlignments(OfVariable of_variable) : of_variable_(std::move(of_variable)) {}

  // A power of two; 1 if nothing is known.
  uint64_t Of(const std::string& name) const;
  // Of the sum of both.
  static uint64_t OfSum(uint64_t alignment, int64_t offset);

  // `what` describes the instruction, which has been executed.
  void Follow(const ptx::Instruction& instruction, const ptx::Description& what);
  // A label stands here.
  void Forget() { known_.clear(); }

 private:
  uint64_t Of(const ptx::Operand& operand) const;
  uint64_t OfResult(const ptx::Instruction& instruction) const;
  void ForgetWritten(const ptx::Operand& operand);

  OfVariable of_variable_;
  std::unordered_map<std::string, uint64_t> known_;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_KNOWN_ALIGNMENTS_H_
