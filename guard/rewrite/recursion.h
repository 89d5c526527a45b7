// Makes functions that call themselves, directly or by way of others, into levels of copies, so
// that no function calls itself any more.
//
// A call within the circle leads from each level to the next one, and a call from outside to the
// first, which keeps the functions' names. In the last level a thread that would call ends, and
// leaves a record that says so (guard/records.h). So it is known how deep a kernel goes, and each
// level has locals of its own.
//
// Thread-safe. The time is linear in what comes out.
#ifndef WARPLINE_GUARD_REWRITE_RECURSION_H_
#define WARPLINE_GUARD_REWRITE_RECURSION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "guard/rewrite/call_graph.h"
#include "ptx/ast.h"

namespace warpline::guard {

// How many levels a circle gets: the most for which all of this holds, and `kLeastLevels` at least.
// One that has too many statements or locals even so is refused.
inline constexpr int kMostLevels = 16;
inline constexpr int kLeastLevels = 3;
inline constexpr int64_t kMostLevelStatements = 10'000;  // Of all levels together
inline constexpr uint64_t kMostLevelLocalBytes = 4 << 10;
// What a thread executes in them if no loop goes round more than once, with functions that they
// call, each statement as often as WeightOf() says. Functions that call themselves twice take twice
// as many a level, and kernels that call several circles have to be stoppable as well.
inline constexpr int64_t kMostLevelSteps = int64_t{1} << 20;
// Of what says that it went too deep.
inline constexpr int64_t kTooDeepSteps = 256;
// Of kLeastLevels.
inline constexpr int64_t kMostLeastStatements = 50'000;
inline constexpr uint64_t kMostLeastLocalBytes = 64 << 10;

struct Unrolled {
  std::vector<std::string> copies;  // Functions that are new
  // The heads of the copies, to which these point.
  std::deque<ptx::Function> heads;
  // Functions of circles that are left as they are, with the reasons.
  std::map<std::string, std::string> refused;
};

// Circles that a kernel is part of stay, since kernels cannot be called. The result has to outlive
// `functions`.
Unrolled UnrollRecursion(FunctionsByName* functions);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_RECURSION_H_
