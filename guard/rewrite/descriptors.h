// What matrix descriptors lead to: numbers by which `wgmma` finds matrices in shared memory.
#ifndef WARPLINE_GUARD_REWRITE_DESCRIPTORS_H_
#define WARPLINE_GUARD_REWRITE_DESCRIPTORS_H_

#include <cstdint>
#include <string_view>

#include "guard/rewrite/fences.h"
#include "ptx/ast.h"

namespace warpline::guard {

// A matrix that a descriptor names.
struct DescribedMatrix {
  int64_t rows = 0;  // Or columns: its extent across the sum
  // Elements of the same place in the sum lie side by side; they have 16 bits then.
  bool is_transposed = false;
};

// The operands of a multiplication that are descriptors.
struct DescribedMatrices {
  static constexpr size_t kA = 1;
  static constexpr size_t kB = 2;

  bool has_a = false;
  DescribedMatrix a;
  DescribedMatrix b;
};

// Returns false for a multiplication of another form than is known.
bool FindDescribedMatrices(const ptx::Instruction& multiply, DescribedMatrices* matrices);

// Whether one of the statements reads matrices by descriptors.
bool UsesDescriptors(const std::vector<ptx::Statement>& code);

// Has `destination`, a guard register, hold the descriptor that is in the register `x`; or 0, which
// leads to the first bytes of shared memory, if that one leads out of it.
void ConfineDescriptor(std::string_view x, const DescribedMatrix& matrix,
                       std::string_view destination, FenceWriter* code);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_DESCRIPTORS_H_
