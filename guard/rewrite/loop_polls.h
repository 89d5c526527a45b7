// Has loops ask, from time to time, whether the kernel is to stop (docs/guarded-ptx.md, Loops).
//
// The iterations that a thread may make without asking are counted in wlg_n, where each begins. The
// branch that closes a loop is taken while some are left, and behind it the thread reads the stop
// word and, if it is not to end, enters the loop again with new ones. So a loop becomes two, one in
// the other (strip-mining), and an iteration of the inner one costs an addition, early enough that
// nothing waits for it, and a comparison. ptxas takes them for two only because a statement stands
// where the outer one begins; with one place to begin at it would make one loop of them, whose ways
// meet again in each iteration.
//
// Of a loop whose passes can be computed beforehand (counted_loops.h) the inner one has as many of
// them set aside in wlg_passes, which is all that ends it, and ptxas unrolls it as it would have
// unrolled the tenant's.
//
// Thread-safe.
#ifndef WARPLINE_GUARD_REWRITE_LOOP_POLLS_H_
#define WARPLINE_GUARD_REWRITE_LOOP_POLLS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "guard/rewrite/counted_loops.h"
#include "guard/rewrite/fences.h"
#include "ptx/ast.h"

namespace warpline::guard {

// The labels to which branches lead back that stand below them.
std::unordered_set<std::string> LoopsOf(const std::vector<ptx::Statement>& code);

// Adds the label of a loop with what stands around it; `again` is a label of the guard's.
void BeginLoop(const std::string& label, const std::string& again, ptx::SourceLine line,
               FenceWriter* code);

// The same of a loop whose passes can be computed; `scratch` is a register of 32 bits.
void BeginCountedLoop(const CountedLoop& loop, const std::string& label, const std::string& again,
                      std::string_view scratch, ptx::SourceLine line, FenceWriter* code);

// Adds `branch`, which leads back to the label of a loop, to `code`, with its poll. `again` is that
// of BeginLoop(), and `after` one to be placed behind it, if it has a predicate. `together` says
// that all lanes of a warp are here and shall go the same way, while all have iterations left.
void AddLoopBranch(const ptx::Instruction& branch, const std::string& again,
                   const std::string& after, bool together, FenceWriter* code);
// The same of a loop that BeginCountedLoop() began, whose branch has a predicate.
void AddCountedLoopBranch(const ptx::Instruction& branch, const std::string& again,
                          const std::string& after, FenceWriter* code);

// Sets how many iterations the functions of a module make without asking, so that there are no more
// than kMostBetweenPolls statements in between, functions that are called included; and in how
// large a grid the blocks of a kernel ask where they begin (entry_poll.h). Returns the functions
// for which that cannot be had, since they call too many others. In `order` each function stands
// before whom it calls.
std::vector<std::string> SetPollPeriods(const std::vector<std::string>& order,
                                        std::map<std::string, ptx::Function>* functions);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_LOOP_POLLS_H_
