#include "guard/rewrite/entry_poll.h"

#include <algorithm>
#include <variant>

#include "guard/rewrite/limits.h"
#include "guard/rewrite/statements.h"
#include "guard/rewrite/words.h"

namespace warpline::guard {
namespace {

constexpr std::string_view kEntered = "wlg_entered";
constexpr std::string_view kAsked = "wlg_asked";

// Returns true for a statement that compares the number of blocks.
bool TestsBlocks(const ptx::Instruction& instruction) {
  return instruction.opcode == "setp" && instruction.operands[1].name == "wlg_t" &&
         !instruction.modifiers.empty() && instruction.modifiers[0] == "le";
}

}  // namespace

void AddEntryPoll(bool places_threads, std::vector<ptx::Statement>* body) {
  const ptx::Operand lo = Name("wlg_lo"), hi = Name("wlg_hi"), t = Name("wlg_t");
  const ptx::Operand tid = Name("wlg_tid"), at = Name("wlg_at"), ps = Name("wlg_ps");
  const auto add = [body](std::string_view mnemonic, std::vector<ptx::Operand> operands,
                          std::string_view guard = {}) {
    AddTo(body, mnemonic, std::move(operands), guard);
  };
  const uint64_t word = places_threads ? kShapeWord : kBlocksWord;
  if (places_threads) add("mov.u32", {tid, Special("%tid", "x")});
  add("ld.param.b32", {t, Address(kLaunchParameter, static_cast<int64_t>(word))});
  add("setp.le.u32", {ps, t, Number(1)});
  add("bra", {Name(kEntered)}, "wlg_ps");
  if (places_threads) {
    add("and.b32", {t, t, Number(kMostCountedBlocks)});
    add("setp.le.u32", {ps, t, Number(1)});
    add("bra", {Name(kAsked)}, "wlg_ps");
  }
  // If each warp read the word, they would wait for the one place in the cache where it is.
  add("mov.u32", {lo, Special("%tid", "x")});
  add("mov.u32", {hi, Special("%tid", "y")});
  add("or.b32", {lo, lo, hi});
  add("mov.u32", {hi, Special("%tid", "z")});
  add("or.b32", {lo, lo, hi});
  add("mov.b32", {t, Number(0)});
  add("setp.eq.u32", {ps, lo, Number(0)});
  add("ld.param.b64", {at, Address(kLaunchParameter, kLaunchPaceWord)});
  add("ld.volatile.global.b32", {t, Address("wlg_at")}, "wlg_ps");
  // A warp does not nap where its lanes have different times to nap for: seen on an H100.
  add("shfl.sync.idx.b32", {t, t, Number(0), Number(31), Number(-1)});
  add("setp.lt.s32", {ps, t, Number(0)});
  // The others of the block wait for the warp that naps.
  add("max.s32", {t, t, Number(0)});
  add("nanosleep.u32", {t});
  add("barrier.red.or.pred", {ps, Number(0), ps});
  add("exit", {}, "wlg_ps");
  if (places_threads) {
    body->push_back({ptx::Label{std::string(kAsked)}, {}});
    add("mov.u32", {hi, Special("%tid", "z")});
    add("mov.u32", {lo, Special("%ntid", "y")});
    add("mul.lo.u32", {hi, hi, lo});
    add("mov.u32", {lo, Special("%tid", "y")});
    add("add.u32", {hi, hi, lo});
    add("mov.u32", {lo, Special("%ntid", "x")});
    add("mad.lo.u32", {tid, hi, lo, tid});
  }
  body->push_back({ptx::Label{std::string(kEntered)}, {}});
}

void SetEntryPoll(int64_t longest, ptx::Function* kernel) {
  for (ptx::Statement& statement : kernel->body) {
    auto* const instruction = std::get_if<ptx::Instruction>(&statement.node);
    if (instruction == nullptr || !TestsBlocks(*instruction)) continue;
    instruction->operands[2] = Number(std::min(kMostBlocksUnasked, kMostUnasked / longest));
  }
}

}  // namespace warpline::guard
