#include "guard/verify/entry_poll.h"

#include <iterator>

namespace warpline::guard {
namespace {

constexpr int64_t kMostBlocks = int64_t{1} << 20;

// With a number behind it.
constexpr std::string_view kCompareBlocks = "\tsetp.le.u64 wlg_ps, wlg_off, ";
constexpr std::string_view kAsk[] = {
    "\tmov.u32 wlg_t, %nctaid.y;",
    "\tmov.u32 wlg_hi, %nctaid.z;",
    "\tmul.lo.u32 wlg_t, wlg_t, wlg_hi;",
    "\tmov.u32 wlg_hi, %nctaid.x;",
    "\tmul.wide.u32 wlg_off, wlg_t, wlg_hi;",
    kCompareBlocks,
    "\tmov.u32 wlg_lo, %ctaid.x;",
    "\tand.b32 wlg_lo, wlg_lo, 2063;",
    "\tsetp.ne.and.u32 wlg_ps, wlg_lo, 2063, wlg_ps;",
    "\t@wlg_ps bra wlg_entered;",
    "\tmov.u32 wlg_lo, %tid.x;",
    "\tmov.u32 wlg_hi, %tid.y;",
    "\tor.b32 wlg_lo, wlg_lo, wlg_hi;",
    "\tmov.u32 wlg_hi, %tid.z;",
    "\tor.b32 wlg_lo, wlg_lo, wlg_hi;",
    "\tmov.b32 wlg_t, 0;",
    "\tsetp.eq.u32 wlg_ps, wlg_lo, 0;",
    "\tld.const.b64 wlg_at, [wlg_const+40];",
    "\t@wlg_ps ld.volatile.global.b32 wlg_t, [wlg_at];",
    "\tshfl.sync.idx.b32 wlg_t, wlg_t, 0, 31, -1;",
    "\tsetp.lt.s32 wlg_ps, wlg_t, 0;",
    "\tmax.s32 wlg_t, wlg_t, 0;",
    "\tnanosleep.u32 wlg_t;",
    "\tbarrier.red.or.pred wlg_ps, 0, wlg_ps;",
    "\t@wlg_ps exit;",
    "wlg_entered:",
};

}  // namespace

bool EntryPoll::Follow(std::string_view line, bool may_begin, Refusal* refusal) {
  if (is_complete() || (done_ == 0 && !may_begin)) return false;
  if (line == kAsk[done_] || (kAsk[done_] == kCompareBlocks && ReadBlocks(line))) {
    ++done_;
    return true;
  }
  if (done_ > 0) *refusal = "a statement among those by which a block asks whether to stop";
  return done_ > 0;
}

bool EntryPoll::is_complete() const { return done_ == std::size(kAsk); }

bool EntryPoll::ReadBlocks(std::string_view line) {
  Cursor cursor(line);
  return cursor.Skip(kCompareBlocks) && cursor.Integer(&blocks_) && cursor.Skip(";") &&
         cursor.AtEnd() && blocks_ >= 1 && blocks_ <= kMostBlocks;
}

}  // namespace warpline::guard
