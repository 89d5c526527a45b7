// The verifier's own table of instructions: which are allowed, with which modifiers, and which of
// their operands name memory. What is not in it is refused. Thread-safe.
#ifndef WARPLINE_GUARD_VERIFY_INSTRUCTIONS_H_
#define WARPLINE_GUARD_VERIFY_INSTRUCTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "guard/verify/reader.h"

namespace warpline::guard {

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam, kConst };

// What the operands of an instruction are.
enum class Rule : uint8_t {
  kRegisters,  // Registers and literals
  kMove,       // Likewise, or the address of a variable
  kBranch,     // A label
  kCall,       // Lists and a function
  kMemory,     // Registers and literals, and the addresses of `accesses`
};

// One access to memory, of each thread that executes the instruction.
struct Access {
  size_t operand = 0;  // Its address, which stands in [ ]
  Space space = Space::kGeneric;
  bool writes = false;
  // The rows of a matrix, which are a stride apart. `bytes` is not known then.
  bool is_matrix = false;
  bool is_bulk = false;     // As many bytes as a register says
  bool is_barrier = false;  // Of mbarrier, which faults if something else lies there
  int64_t bytes = 0;
};

struct Description {
  Rule rule = Rule::kRegisters;
  bool writes_first = false;  // The first operand is one, or are some, that the instruction writes.
  std::array<Access, 3> accesses;
  size_t count = 0;  // Number of accesses
};

// Fills in `description`. The operands at `accesses` exist and are addresses; the others are for
// the caller to check.
Refusal Describe(const Instruction& instruction, Description* description);

// Of a barrier of a block: its number, and for how many threads it is if it says so.
absl::Span<const Operand> BarrierNumbers(const Instruction& barrier);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_INSTRUCTIONS_H_
