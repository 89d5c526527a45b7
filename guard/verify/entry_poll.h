// How the blocks of a kernel ask, where they begin, whether the kernel is to stop. Blocks of small
// grids do not; of another one, one thread reads the stop word, and all threads of the block end,
// or none. Thread-compatible.
#ifndef WARPLINE_GUARD_VERIFY_ENTRY_POLL_H_
#define WARPLINE_GUARD_VERIFY_ENTRY_POLL_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "guard/verify/reader.h"

namespace warpline::guard {

// What the blocks of a grid may execute in sum, a thread of each counted, if they do not ask.
inline constexpr int64_t kMostUnasked = int64_t{1} << 34;

// Follows the statements of it, which stand together and in their order, through the lines of a
// kernel's body.
class EntryPoll {
 public:
  // Returns true if the line is one of it, or ought to be; then `*refusal` says what is wrong.
  // `may_begin` says whether the line is in a kernel, and nothing but the prologue stands above.
  bool Follow(std::string_view line, bool may_begin, Refusal* refusal);
  bool is_complete() const;
  // True if it also leaves the number of the thread in its block in wlg_tid.
  bool places_threads() const { return places_; }
  // How many the largest grid has whose blocks do not ask.
  int64_t blocks() const { return blocks_; }

 private:
  bool ReadBlocks(std::string_view line);

  // The parts that are still to be read, the first one from line `done_` on.
  absl::Span<const absl::Span<const std::string_view>> parts_;
  size_t done_ = 0;
  bool is_begun_ = false;
  bool places_ = false;
  int64_t blocks_ = 0;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_ENTRY_POLL_H_
