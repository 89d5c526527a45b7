// The check of a matrix descriptor: a number of 64 bits by which `wgmma` finds a matrix in shared
// memory. A descriptor that leads out of the block's shared memory ends the context.
//
// Bits 0 to 13 are where the matrix starts, 16 to 29 the leading and 32 to 45 the stride offset, in
// units of 16 bytes; 62 and 63 say how its rows are swizzled. What the hardware reads was measured:
// docs/guarded-ptx.md, "Matrix descriptors".
//
// Thread-compatible.
#ifndef WARPLINE_GUARD_VERIFY_DESCRIPTORS_H_
#define WARPLINE_GUARD_VERIFY_DESCRIPTORS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "guard/verify/reader.h"

namespace warpline::guard {

// How far a matrix reaches, in numbers that have a byte for each way of swizzling, the lowest for
// none: how many leading and stride offsets there are from its start to its last part, and where
// that ends, in units, with 7 added to round up to a line of 8.
struct Extent {
  int64_t leading = 0;
  int64_t stride = 0;
  int64_t end = 0;

  bool operator==(const Extent&) const = default;
};

// The matrices of a multiplication.
struct Multiplication {
  bool has_a = false;  // A has a descriptor too.
  Extent a;
  Extent b;
};

// Reads a `wgmma.mma_async`. Its operands are for the caller to check, but for literals that say
// how a matrix lies.
Refusal ReadMultiplication(const Instruction& instruction, Multiplication* multiplication);

// Follows the checks through the lines of one function's body.
class DescriptorChecks {
 public:
  // Whether the line is one of a check behind its first statement, which splits the descriptor, or
  // ought to be; then `*refusal` is what is wrong with it.
  bool Follow(std::string_view line, Refusal* refusal);
  // Whether a check is complete with the line that was followed.
  bool is_complete() const { return is_complete_; }
  // The register that the last complete check has set.
  std::string_view last() const { return last_; }
  // A label stands here.
  void Reset() { matrices_ = {}; }
  // Whether a matrix of this extent may be read by a descriptor that is this operand.
  bool Confines(const Operand& descriptor, const Extent& extent) const;

 private:
  struct Confined {
    bool is_set = false;
    Extent extent;
  };

  Refusal FollowNext(std::string_view line);

  std::array<Confined, 2> matrices_;  // What wlg_da and wlg_db hold
  Extent extent_;                     // Of the check that is under way
  size_t done_ = 0;                   // Lines of it that have been read
  bool is_split_ = false;             // The line before is the first of a check.
  bool is_complete_ = false;
  std::string_view last_;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_DESCRIPTORS_H_
