#include "guard/rewrite/loop_polls.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "guard/rewrite/convergence.h"
#include "guard/rewrite/entry_poll.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/statements.h"
#include "guard/rewrite/weights.h"
#include "guard/rewrite/words.h"

namespace warpline::guard {
namespace {

using ptx::Instruction;

// Enough that a poll, which waits for the L2 cache, is not seen in the time of the loop, and that
// lanes which have counted differently seldom part; and so few that a loop which waits for memory
// asks within some milliseconds.
constexpr int64_t kMostIterations = 8191;
// Until a kernel asks first, so that one which begins while it is to go slowly does so at once.
constexpr int64_t kFirstIterations = 63;

std::string CalleeOf(const Instruction& call) {
  for (const ptx::Operand& operand : call.operands) {
    if (operand.kind == ptx::Operand::Kind::kName) return operand.name;
  }
  return "";
}

bool SetsIterations(const Instruction& instruction) {
  return (instruction.opcode == "mov" || instruction.opcode == "selp") &&
         instruction.operands[0].name == "wlg_n";
}

// A nap that comes with a poll: until the next one it is the only one.
bool IsNap(const Instruction& instruction) {
  return instruction.opcode == "nanosleep" && instruction.operands[0].name == "wlg_t";
}

// At least one iteration is left.
void BeginIterations(FenceWriter* code) {
  code->Add(Make("max.s32", {Name(code->Use("wlg_n")), Name("wlg_n"), Number(1)}));
}

// Takes one from the iterations that are left.
void CountIteration(FenceWriter* code) {
  code->Add(Make("add.s32", {Name(code->Use("wlg_n")), Name("wlg_n"), Number(-1)}));
}

// Sets wlg_pl if some are left and the predicate, which may be empty, holds.
void TestIterations(std::string_view predicate, bool negated, FenceWriter* code) {
  code->Use("wlg_n");
  std::vector<ptx::Operand> operands = {Name(code->Use("wlg_pl")), Name("wlg_n"), Number(0)};
  if (!predicate.empty()) {
    operands.push_back(Name(predicate));
    operands.back().negated = negated;
  }
  code->Add(Make(predicate.empty() ? "setp.gt.s32" : "setp.gt.and.s32", std::move(operands)));
}

// Ends the thread if it is to stop; it has so many iterations then, or a single one and a nap if it
// is to go slowly. The nap has no predicate, so that it leaves a warp whole. Only a kernel has the
// word of its launch at hand.
void Poll(int64_t iterations, bool together, FenceWriter* code) {
  code->Add(
      code->asks_at_entry()
          ? Make("ld.param.b64",
                 {Name(code->Use("wlg_at")), Address(kLaunchParameter, kLaunchPaceWord)})
          : Make("ld.const.b64", {Name(code->Use("wlg_at")), Address(kConstVariable, kPaceWord)}));
  code->Add(Make("ld.volatile.global.b32", {Name(code->Use("wlg_t")), Address("wlg_at")}));
  code->Add(Make("setp.lt.s32", {Name(code->Use("wlg_ps")), Name("wlg_t"), Number(0)}));
  if (together) AddVote("any", "wlg_ps", "wlg_ps", false, code);
  ptx::Instruction end = Make("exit", {});
  end.guard = "wlg_ps";
  code->Add(std::move(end));
  code->Add(Make("setp.eq.s32", {Name("wlg_ps"), Name("wlg_t"), Number(0)}));
  code->Add(
      Make("selp.b32", {Name(code->Use("wlg_n")), Number(iterations), Number(1), Name("wlg_ps")}));
  code->Add(Make("nanosleep.u32", {Name("wlg_t")}));
}

// Closes a loop: `branch` with the predicate for which it goes on, which is taken while wlg_pl says
// so; behind it the way out, if it has a predicate, a poll, and the way back to `again`.
void Close(const Instruction& branch, const std::string& again, const std::string& after,
           bool together, FenceWriter* code) {
  Instruction next = branch;
  next.guard = "wlg_pl";
  next.guard_negated = false;
  code->Add(std::move(next));
  if (!branch.guard.empty()) {
    Instruction leave = Make("bra", {Name(after)});
    leave.guard = branch.guard;
    leave.guard_negated = !branch.guard_negated;
    code->Add(std::move(leave));
  }
  Poll(kMostIterations, together, code);
  code->Add(Make("bra", {Name(again)}));
}

}  // namespace

std::unordered_set<std::string> LoopsOf(const std::vector<ptx::Statement>& code) {
  std::unordered_set<std::string> passed, loops;
  for (const ptx::Statement& statement : code) {
    if (const auto* const label = std::get_if<ptx::Label>(&statement.node)) {
      passed.insert(label->name);
    } else if (const auto* const branch = std::get_if<Instruction>(&statement.node);
               branch != nullptr && branch->opcode == "bra" && !branch->operands.empty() &&
               passed.contains(branch->operands[0].name)) {
      loops.insert(branch->operands[0].name);
    }
  }
  return loops;
}

void BeginLoop(const std::string& label, const std::string& again, ptx::SourceLine line,
               FenceWriter* code) {
  code->Add(ptx::Statement{ptx::Label{again}, line});
  BeginIterations(code);
  code->Add(ptx::Statement{ptx::Label{label}, line});
  CountIteration(code);
}

void BeginCountedLoop(const CountedLoop& loop, const std::string& label, const std::string& again,
                      std::string_view scratch, ptx::SourceLine line, FenceWriter* code) {
  code->Add(ptx::Statement{ptx::Label{again}, line});
  AddPasses(loop, scratch, code);
  BeginIterations(code);
  const ptx::Operand passes = Name(code->Use("wlg_passes")), iterations = Name("wlg_n");
  code->Add(Make("min.u32", {passes, iterations, Name(scratch)}));
  code->Add(Make("max.u32", {passes, passes, Number(1)}));
  code->Add(Make("sub.s32", {iterations, iterations, passes}));
  code->Add(ptx::Statement{ptx::Label{label}, line});
  code->Add(Make("add.s32", {passes, passes, Number(-1)}));
}

void AddCountedLoopBranch(const Instruction& branch, const std::string& again,
                          const std::string& after, FenceWriter* code) {
  code->Add(
      Make("setp.gt.s32", {Name(code->Use("wlg_pl")), Name(code->Use("wlg_passes")), Number(0)}));
  Close(branch, again, after, /*together=*/false, code);
}

void AddLoopBranch(const Instruction& branch, const std::string& again, const std::string& after,
                   bool together, FenceWriter* code) {
  Instruction next = branch;
  if (together && !branch.guard.empty()) {
    AddVote("any", "wlg_pu", branch.guard, branch.guard_negated, code);
    next.guard = "wlg_pu";
    next.guard_negated = false;
  }
  TestIterations(next.guard, next.guard_negated, code);
  if (together) AddVote("all", "wlg_pl", "wlg_pl", false, code);
  Close(next, again, after, together, code);
}

std::vector<std::string> SetPollPeriods(const std::vector<std::string>& order,
                                        std::map<std::string, ptx::Function>* functions) {
  std::vector<std::string> too_long;
  // Instructions by function, with those of whom it calls; at most one more than there may be.
  std::unordered_map<std::string, int64_t> lengths;
  for (auto name = order.rbegin(); name != order.rend(); ++name) {
    const auto found = functions->find(*name);
    if (found == functions->end()) continue;
    ptx::Function& function = found->second;
    int64_t length = 0;
    for (const ptx::Statement& statement : function.body) {
      const auto* const instruction = std::get_if<Instruction>(&statement.node);
      if (instruction == nullptr) continue;
      length += IsNap(*instruction) ? 1 : WeightOf(*instruction);
      if (instruction->opcode == "call") length += lengths[CalleeOf(*instruction)];
      length = std::min(length, kMostBetweenPolls + 1);
    }
    lengths[*name] = length;
    if (length > kMostBetweenPolls) {
      too_long.push_back(*name);
      continue;
    }
    const int64_t iterations =
        std::min(kMostIterations, kMostBetweenPolls / std::max<int64_t>(length, 1));
    // A function that is called may be called from a loop, and asks before it goes round one.
    const int64_t first = function.is_entry ? kFirstIterations : 0;
    bool is_first = true;
    bool has_loops = false;
    for (ptx::Statement& statement : function.body) {
      auto* const instruction = std::get_if<Instruction>(&statement.node);
      if (instruction == nullptr || !SetsIterations(*instruction)) continue;
      // The first one is that of the prologue.
      const bool is_prologue = std::exchange(is_first, false);
      instruction->operands[1] = Number(is_prologue ? std::min(iterations, first) : iterations);
      has_loops = true;
    }
    // A thread that has no iterations left gets one more in the loop in which it asks.
    const int64_t passes = has_loops ? std::min(iterations, first) + 1 : 1;
    if (function.is_entry) SetEntryPoll(length * passes, &function);
  }
  return too_long;
}

}  // namespace warpline::guard
