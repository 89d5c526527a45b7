// The barriers of a block in hardened kernels.
//
// One number may stand for one barrier only (docs/guarded-ptx.md): of one kind, `red` or not, and
// for so many threads. Where a kernel has several, its warps have to be whole there.
#ifndef WARPLINE_GUARD_REWRITE_BARRIERS_H_
#define WARPLINE_GUARD_REWRITE_BARRIERS_H_

#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "guard/rewrite/call_graph.h"
#include "guard/rewrite/known_numbers.h"
#include "ptx/ast.h"
#include "ptx/instruction_set.h"

namespace warpline::guard {

// The number of a barrier, and for how many threads it is; null if it does not say so.
std::pair<ptx::Operand*, ptx::Operand*> NumbersOf(const ptx::Description& what,
                                                  ptx::Instruction* barrier);
// Whether a block has a barrier of that number, and whether it may be for so many threads.
bool IsBarrierNumber(const ptx::Operand& number);
bool AreThreadsOfABarrier(const ptx::Operand& count);
// Has a barrier say both by literals where registers hold such.
void NumberBarrier(const ptx::Description& what, const KnownNumbers& known,
                   ptx::Instruction* barrier);

struct NumberedBarriers {
  // The functions to whose barriers only whole warps may come. There they have no predicates.
  std::unordered_set<std::string> have_several;
  std::set<std::string> refused;  // The kernels that need more numbers than there are
};

// Gives each barrier a number of its own, in each kernel and those that it calls. Kernels of
// `zeroing` have one behind the zeroing of shared memory as well. Barriers without literals stay as
// they are.
NumberedBarriers NumberBarriers(const std::unordered_set<std::string>& zeroing,
                                FunctionsByName* functions);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_BARRIERS_H_
