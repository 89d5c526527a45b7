// Loops of which it is known, where they are entered, how many passes they will make.
//
// ptxas unrolls a loop if one comparison of a counter ends it. The loop that loop_polls.h makes of
// a tenant's has two, of the tenant's predicate and of the iterations that are left, and is not
// unrolled: a loop of four multiplications took 1.86 times as long. Where the number of passes can
// be computed beforehand, as many as there are, or as many as there are iterations left, are set
// aside in a counter, which alone ends the inner loop (strip-mining with a known trip count).
// Loops that ptxas would not unroll are left out, as are those in which threads wait for each other
// or ask each other, and those within others: where a loop of few passes is entered again and
// again, what it takes to compute and set them aside is more than what is gained (up to 16 passes
// of a multiplication each, seen on an H100).
//
// Thread-safe.
#ifndef WARPLINE_GUARD_REWRITE_COUNTED_LOOPS_H_
#define WARPLINE_GUARD_REWRITE_COUNTED_LOOPS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "guard/rewrite/fences.h"
#include "guard/rewrite/flatten.h"
#include "ptx/ast.h"

namespace warpline::guard {

// A loop that is one run of statements, from its label to the branch back to it, which is the only
// one to it. Each pass adds a number to the counter, or takes it away, and the loop goes on while
// the new value compares so with a bound that stays as it is.
struct CountedLoop {
  enum class Goes : uint8_t { kUntilEqual, kWhileShort, kWhileShortOrEqual };

  std::string counter;  // A register of 32 bits
  ptx::Operand bound;   // Another one, or a number
  Goes goes = Goes::kUntilEqual;
  bool upwards = true;  // The counter goes to larger numbers.
  uint32_t step = 1;
  bool is_signed = true;  // How they are compared
};

// Those of a kernel, by their labels.
std::unordered_map<std::string, CountedLoop> CountedLoopsOf(const FlatFunction& function);

// Writes to the register `passes`, of 32 bits, how many passes follow, as the counter stands now;
// as an unsigned number. It is never more than there will be, but may be 0, though a pass is always
// made, and is less where the counter would come round.
void AddPasses(const CountedLoop& loop, std::string_view passes, FenceWriter* code);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_COUNTED_LOOPS_H_
