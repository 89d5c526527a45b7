#include "guard/rewrite/entry_poll.h"

#include <algorithm>
#include <variant>

#include "guard/rewrite/limits.h"
#include "guard/rewrite/statements.h"
#include "guard/rewrite/words.h"

namespace warpline::guard {
namespace {

constexpr std::string_view kEntered = "wlg_entered";
// The bits of a block's number that such a block has all: from the 2064th on, one of sixteen in
// every other 2048 blocks.
constexpr int64_t kAskingBlocks = 0x80f;

// Whether it is the statement that compares the number of blocks.
bool TestsBlocks(const ptx::Instruction& instruction) {
  return instruction.opcode == "setp" && instruction.operands[1].name == "wlg_off";
}

}  // namespace

void AddEntryPoll(std::vector<ptx::Statement>* body) {
  const ptx::Operand lo = Name("wlg_lo"), hi = Name("wlg_hi"), t = Name("wlg_t");
  const ptx::Operand off = Name("wlg_off"), at = Name("wlg_at"), ps = Name("wlg_ps");
  const auto add = [body](std::string_view mnemonic, std::vector<ptx::Operand> operands,
                          std::string_view guard = {}) {
    AddTo(body, mnemonic, std::move(operands), guard);
  };
  // A grid has at most 2^16 - 1 blocks in the directions of y and z, and 2^31 - 1 in that of x.
  add("mov.u32", {t, Special("%nctaid", "y")});
  add("mov.u32", {hi, Special("%nctaid", "z")});
  add("mul.lo.u32", {t, t, hi});
  add("mov.u32", {hi, Special("%nctaid", "x")});
  add("mul.wide.u32", {off, t, hi});
  add("setp.le.u64", {ps, off, Number(1)});
  // Some blocks ask in other grids, too, so that those go slowly as well: none of the first ones,
  // of which small grids consist.
  add("mov.u32", {lo, Special("%ctaid", "x")});
  add("and.b32", {lo, lo, Number(kAskingBlocks)});
  add("setp.ne.and.u32", {ps, lo, Number(kAskingBlocks), ps});
  add("bra", {Name(kEntered)}, "wlg_ps");
  // If each warp read the word, they would wait for the one place in the cache where it is.
  add("mov.u32", {lo, Special("%tid", "x")});
  add("mov.u32", {hi, Special("%tid", "y")});
  add("or.b32", {lo, lo, hi});
  add("mov.u32", {hi, Special("%tid", "z")});
  add("or.b32", {lo, lo, hi});
  add("mov.b32", {t, Number(0)});
  add("setp.eq.u32", {ps, lo, Number(0)});
  add("ld.const.b64", {at, Address(kConstVariable, kPaceWord)});
  add("ld.volatile.global.b32", {t, Address("wlg_at")}, "wlg_ps");
  // A warp does not nap where its lanes have different times to nap for: seen on an H100.
  add("shfl.sync.idx.b32", {t, t, Number(0), Number(31), Number(-1)});
  add("setp.lt.s32", {ps, t, Number(0)});
  // The others of the block wait for the warp that naps.
  add("max.s32", {t, t, Number(0)});
  add("nanosleep.u32", {t});
  add("barrier.red.or.pred", {ps, Number(0), ps});
  add("exit", {}, "wlg_ps");
  body->push_back({ptx::Label{std::string(kEntered)}, {}});
}

void SetEntryPoll(int64_t longest, ptx::Function* kernel) {
  for (ptx::Statement& statement : kernel->body) {
    auto* const instruction = std::get_if<ptx::Instruction>(&statement.node);
    if (instruction == nullptr || !TestsBlocks(*instruction)) continue;
    instruction->operands[2] = Number(std::min(kMostBlocksUnasked, kMostUnasked / longest));
    return;
  }
}

}  // namespace warpline::guard
