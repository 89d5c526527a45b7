// Has the blocks of a kernel ask, where they begin, whether the kernel is to stop
// (docs/guarded-ptx.md, Blocks). A kernel without loops asks nowhere else, and its grid may have
// more blocks than anybody would wait for.
//
// Blocks of a small grid do not ask. The launch tells the kernel the number of blocks, among its
// parameters (words.h), so finding out costs two instructions that wait for nothing. Where blocks
// ask, one thread reads the stop word and all threads of the block end or none: no thread zeroes
// its part of shared memory for others that have ended.
//
// Thread-safe.
#ifndef WARPLINE_GUARD_REWRITE_ENTRY_POLL_H_
#define WARPLINE_GUARD_REWRITE_ENTRY_POLL_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ptx/ast.h"

namespace warpline::guard {

// Those that the statements of AddEntryPoll() write.
inline constexpr std::string_view kEntryPollRegisters[] = {"wlg_lo", "wlg_hi", "wlg_t", "wlg_at",
                                                           "wlg_ps"};

// Adds what stands behind the prologue of a kernel. With `places_threads` it also leaves in
// wlg_tid the number of the thread in its block, row by row. Both ask the launch the same question:
// a block whose threads are one row has no more to compute.
void AddEntryPoll(bool places_threads, std::vector<ptx::Statement>* body);

// Sets how many blocks the largest grid has that does not ask. `longest` is what a thread of the
// kernel executes at most until it asks in a loop for the first time or ends, at least 1. Does
// nothing to a kernel without what AddEntryPoll() adds.
void SetEntryPoll(int64_t longest, ptx::Function* kernel);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_ENTRY_POLL_H_
