// What registers of 32 bits surely are multiples of, followed from statement to statement up to the
// next label. The verifier's own reading of a handful of instructions.
//
// Thread-compatible.
#ifndef WARPLINE_GUARD_VERIFY_ALIGNMENTS_H_
#define WARPLINE_GUARD_VERIFY_ALIGNMENTS_H_

#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "guard/verify/names.h"
#include "guard/verify/reader.h"

namespace warpline::guard {

// Shared memory comes in pieces of so many bytes, so its size is a multiple of it; and more is not
// followed.
inline constexpr int64_t kSharedPiece = 16;

class Alignments {
 public:
  // `scope` must outlive it.
  explicit Alignments(const Scope* scope) : scope_(*scope) {}

  // A power of two up to kSharedPiece: of a register, or of a variable in shared memory with an
  // offset.
  int64_t Of(std::string_view name, int64_t offset) const;
  static int64_t OfNumber(int64_t number);

  // The instruction has been read and is allowed. It writes what its first operand names, if
  // anything.
  void Follow(const Instruction& instruction);
  void Forget() { known_.clear(); }

 private:
  int64_t Of(const Operand& operand) const;
  int64_t OfResult(const Instruction& instruction) const;

  const Scope& scope_;
  absl::flat_hash_map<std::string_view, int64_t> known_;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_ALIGNMENTS_H_
