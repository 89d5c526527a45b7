// The names and the words that a guarded module and its loader agree on; docs/guarded-ptx.md has
// them all.
#ifndef WARPLINE_GUARD_REWRITE_WORDS_H_
#define WARPLINE_GUARD_REWRITE_WORDS_H_

#include <cstdint>
#include <string_view>

namespace warpline::guard {

// Tenants have no names that begin so.
inline constexpr std::string_view kReservedPrefix = "wlg_";

// The one `.const` variable of a guarded module, and what lies at its start.
inline constexpr std::string_view kConstVariable = "wlg_const";
inline constexpr uint64_t kGuardWordBytes = 64;
// 32 bits each: the high half of the arena's address, for even lanes and for odd ones.
inline constexpr uint64_t kArenaHighWords = 0;
inline constexpr uint64_t kGlobalsWord = 8;  // Where the block of variables lies in the arena
inline constexpr uint64_t kGridWorkspaceWord = 16;
inline constexpr uint64_t kRecordsWord = 24;  // The ring of what kernels print and assert
inline constexpr uint64_t kRangesWord = 32;   // The ranges that checked accesses may be in
// Where the word lies that says how fast kernels go (guard/guard.h), for functions that kernels
// call. Nothing of the tenant's writes it.
inline constexpr uint64_t kPaceWord = 40;

// The last parameter of each kernel, which says what a launch is like (LaunchWords in
// guard/guard.h).
inline constexpr std::string_view kLaunchParameter = "wlg_launch";
inline constexpr uint64_t kLaunchAlignment = 8;
inline constexpr uint64_t kLaunchWordBytes = 32;
// 32 bits each, as above.
inline constexpr uint64_t kLaunchArenaHighWords = 0;
inline constexpr uint64_t kBlocksWord = 8;       // The number of blocks
inline constexpr uint64_t kShapeWord = 12;       // That number with kNotARow
inline constexpr uint64_t kZeroStrideWord = 16;  // 16 bytes for each thread of a block
inline constexpr uint64_t kLaunchPaceWord = 24;  // 64 bits: the word by which this launch goes
inline constexpr uint32_t kMostCountedBlocks = 0x7fff'ffff;
inline constexpr uint32_t kNotARow = 0x8000'0000;  // Blocks have threads in directions y or z.

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_WORDS_H_
