#include "guard/rewrite/fences.h"

#include <algorithm>
#include <iterator>
#include <variant>

#include "guard/rewrite/entry_poll.h"
#include "guard/rewrite/families.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/statements.h"
#include "guard/rewrite/words.h"

namespace warpline::guard {
namespace {

struct GuardRegister {
  std::string_view name;
  std::string_view type;
};

// In the order in which they are declared.
constexpr GuardRegister kRegisters[] = {
    {"wlg_base", "b32"},  {"wlg_globals", "b64"}, {"wlg_consts", "b64"}, {"wlg_params", "b64"},
    {"wlg_local", "b64"}, {"wlg_smem", "b32"},    {"wlg_lo", "b32"},     {"wlg_hi", "b32"},
    {"wlg_s", "b32"},     {"wlg_t", "b32"},       {"wlg_stride", "b32"}, {"wlg_x", "b64"},
    {"wlg_off", "b64"},   {"wlg_at", "b64"},      {"wlg_ps", "pred"},    {"wlg_pl", "pred"},
    {"wlg_n", "b32"},     {"wlg_g0", "b32"},      {"wlg_g1", "b32"},     {"wlg_g2", "b32"},
    {"wlg_g3", "b32"},    {"wlg_pu", "pred"},     {"wlg_live", "b32"},   {"wlg_passes", "b32"},
    {"wlg_tid", "b32"},
};

// More than any block can have, less than the window that generic addresses of it lie in.
constexpr int64_t kSharedMask = (256 << 10) - 1;

ptx::Variable Declare(std::string_view space, std::string_view type, std::string_view name) {
  ptx::Variable variable;
  variable.space = space;
  variable.type = type;
  variable.name = name;
  return variable;
}

int64_t Minus(uint64_t bytes) { return -static_cast<int64_t>(bytes); }

}  // namespace

std::string_view FenceWriter::Sum(std::string_view x, int64_t offset) {
  Add(Make("add.s64", {Name(Use("wlg_x")), Name(x), Number(offset)}));
  return "wlg_x";
}

std::string_view FenceWriter::Records() {
  Add(Make("ld.const.b64", {Name(Use("wlg_x")), Address(kConstVariable, kRecordsWord)}));
  return "wlg_x";
}

std::string_view FenceWriter::Widen(std::string_view x) {
  Add(Make("cvt.u64.u32", {Name(Use("wlg_x")), Name(x)}));
  return "wlg_x";
}

std::string_view FenceWriter::Bounded(const ptx::Operand& extent, int64_t most) {
  Add(Make("min.u32", {Name(Use("wlg_stride")), extent, Number(most)}));
  return "wlg_stride";
}

void FenceWriter::TestWholeWarp(bool of_live) {
  Add(Make("activemask.b32", {Name(Use("wlg_t"))}));
  Add(Make("setp.ne.s32", {Name(Use("wlg_ps")), Name("wlg_t"), Number(-1)}));
  // Compared with a register alone, ptxas has the mask in a register that a warp has once.
  if (of_live) {
    Add(Make("setp.ne.and.s32",
             {Name("wlg_ps"), Name("wlg_t"), Name(Use("wlg_live")), Name("wlg_ps")}));
  }
}

void FenceWriter::Leave(std::string_view predicate, bool negated) {
  ptx::Operand stays = Name(predicate);
  stays.negated = !negated;
  Add(Make("vote.sync.ballot.b32", {Name(Use("wlg_t")), std::move(stays), Number(-1)}));
  // Not the vote itself: ptxas might keep that in a register that a warp has once.
  Add(Make("and.b32", {Name(Use("wlg_live")), Name("wlg_live"), Name("wlg_t")}));
  ptx::Instruction end = Make("exit", {});
  end.guard = predicate;
  end.guard_negated = negated;
  Add(std::move(end));
}

void FenceWriter::TestShared(std::string_view x) {
  Add(Make("isspacep.shared", {Name(Use("wlg_ps")), Name(x)}));
}

std::string_view FenceWriter::Part(const ptx::Operand& size, int64_t bytes,
                                   std::string_view predicate, bool negated) {
  Add(Make("and.b32", {Name(Use("wlg_t")), size, Number(bytes - 1)}));
  std::vector<ptx::Operand> operands = {Name(Use("wlg_ps")), Name("wlg_t"), Number(0)};
  if (!predicate.empty()) {
    operands.push_back(Name(predicate));
    operands.back().negated = negated;
  }
  Add(Make(predicate.empty() ? "setp.ne.s32" : "setp.ne.and.s32", std::move(operands)));
  ptx::Instruction end = Make("exit", {});
  end.guard = "wlg_ps";
  Add(std::move(end));
  return AllOrNothing(size, bytes);
}

std::string_view FenceWriter::AllOrNothing(const ptx::Operand& size, int64_t bytes) {
  Add(Make("and.b32", {Name(Use("wlg_t")), size, Number(bytes)}));
  return "wlg_t";
}

std::string_view FenceWriter::InShared(std::string_view x) {
  Add(Make("cvta.to.shared.u64", {Name(Use("wlg_x")), Name(x)}));
  return "wlg_x";
}

void FenceWriter::Align(std::string_view type, std::string_view name, uint64_t bytes) {
  if (!settings_.hardened || bytes <= 1) return;
  Add(Make(type == "b32" ? "and.b32" : "and.b64", {Name(name), Name(name), Number(Minus(bytes))}));
}

std::string_view FenceWriter::Arena(std::string_view x, uint64_t bytes) {
  for (const std::string_view name : {"wlg_base", "wlg_t", "wlg_off"}) Use(name);
  Add(Make("mov.b64", {Halves(Use("wlg_lo"), Use("wlg_hi")), Name(x)}));
  const bool one_word = settings_.arena_bits == 32;
  if (!one_word) {
    const int64_t mask = (int64_t{1} << (settings_.arena_bits - 32)) - 1;
    Add(Make("lop3.b32",
             {Name("wlg_hi"), Name("wlg_hi"), Number(mask), Name("wlg_base"), Number(0xea)}));
  }
  Align("b32", "wlg_lo", bytes);
  Add(Make("mov.b64", {Name(Use("wlg_at")), Halves("wlg_lo", one_word ? "wlg_base" : "wlg_hi")}));
  return "wlg_at";
}

std::string_view FenceWriter::Generic(std::string_view x, uint64_t bytes) {
  Arena(x, bytes);
  Use("wlg_off");
  TestShared(x);
  Add(Make("cvta.to.shared.u64", {Name("wlg_off"), Name(x)}));
  if (settings_.hardened) {
    Add(Make("cvt.u32.u64", {Name(Use("wlg_s")), Name("wlg_off")}));
    ClampShared("wlg_s", bytes, bytes, 1);
    Add(Make("cvt.u64.u32", {Name("wlg_off"), Name("wlg_s")}));
  } else {
    Add(Make("and.b64", {Name("wlg_off"), Name("wlg_off"), Number(kSharedMask)}));
  }
  Add(Make("cvta.shared.u64", {Name("wlg_off"), Name("wlg_off")}));
  Add(Make("selp.b64", {Name("wlg_at"), Name("wlg_off"), Name("wlg_at"), Name("wlg_ps")}));
  if (settings_.local_bytes == 0) return "wlg_at";
  Locals();
  Add(Make("isspacep.local", {Name(Use("wlg_pl")), Name(x)}));
  Add(Make("cvta.to.local.u64", {Name("wlg_off"), Name(x)}));
  Add(Make("sub.s64", {Name("wlg_off"), Name("wlg_off"), Name("wlg_local")}));
  Add(Make("min.u64", {Name("wlg_off"), Name("wlg_off"), Number(LastLocal(bytes))}));
  Align("b64", "wlg_off", bytes);
  Add(Make("add.s64", {Name("wlg_off"), Name("wlg_off"), Name("wlg_local")}));
  Add(Make("cvta.local.u64", {Name("wlg_off"), Name("wlg_off")}));
  Add(Make("selp.b64", {Name("wlg_at"), Name("wlg_off"), Name("wlg_at"), Name("wlg_pl")}));
  return "wlg_at";
}

// A kernel's pointers to local memory lead to its own variables, of which ptxas makes registers if
// it sees that they are few.
int64_t FenceWriter::LastLocal(uint64_t bytes) const {
  return static_cast<int64_t>(std::max(settings_.local_window, bytes) - bytes);
}

std::string_view FenceWriter::Within(std::string_view x, std::string_view base, int64_t last,
                                     uint64_t bytes) {
  Use(base);
  Add(Make("sub.s64", {Name(Use("wlg_off")), Name(x), Name(base)}));
  Add(Make("min.u64", {Name("wlg_off"), Name("wlg_off"), Number(last)}));
  Align("b64", "wlg_off", bytes);
  Add(Make("add.s64", {Name(Use("wlg_at")), Name("wlg_off"), Name(base)}));
  return "wlg_at";
}

std::string_view FenceWriter::Local(std::string_view x, uint64_t bytes) {
  return Within(x, "wlg_local", LastLocal(bytes), bytes);
}
std::string_view FenceWriter::Param(std::string_view x, uint64_t bytes) {
  return Within(x, "wlg_params", int64_t(settings_.param_bytes - bytes), bytes);
}
std::string_view FenceWriter::Const(std::string_view x, uint64_t bytes) {
  return Within(x, "wlg_consts", int64_t(settings_.const_bytes - bytes), bytes);
}

std::string_view FenceWriter::Shared(std::string_view x, bool is_wide, int64_t offset,
                                     uint64_t bytes, uint64_t known) {
  Use("wlg_s");
  if (is_wide) {
    Add(Make("cvt.u32.u64", {Name("wlg_s"), Name(x)}));
    x = "wlg_s";
  }
  if (offset != 0) {
    Add(Make("add.s32", {Name("wlg_s"), Name(x), Number(static_cast<int32_t>(offset))}));
  } else if (!is_wide) {
    Add(Make("mov.b32", {Name("wlg_s"), Name(x)}));
  }
  ClampShared("wlg_s", bytes, bytes, is_wide ? 1 : known);
  return "wlg_s";
}

std::string_view FenceWriter::SharedVariable(std::string_view name, int64_t offset,
                                             uint64_t bytes) {
  Add(Make("mov.b32", {Name(Use("wlg_s")), Name(name, offset)}));
  ClampShared("wlg_s", bytes, bytes, 1);
  return "wlg_s";
}

void FenceWriter::ClampShared(std::string_view name, uint64_t bytes, uint64_t alignment,
                              uint64_t known) {
  Use("wlg_smem");
  Add(Make("sub.s32", {Name(Use("wlg_t")), Name("wlg_smem"), Number(int64_t(bytes))}));
  Add(Make("min.u32", {Name(name), Name(name), Name("wlg_t")}));
  // The end of shared memory is a multiple of kMostKnownAlignment.
  if (known < alignment || bytes % alignment != 0) Align("b32", name, alignment);
}

std::string_view SharedGroupRegister(int number) {
  static constexpr std::string_view kNames[] = {"wlg_g0", "wlg_g1", "wlg_g2", "wlg_g3"};
  static_assert(std::size(kNames) == kSharedGroups);
  return kNames[number];
}

void FenceWriter::BeginSharedGroup(const SharedGroup& group, uint64_t known) {
  const std::string_view name = Use(SharedGroupRegister(group.number));
  if (group.is_wide) Add(Make("cvt.u32.u64", {Name(name), Name(group.base)}));
  const std::string_view x = group.is_wide ? name : std::string_view(group.base);
  if (group.offset != 0) {
    Add(Make("add.s32", {Name(name), Name(x), Number(group.offset)}));
  } else if (!group.is_wide) {
    Add(Make("mov.b32", {Name(name), Name(x)}));
  }
  ClampShared(name, group.span, group.alignment, group.is_wide ? 1 : known);
}

std::vector<ptx::Statement> FenceWriter::Take(bool is_entry, std::string_view first_param,
                                              bool calls,
                                              const std::vector<ptx::Variable>& declarations,
                                              std::vector<ptx::Statement> first) {
  std::vector<ptx::Statement> body;
  const auto begin = [&body](ptx::Instruction instruction) {
    body.push_back({std::move(instruction), {}});
  };
  // Whoever is called gets the locals' address from its caller.
  const bool hands_on = calls && settings_.local_bytes != 0;
  if (hands_on) Locals();
  if (used_.contains("wlg_live")) {
    for (const char* const name : {"wlg_lo", "wlg_hi", "wlg_t"}) Use(name);
  }
  if (settings_.asks_at_entry) {
    for (const std::string_view name : kEntryPollRegisters) Use(name);
  }
  if (settings_.zeroes_shared) {
    for (const char* const name : {"wlg_smem", "wlg_s", "wlg_t", "wlg_tid", "wlg_ps"}) Use(name);
  }
  for (const ptx::Variable& variable : declarations) body.push_back({variable, {}});
  for (const GuardRegister& guard : kRegisters) {
    if (used_.contains(guard.name)) body.push_back({Declare("reg", guard.type, guard.name), {}});
  }
  if (hands_on) body.push_back({Declare("param", "b64", "wlg_pass"), {}});
  if (is_entry && settings_.local_bytes != 0 && used_.contains("wlg_local")) {
    ptx::Variable locals = Declare("local", "b8", "wlg_locals");
    locals.alignment = kLocalAlignment;
    locals.is_array = true;
    locals.element_count = settings_.local_bytes;
    body.push_back({std::move(locals), {}});
  }
  if (used_.contains("wlg_base")) {
    // By lane, though the word is the same: ptxas must not keep it in a register that a warp has
    // once, which lanes elsewhere in the code may write.
    // Most kernels read their thread's place in a row anyway.
    ptx::Operand place = Name(settings_.is_wide ? "%tid" : "%laneid");
    if (settings_.is_wide) place.component = "x";
    begin(Make("mov.u32", {Name("wlg_t"), place}));
    begin(Make("and.b32", {Name("wlg_t"), Name("wlg_t"), Number(1)}));
    begin(Make("shl.b32", {Name("wlg_t"), Name("wlg_t"), Number(2)}));
    begin(Make("cvt.u64.u32", {Name("wlg_off"), Name("wlg_t")}));
    // A launch's parameters are at hand; a module's constants come from memory first.
    begin(Make("mov.b64", {Name("wlg_at"), Name(is_entry ? kLaunchParameter : kConstVariable)}));
    begin(Make("add.s64", {Name("wlg_off"), Name("wlg_off"), Name("wlg_at")}));
    begin(Make(is_entry ? "ld.param.b32" : "ld.const.b32", {Name("wlg_base"), Address("wlg_off")}));
  }
  if (used_.contains("wlg_globals")) {
    begin(Make("ld.const.b64", {Name("wlg_globals"), Address(kConstVariable, kGlobalsWord)}));
  }
  if (used_.contains("wlg_consts")) {
    begin(Make("mov.b64", {Name("wlg_consts"), Name(kConstVariable)}));
  }
  if (used_.contains("wlg_params")) {
    begin(Make("mov.b64", {Name("wlg_params"), Name(first_param)}));
  }
  if (used_.contains("wlg_local")) {
    begin(is_entry ? Make("mov.b64", {Name("wlg_local"), Name("wlg_locals")})
                   : Make("ld.param.b64", {Name("wlg_local"), Address("wlg_depot")}));
  }
  if (used_.contains("wlg_smem")) {
    begin(Make("mov.b32", {Name("wlg_smem"), Name("%aggr_smem_size")}));
  }
  if (used_.contains("wlg_n")) begin(Make("mov.b32", {Name("wlg_n"), Number(0)}));
  if (settings_.asks_at_entry) AddEntryPoll(settings_.zeroes_shared, &body);
  // What a former kernel has left there is nobody's business.
  if (is_entry && used_.contains("wlg_local")) {
    for (uint64_t at = 0; at < settings_.local_bytes; at += kLocalAlignment) {
      ptx::Operand zeros;
      zeros.kind = ptx::Operand::Kind::kVector;
      zeros.elements.assign(4, Number(0));
      begin(Make("st.local.v4.b32", {Address("wlg_locals", static_cast<int64_t>(at)), zeros}));
    }
  }
  if (used_.contains("wlg_live")) CountLanes(&body);
  if (settings_.zeroes_shared) ZeroShared(&body);
  for (ptx::Statement& statement : first) body.push_back(std::move(statement));
  bool waits = settings_.zeroes_shared;
  for (ptx::Statement& statement : code_) {
    if (waits && NeedsZeros(statement)) {
      AwaitZeros(&body);
      waits = false;
    }
    body.push_back(std::move(statement));
  }
  code_.clear();
  return body;
}

// Threads are numbered row by row, and warps are 32 of them in that order, of which the last one of
// a block may have fewer. So lane i is there if the first one's number plus i is less than the
// number of threads.
void FenceWriter::CountLanes(std::vector<ptx::Statement>* body) {
  const ptx::Operand lo = Name("wlg_lo"), hi = Name("wlg_hi"), t = Name("wlg_t");
  const ptx::Operand live = Name("wlg_live");
  AddTo(body, "mov.u32", {lo, Special("%tid", "z")});
  AddTo(body, "mov.u32", {t, Special("%ntid", "y")});
  AddTo(body, "mov.u32", {hi, Special("%tid", "y")});
  AddTo(body, "mad.lo.u32", {lo, lo, t, hi});
  AddTo(body, "mov.u32", {hi, Special("%ntid", "x")});
  AddTo(body, "mul.lo.u32", {t, t, hi});
  AddTo(body, "mul.lo.u32", {lo, lo, hi});
  AddTo(body, "mov.u32", {hi, Special("%tid", "x")});
  AddTo(body, "add.u32", {lo, lo, hi});
  AddTo(body, "and.b32", {lo, lo, Number(-32)});
  AddTo(body, "mov.u32", {hi, Special("%ntid", "z")});
  AddTo(body, "mul.lo.u32", {t, t, hi});
  AddTo(body, "sub.u32", {t, t, lo});
  // What is shifted by 32 and more is 0.
  AddTo(body, "mov.b32", {live, Number(-1)});
  AddTo(body, "shl.b32", {live, live, t});
  AddTo(body, "not.b32", {live, live});
}

// Each thread zeroes every n-th of the block's pieces of 16 bytes, n being the number of threads.
// The hardware's own part, at the start, stays.
void FenceWriter::ZeroShared(std::vector<ptx::Statement>* body) {
  const auto add = [body](std::string_view mnemonic, std::vector<ptx::Operand> operands,
                          std::string_view guard = {}) {
    AddTo(body, mnemonic, std::move(operands), guard);
  };
  const ptx::Operand s = Name("wlg_s"), t = Name("wlg_t"), ps = Name("wlg_ps");
  add("mov.u32", {s, Name("%reserved_smem_offset_end")});
  add("add.u32", {s, s, Number(15)});
  add("and.b32", {s, s, Number(-16)});
  add("mad.lo.u32", {s, Name("wlg_tid"), Number(16), s});
  add("setp.ge.u32", {ps, s, Name("wlg_smem")});
  add("bra", {Name("wlg_zeroed")}, "wlg_ps");
  body->push_back({ptx::Label{"wlg_zero"}, {}});
  ptx::Operand zeros;
  zeros.kind = ptx::Operand::Kind::kVector;
  zeros.elements.assign(4, Number(0));
  add("st.shared.v4.b32", {Address("wlg_s"), zeros});
  add("ld.param.b32", {t, Address(kLaunchParameter, kZeroStrideWord)});
  add("add.u32", {s, s, t});
  add("setp.lt.u32", {ps, s, Name("wlg_smem")});
  add("bra", {Name("wlg_zero")}, "wlg_ps");
  body->push_back({ptx::Label{"wlg_zeroed"}, {}});
}

// All threads have to have zeroed their parts before any of them uses shared memory, and before
// they part. Until then they load what they need from elsewhere.
bool FenceWriter::NeedsZeros(const ptx::Statement& statement) {
  const auto* const instruction = std::get_if<ptx::Instruction>(&statement.node);
  if (instruction == nullptr) return std::holds_alternative<ptx::Label>(statement.node);
  static constexpr std::string_view kParting[] = {"bra", "call", "ret", "exit", "bar", "barrier"};
  const std::string_view target =
      instruction->operands.empty() ? std::string_view() : instruction->operands[0].name;
  return std::find(std::begin(kParting), std::end(kParting), instruction->opcode) !=
             std::end(kParting) ||
         target == "wlg_s" || target == "wlg_ps" || MayUseShared(*instruction);
}

void FenceWriter::AwaitZeros(std::vector<ptx::Statement>* body) {
  AddTo(body, "mov.u32", {Name("wlg_s"), Name("%reserved_smem_offset_end")});
  AddTo(body, "setp.lt.u32", {Name("wlg_ps"), Name("wlg_s"), Name("wlg_smem")});
  AddTo(body, "barrier.sync", {Number(0)}, "wlg_ps");
}

}  // namespace warpline::guard
