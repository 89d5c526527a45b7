// Guards a module's text: parses it, rewrites it, and proves what comes out.
//
//   absl::StatusOr<GuardedText> guarded = Guard(text, {.arena_bits = 36});
//   if (guarded.ok()) Compile(guarded->text);
//
// Thread-safe.
#ifndef WARPLINE_GUARD_GUARD_H_
#define WARPLINE_GUARD_GUARD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "guard/rewrite/rewrite.h"
#include "guard/rewrite/words.h"
#include "guard/verify/policy.h"

namespace warpline::guard {

// Of what Guard() makes of a text, for those who keep it: raised with every change of the rewriter
// or the verifier after which a text may come out another, or may no longer be accepted.
inline constexpr uint32_t kGuardVersion = 13;

// What the verifier has to hold the text to that Guard() makes with such options.
Policy PolicyOf(const RewriteOptions& options);

struct GuardedText {
  std::string text;  // What the verifier has accepted
  ModuleLayout layout;
  std::vector<std::string> kernels;
  // The number of the tenant's target, such as 80 for sm_80; 0 if that is not known. Programs ask
  // whether their kernels have what newer devices offer.
  int target = 0;
  bool leaves_records = false;  // Some of them may write records (records.h).
  std::vector<Refusal> refusals;
  std::vector<CheckSite> sites;  // Numbered from RewriteOptions::first_site on
};

// INVALID_ARGUMENT for text that is not PTX and for a module of which nothing can be guarded. What
// the rewriter wrote and the verifier refuses, which is a mistake of ours, is left out as if the
// rewriter had refused it, function by function; INTERNAL where that does not help.
absl::StatusOr<GuardedText> Guard(std::string_view text, const RewriteOptions& options);

// The first `globals_bytes` of the block of a module's variables that lies at `address`, with its
// relocations done. What is behind them is zero.
std::string GlobalsAt(const ModuleLayout& layout, uint64_t address);
// The guard's words for a module.
struct ModulePlaces {
  uint64_t arena = 0;
  uint64_t globals = 0;  // Of the module's variables, in the arena
  // Of the ring of records, in the arena (records.h); 0 if there is none. A module that leaves
  // records has one: where there is none, some are written to the start of the arena.
  uint64_t records = 0;
  uint64_t ranges = 0;  // Of the first table of ranges (proto/guard.h); 0 if nothing is checked
  // The address of the pace word of functions that kernels call, 32 bits where no kernel can write.
  // Hardened modules always have one.
  uint64_t pace = 0;
};
std::string GuardWords(const ModulePlaces& places);

// The server tells a guarded kernel this of its launch, behind the tenant's parameters.
struct LaunchWords {
  uint32_t arena_high[2] = {};  // The high half of the arena's address, for even lanes and odd ones
  uint32_t blocks = 0;          // The number of blocks; at most kMostCountedBlocks
  uint32_t shape = 0;           // `blocks`, with kNotARow if a block is more than a row of threads
  uint32_t zero_stride = 0;     // 16 bytes for each thread of a block
  uint32_t reserved = 0;
  // The address of the pace word by which the launch goes. A hardened kernel always has one.
  uint64_t pace = 0;
};
static_assert(sizeof(LaunchWords) == kLaunchWordBytes);
// With `asks` all blocks ask where they begin whether to stop or to nap; otherwise those of grids
// for which the kernel says so.
LaunchWords LaunchWordsOf(uint64_t arena, const std::array<uint32_t, 3>& grid,
                          const std::array<uint32_t, 3>& block, bool asks, uint64_t pace);
// Returns where they lie behind a tenant's parameters of so many bytes.
inline uint64_t LaunchWordsAt(uint64_t bytes) {
  return (bytes + kLaunchAlignment - 1) / kLaunchAlignment * kLaunchAlignment;
}
// Appends them to a tenant's parameters. `Bytes` is a string or a vector of bytes.
template <typename Bytes>
void AppendLaunchWords(const LaunchWords& words, Bytes* params) {
  const size_t at = LaunchWordsAt(params->size());
  params->resize(at + sizeof(words));
  std::memcpy(params->data() + at, &words, sizeof(words));
}

// What the pace word says: that kernels go as fast as they can, that they stop, or for how many
// nanoseconds a thread naps each time that it asks (docs/guarded-ptx.md, Pace).
inline constexpr uint32_t kFullPace = 0;
inline constexpr uint32_t kStopKernels = 0x8000'0000;
inline constexpr uint32_t kLongestNapNs = 1'000'000;  // Hardware has none that are longer.

// A module with nothing but pace words, for those who have no other place that kernels cannot
// write.
inline constexpr size_t kPaceWords = 1024;
inline constexpr std::string_view kPaceWordModule =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .u32 pace[1024];\n";
static_assert(kPaceWordModule.find("[1024]") != std::string_view::npos && kPaceWords == 1024);
inline constexpr char kPaceWordVariable[] = "pace";

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_GUARD_H_
