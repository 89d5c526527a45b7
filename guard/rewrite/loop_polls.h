// Has loops ask, from time to time, whether the kernel is to stop (docs/guarded-ptx.md, Loops).
//
// The last iterations that a thread may make without asking are counted in wlg_n, by the branch
// that closes a loop: it is taken while some are left, and behind it the thread reads the stop word
// and, if it is not to end, goes on with new ones. So an iteration costs an addition and a
// comparison, and what is read stands outside of the loop that ptxas sees.
//
// Thread-safe.
#ifndef WARPLINE_GUARD_REWRITE_LOOP_POLLS_H_
#define WARPLINE_GUARD_REWRITE_LOOP_POLLS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "guard/rewrite/fences.h"
#include "ptx/ast.h"

namespace warpline::guard {

// Adds `branch`, which leads back to a label that stands above it, to `code`, with its poll.
// `after` is a label to be placed behind it, if it has a predicate.
void AddLoopBranch(const ptx::Instruction& branch, const std::string& after, FenceWriter* code);

// Sets how many iterations the functions of a module make without asking, so that there are no more
// than kMostBetweenPolls statements in between, functions that are called included. Returns the
// functions for which that cannot be had, since they call too many others. In `order` each function
// stands before whom it calls.
std::vector<std::string> SetPollPeriods(const std::vector<std::string>& order,
                                        std::map<std::string, ptx::Function>* functions);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_LOOP_POLLS_H_
