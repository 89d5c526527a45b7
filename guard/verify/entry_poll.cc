#include "guard/verify/entry_poll.h"

namespace warpline::guard {
namespace {

constexpr int64_t kMostBlocks = int64_t{1} << 20;

// With a number behind it.
constexpr std::string_view kCompareBlocks = "\tsetp.le.u32 wlg_ps, wlg_t, ";

constexpr std::string_view kAskOnly[] = {
    "\tld.param.b32 wlg_t, [wlg_launch+8];",
    kCompareBlocks,
    "\t@wlg_ps bra wlg_entered;",
};
constexpr std::string_view kAskAndPlace[] = {
    "\tmov.u32 wlg_tid, %tid.x;", "\tld.param.b32 wlg_t, [wlg_launch+12];", kCompareBlocks,
    "\t@wlg_ps bra wlg_entered;", "\tand.b32 wlg_t, wlg_t, 2147483647;",    kCompareBlocks,
    "\t@wlg_ps bra wlg_asked;",
};
constexpr std::string_view kAsk[] = {
    "\tmov.u32 wlg_lo, %tid.x;",
    "\tmov.u32 wlg_hi, %tid.y;",
    "\tor.b32 wlg_lo, wlg_lo, wlg_hi;",
    "\tmov.u32 wlg_hi, %tid.z;",
    "\tor.b32 wlg_lo, wlg_lo, wlg_hi;",
    "\tmov.b32 wlg_t, 0;",
    "\tsetp.eq.u32 wlg_ps, wlg_lo, 0;",
    "\tld.param.b64 wlg_at, [wlg_launch+24];",
    "\t@wlg_ps ld.volatile.global.b32 wlg_t, [wlg_at];",
    "\tshfl.sync.idx.b32 wlg_t, wlg_t, 0, 31, -1;",
    "\tsetp.lt.s32 wlg_ps, wlg_t, 0;",
    "\tmax.s32 wlg_t, wlg_t, 0;",
    "\tnanosleep.u32 wlg_t;",
    "\tbarrier.red.or.pred wlg_ps, 0, wlg_ps;",
    "\t@wlg_ps exit;",
};
constexpr std::string_view kPlace[] = {
    "wlg_asked:",
    "\tmov.u32 wlg_hi, %tid.z;",
    "\tmov.u32 wlg_lo, %ntid.y;",
    "\tmul.lo.u32 wlg_hi, wlg_hi, wlg_lo;",
    "\tmov.u32 wlg_lo, %tid.y;",
    "\tadd.u32 wlg_hi, wlg_hi, wlg_lo;",
    "\tmov.u32 wlg_lo, %ntid.x;",
    "\tmad.lo.u32 wlg_tid, wlg_hi, wlg_lo, wlg_tid;",
};
constexpr std::string_view kEntered[] = {"wlg_entered:"};

constexpr absl::Span<const std::string_view> kWithoutPlaces[] = {kAskOnly, kAsk, kEntered};
constexpr absl::Span<const std::string_view> kWithPlaces[] = {kAskAndPlace, kAsk, kPlace, kEntered};

}  // namespace

bool EntryPoll::Follow(std::string_view line, bool may_begin, Refusal* refusal) {
  if (is_complete()) return false;
  if (!is_begun_) {
    places_ = line == kAskAndPlace[0];
    if (!may_begin || (!places_ && line != kAskOnly[0])) return false;
    is_begun_ = true;
    parts_ = kWithoutPlaces;
    if (places_) parts_ = kWithPlaces;
  }
  const std::string_view wanted = parts_[0][done_];
  if (line != wanted && (wanted != kCompareBlocks || !ReadBlocks(line))) {
    *refusal = "a statement among those by which a block asks whether to stop";
    return true;
  }
  if (++done_ == parts_[0].size()) {
    parts_.remove_prefix(1);
    done_ = 0;
  }
  return true;
}

bool EntryPoll::is_complete() const { return is_begun_ && parts_.empty(); }

bool EntryPoll::ReadBlocks(std::string_view line) {
  Cursor cursor(line);
  int64_t blocks = 0;
  if (!cursor.Skip(kCompareBlocks) || !cursor.Integer(&blocks) || !cursor.Skip(";") ||
      !cursor.AtEnd() || blocks < 1 || blocks > kMostBlocks) {
    return false;
  }
  // Both comparisons are with the same number.
  if (blocks_ != 0 && blocks_ != blocks) return false;
  blocks_ = blocks;
  return true;
}

}  // namespace warpline::guard
