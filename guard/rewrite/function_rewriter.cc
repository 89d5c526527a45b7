#include "guard/rewrite/function_rewriter.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "guard/rewrite/families.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/loop_polls.h"
#include "guard/rewrite/runtime.h"
#include "guard/rewrite/statements.h"
#include "guard/rewrite/unwritten.h"
#include "guard/rewrite/words.h"
#include "ptx/printer.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

using ptx::Description;
using ptx::Family;
using ptx::Instruction;
using ptx::Operand;
using ptx::StateSpace;

// Those that tell nothing about others but the time, and lead nowhere.
constexpr std::string_view kSpecialRegisters[] = {
    "%tid",
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%smid",
    "%nsmid",
    "%gridid",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%aggr_smem_size",
};

bool IsSpecialRegister(std::string_view name) {
  return std::find(std::begin(kSpecialRegisters), std::end(kSpecialRegisters), name) !=
         std::end(kSpecialRegisters);
}

// An instruction with the predicate of another.
Instruction Under(const Instruction& pattern, Instruction instruction) {
  instruction.guard = pattern.guard;
  instruction.guard_negated = pattern.guard_negated;
  return instruction;
}

ptx::Variable Register(const std::string& type, const std::string& name) {
  ptx::Variable variable;
  variable.space = "reg";
  variable.type = type;
  variable.name = name;
  return variable;
}

// Whether a directive says how many threads blocks have.
bool IsOfThreads(const ptx::Directive& directive) {
  return directive.name == "maxntid" || directive.name == "reqntid";
}

// Whether a block can have as many threads in the direction of x as a directive may say.
bool HasThreadsOfABlock(const ptx::Directive& directive) {
  return !IsOfThreads(directive) || directive.values.empty() || directive.values[0] <= kMostThreads;
}

// Whether a kernel says that its blocks have one thread in the direction of x.
bool SaysOneThreadWide(const ptx::Function& kernel) {
  return std::any_of(
      kernel.directives.begin(), kernel.directives.end(), [](const ptx::Directive& directive) {
        return IsOfThreads(directive) && (directive.values.empty() || directive.values[0] <= 1);
      });
}

FenceSettings SettingsOf(const ModuleContext& module, const FlatFunction& function,
                         uint64_t local_offset) {
  FenceSettings settings;
  settings.arena_bits = module.options->arena_bits;
  settings.hardened = module.options->hardened;
  settings.asks_at_entry = settings.hardened && function.source->is_entry;
  settings.zeroes_shared = settings.hardened && function.source->is_entry &&
                           module.use_shared->contains(function.source->name);
  settings.is_wide = function.source->is_entry && !SaysOneThreadWide(*function.source);
  settings.local_bytes = module.local_bytes;
  settings.local_window =
      function.source->is_entry ? local_offset + function.local_bytes : module.local_bytes;
  settings.param_bytes = function.param_bytes;
  settings.const_bytes = module.layout->consts_image.size();
  return settings;
}

}  // namespace

FunctionRewriter::FunctionRewriter(const ModuleContext& module, const FlatFunction& function,
                                   uint64_t local_offset, Convergence* convergence)
    : module_(module),
      function_(function),
      local_offset_(local_offset),
      at_barriers_(module.have_several_barriers->contains(function.source->name)),
      counts_lanes_(at_barriers_ && !NeedsWholeWarps(function, /*at_barriers=*/false)),
      code_(SettingsOf(module, function, local_offset)),
      known_numbers_(function),
      alignments_([this](const std::string& name) { return AlignmentOf(name); }),
      convergence_(*convergence) {
  if (module.options->hardened) shared_groups_.emplace(function);
}

uint64_t FunctionRewriter::AlignmentOf(const std::string& name) const {
  if (const Symbol* const symbol = function_.Find(name); symbol != nullptr) {
    return symbol->kind == Symbol::Kind::kShared ? symbol->alignment : 0;
  }
  const auto found = module_.shared->find(name);
  return found == module_.shared->end() ? 0 : found->second.alignment;
}

absl::Status FunctionRewriter::Refuse(const std::string& why) const {
  std::string statement;
  if (const auto* const instruction = std::get_if<Instruction>(&at_->node)) {
    statement = absl::StrCat(": ", ptx::Print(*instruction));
    if (statement.size() > 160) statement.resize(160);
  }
  return absl::InvalidArgumentError(absl::StrCat("line ", at_->line.number, ": ", why, statement));
}

absl::Status FunctionRewriter::Rewrite(ptx::Function* result) {
  const ptx::Function& source = *function_.source;
  bool calls = false;
  bool begins = true;  // A run without labels and branches
  if (module_.options->hardened) {
    loops_ = LoopsOf(function_.code);
    // Where whole warps go round together each lane's passes would have to be the same.
    if (!convergence_.HasJoined()) counted_loops_ = CountedLoopsOf(function_);
  }
  const ptx::Statement* const first_leave = FindFirstLeave();
  for (const ptx::Statement& statement : function_.code) {
    at_ = &statement;
    code_.At(statement.line);
    const auto* const instruction = std::get_if<Instruction>(&statement.node);
    if (instruction == nullptr) {
      if (const auto* const label = std::get_if<ptx::Label>(&statement.node)) {
        PlaceLabel(label->name);
        begins = true;
      } else {
        code_.Add(statement);
      }
      continue;
    }
    // ptxas takes the whole run for one of all lanes, so the check stands before all of it.
    if (std::exchange(begins, false)) {
      if (const ptx::Statement* const needs = FindOfWholeWarp(&statement)) NeedWholeWarp(*needs);
    }
    if (&statement == first_leave) NeedWholeWarp(statement);
    calls = calls || instruction->opcode == "call" || instruction->opcode == "trap" ||
            instruction->opcode == "brkpt";
    const bool was_whole = is_whole_;
    if (absl::Status status = RewriteInstruction(*instruction); !status.ok()) return status;
    Description what;
    if (ptx::Describe(*instruction, &what) != ptx::Verdict::kKnown) continue;
    // Instructions of a warp that become two ways have a check in each.
    const bool separates = was_whole && !is_whole_ && !IsOfAWarp(what.row().family);
    begins = separates || EndsRun(*instruction, what);
    if (module_.options->hardened) alignments_.Follow(*instruction, what);
  }
  result->linkage = source.linkage == "visible" || source.linkage == "weak" ? source.linkage : "";
  result->is_entry = source.is_entry;
  result->name = source.name;
  result->results = function_.results;
  result->params = function_.params;
  if (!source.is_entry && module_.local_bytes != 0) {
    ptx::Variable depot;
    depot.space = "param";
    depot.type = "b64";
    depot.name = "wlg_depot";
    result->params.insert(result->params.begin(), std::move(depot));
  }
  if (source.is_entry) {
    ptx::Variable launch;
    launch.space = "param";
    launch.type = "b8";
    launch.name = kLaunchParameter;
    launch.alignment = kLaunchAlignment;
    launch.is_array = true;
    launch.element_count = kLaunchWordBytes;
    result->params.push_back(std::move(launch));
  }
  for (const ptx::Directive& directive : source.directives) {
    if (!HasThreadsOfABlock(directive)) {
      return absl::InvalidArgumentError("blocks of more threads than there can be");
    }
    // .noreturn is the tenant's word, and others are hints.
    static constexpr std::string_view kKept[] = {
        "maxntid",           "reqntid",         "minnctapersm",  "maxnreg",
        "reqnctapercluster", "explicitcluster", "maxclusterrank"};
    if (std::find(std::begin(kKept), std::end(kKept), directive.name) != std::end(kKept)) {
      result->directives.push_back(directive);
    }
  }
  result->has_body = true;
  std::string_view first;
  if (!function_.params.empty()) first = function_.params[0].name;
  std::vector<ptx::Statement> written;
  const absl::Status status = WriteWhatIsRead(function_, code_.code(), &written);
  if (!status.ok()) return status;
  std::vector<ptx::Variable> declarations = function_.declarations;
  for (const std::string& name : scratch_) declarations.push_back(Register("b32", name));
  if (traps_) {
    ptx::Variable line;
    line.space = "param";
    line.type = "b32";
    line.name = absl::StrCat(std::string(kRuntimePrefix), "line");
    declarations.push_back(std::move(line));
  }
  result->body = code_.Take(source.is_entry, first, calls, declarations, std::move(written));
  return absl::OkStatus();
}

absl::Status FunctionRewriter::CheckOperand(const Operand& operand) const {
  for (const Operand& element : operand.elements) {
    if (absl::Status status = CheckOperand(element); !status.ok()) return status;
  }
  if (operand.name.empty() || operand.name == "_") return absl::OkStatus();
  if (operand.kind != Operand::Kind::kName || operand.offset != 0) {
    return Refuse(absl::StrCat("'", operand.name, "' is used in a way the guard does not know"));
  }
  const Symbol* const symbol = function_.Find(operand.name);
  if (symbol != nullptr) {
    if (symbol->kind == Symbol::Kind::kRegister && operand.component.empty()) {
      return absl::OkStatus();
    }
    return Refuse(absl::StrCat("the address of '", operand.name, "' as a number"));
  }
  if (IsSpecialRegister(operand.name)) return absl::OkStatus();
  return Refuse(absl::StrCat("'", operand.name, "' is no register that a guarded kernel may read"));
}

absl::Status FunctionRewriter::RewriteInstruction(Instruction instruction) {
  // That all lanes go the same way is the tenant's word.
  if (instruction.opcode == "bra" || instruction.opcode == "call" || instruction.opcode == "ret") {
    std::erase(instruction.modifiers, "uni");
  }
  Description what;
  if (ptx::Describe(instruction, &what) != ptx::Verdict::kKnown) {
    return Refuse("an instruction that the guard does not know");
  }
  if (!instruction.guard.empty()) {
    const Symbol* const guard = function_.Find(instruction.guard);
    if (guard == nullptr || guard->type != "pred") return Refuse("a predicate that is none");
  }
  if (module_.options->hardened && instruction.opcode == "wgmma") {
    return Refuse("wgmma, which ends the context where a warp of its four has ended");
  }
  if (IsOfAWarp(what.row().family)) {
    if (!instruction.guard.empty()) return RewriteSkipped(std::move(instruction));
    const bool is_matrix =
        what.row().family == Family::kWmmaLoad || what.row().family == Family::kWmmaStore;
    if (is_matrix && what.accesses()[0].space == StateSpace::kGeneric) {
      return RewriteGenericMatrix(instruction);
    }
  }
  if (NeedsWholeWarp(what.row().family, at_barriers_)) NeedWholeWarp(*at_);
  NameByLiterals(what, &instruction);
  const bool was_whole = is_whole_;
  if (was_whole && CountsWhoLeaves(instruction, what.row().family)) {
    code_.Leave(instruction.guard, instruction.guard_negated);
    return absl::OkStatus();
  }
  if (MaySeparate(instruction, what)) is_whole_ = false;
  if (Parts(what.row().family)) {
    is_whole_ = false;
    goes_on_ = !instruction.guard.empty() || what.row().family == Family::kCall;
  }
  switch (what.row().family) {
    case Family::kHint:
      // The cache's business; but what waits for another grid has to stay.
      if (instruction.opcode == "griddepcontrol") break;
      return absl::OkStatus();
    case Family::kTrap:
      RewriteTrap(instruction);
      return absl::OkStatus();
    case Family::kBranch:
      return RewriteBranch(std::move(instruction), was_whole);
    case Family::kCall:
      return RewriteCall(std::move(instruction));
    case Family::kMove:
      return RewriteMove(std::move(instruction));
    case Family::kConvertAddress:
      return RewriteConvertAddress(std::move(instruction));
    case Family::kWmmaLoad:
    case Family::kWmmaStore:
      return RewriteMatrixAccess(std::move(instruction));
    case Family::kBlockBarrier:
      return RewriteBlockBarrier(what, std::move(instruction));
    case Family::kBarrierInit:
    case Family::kBarrierEnd:
    case Family::kBarrierArrive:
    case Family::kBarrierTest:
    case Family::kCopyAsyncArrive:
    case Family::kBarrierExpect:
      // Seen on a GPU: the context ends where something else lies than what `init` wrote.
      if (module_.options->hardened) {
        return Refuse("a barrier in memory, which any store may break");
      }
      break;
    case Family::kBulkCopy:
      return RewriteBulkCopy(std::move(instruction));
    case Family::kElect:
      return RewriteElect(instruction);
    case Family::kCachePolicy:
      // Nothing reads it: DropCacheHint().
      if (absl::Status status = CheckOperand(instruction.operands[0]); !status.ok()) return status;
      Put(Under(instruction, Make("mov.b64", {instruction.operands[0], Number(0)})));
      return absl::OkStatus();
    case Family::kFence:
      if (!instruction.operands.empty()) return Refuse("a fence for tensor maps");
      break;
    default:
      break;
  }
  if (!what.accesses().empty()) return RewriteAccesses(what, std::move(instruction));
  for (const Operand& operand : instruction.operands) {
    if (absl::Status status = CheckOperand(operand); !status.ok()) return status;
  }
  Put(std::move(instruction));
  return absl::OkStatus();
}

std::string FunctionRewriter::NewLabel(std::string_view stem) {
  return absl::StrCat(std::string(kRuntimePrefix), std::string(stem), "_", labels_++);
}

std::string FunctionRewriter::NewJoinedLabel() { return absl::StrCat("wlg_w", labels_++); }

const std::string& FunctionRewriter::JoinedName(const std::string& label) {
  std::string& name = joined_names_[label];
  if (name.empty()) name = NewJoinedLabel();
  return name;
}

void FunctionRewriter::Place(const std::string& label) {
  code_.Add(ptx::Statement{ptx::Label{label}, at_->line});
  is_whole_ = false;
  goes_on_ = true;
  alignments_.Forget();
}

bool FunctionRewriter::ComesTogether(const std::string& label) {
  if (!convergence_.IsJoined(label)) return false;
  if (!goes_on_) return true;
  if (!is_whole_) {
    // A check stands before the label rather than behind it.
    if (const ptx::Statement* const needs = FindOfWholeWarp(at_ + 1)) {
      NeedWholeWarp(*needs);
    } else {
      convergence_.Part(label);
    }
  }
  return is_whole_;
}

void FunctionRewriter::PlaceLabel(const std::string& name) {
  const bool is_joined = ComesTogether(name);
  const std::string& label = is_joined ? JoinedName(name) : name;
  if (loops_.contains(name)) {
    std::string& again = again_[name];
    again = is_joined ? NewJoinedLabel() : NewLabel("again");
    if (const auto counted = counted_loops_.find(name); counted != counted_loops_.end()) {
      const std::string passes = absl::StrCat(std::string(kRuntimePrefix), "passes");
      scratch_.insert(passes);
      BeginCountedLoop(counted->second, label, again, passes, at_->line, &code_);
    } else {
      BeginLoop(label, again, at_->line, &code_);
    }
    goes_on_ = true;
    alignments_.Forget();
  } else {
    Place(label);
  }
  is_whole_ = is_joined_ = is_joined;
}

absl::Status FunctionRewriter::RewriteBranch(Instruction branch, bool was_whole) {
  const std::string label = branch.operands[0].name;
  if (!function_.labels.contains(label)) {
    return Refuse("a branch to what is no label of the function");
  }
  const bool together = was_whole && convergence_.HasJoined() && convergence_.KeepsTogether(branch);
  if (convergence_.IsJoined(label)) {
    if (!together) convergence_.Part(label);
    branch.operands[0].name = JoinedName(label);
  }
  const bool may_pass = !branch.guard.empty();
  const auto again = again_.find(label);
  if (again != again_.end()) {
    const std::string after = together ? NewJoinedLabel() : NewLabel("left");
    if (counted_loops_.contains(label)) {
      AddCountedLoopBranch(branch, again->second, after, &code_);
    } else {
      AddLoopBranch(branch, again->second, after, together, &code_);
    }
    if (may_pass) Place(after);
  } else {
    if (together && may_pass) {
      AddVote("any", "wlg_pu", branch.guard, branch.guard_negated, &code_);
      branch.guard = "wlg_pu";
      branch.guard_negated = false;
    }
    Put(std::move(branch));
  }
  is_whole_ = together && may_pass;
  return absl::OkStatus();
}

// One thread ends, and says so, where a trap would end everybody's context.
void FunctionRewriter::RewriteTrap(const Instruction& trap) {
  const std::string after = NewLabel("after");
  if (!trap.guard.empty()) {
    Instruction skip = Make("bra", {Name(after)});
    skip.guard = trap.guard;
    skip.guard_negated = !trap.guard_negated;
    Put(std::move(skip));
  }
  const std::string line = absl::StrCat(std::string(kRuntimePrefix), "line");
  traps_ = true;
  Put(Make("st.param.b32", {Address(line), Number(at_->line.number)}));
  Operand arguments;
  arguments.kind = Operand::Kind::kList;
  if (module_.local_bytes != 0) {
    Put(Make("st.param.b64", {Address("wlg_pass"), Name(code_.Locals())}));
    arguments.elements.push_back(Name("wlg_pass"));
  }
  arguments.elements.push_back(Name(line));
  Put(Make("call", {Name(kTrapFunction), std::move(arguments)}));
  Put(Make("exit", {}));
  if (!trap.guard.empty()) Place(after);
}

absl::Status FunctionRewriter::RewriteCall(Instruction call) {
  // call (results), name, (arguments): the name is the operand that is no list.
  size_t name = 0;
  while (name < call.operands.size() && call.operands[name].kind == Operand::Kind::kList) ++name;
  if (name == call.operands.size() || call.operands[name].kind != Operand::Kind::kName ||
      call.operands.size() > name + 2) {
    return Refuse("an indirect call");
  }
  const std::string& callee = call.operands[name].name;
  if (function_.Find(callee) != nullptr) return Refuse("an indirect call");
  if (!module_.functions->contains(callee)) {
    return Refuse(absl::StrCat("a call of '", callee, "', which is not in the module"));
  }
  for (const Operand& list : call.operands) {
    for (const Operand& element : list.elements) {
      const Symbol* const symbol = function_.Find(element.name);
      if (symbol == nullptr || symbol->kind != Symbol::Kind::kArgument ||
          element.kind != Operand::Kind::kName || element.offset != 0) {
        return Refuse("an argument that is no variable in space .param");
      }
    }
  }
  if (module_.local_bytes != 0) {
    Put(Make("st.param.b64", {Address("wlg_pass"), Name(code_.Locals())}));
    if (call.operands.size() == name + 1) {
      Operand list;
      list.kind = Operand::Kind::kList;
      call.operands.push_back(std::move(list));
    }
    auto& arguments = call.operands[name + 1].elements;
    arguments.insert(arguments.begin(), Name("wlg_pass"));
  }
  Put(std::move(call));
  return absl::OkStatus();
}

bool FunctionRewriter::PutAddress(const std::string& name, int64_t offset,
                                  const Operand& destination, const Instruction& pattern,
                                  absl::Status* status) {
  const bool is_wide = !pattern.modifiers.empty() && ptx::TypeBytes(pattern.modifiers.back()) == 8;
  std::string_view base;
  uint64_t place = 0;
  const auto of_module = [&](const auto& variables) {
    const auto found = variables.find(name);
    if (found == variables.end()) return false;
    place = found->second->offset;
    if (!found->second->refusal.empty()) {
      *status = Refuse(absl::StrCat("'", name, "' ", found->second->refusal));
    }
    return true;
  };
  if (const Symbol* const symbol = function_.Find(name); symbol != nullptr) {
    if (symbol->kind != Symbol::Kind::kLocal) return false;
    base = code_.Locals();
    place = local_offset_ + symbol->offset;
  } else if (of_module(module_.layout->globals_by_name)) {
    base = code_.Globals();
  } else if (of_module(module_.layout->consts_by_name)) {
    base = code_.Consts();
  } else {
    return false;
  }
  // The addresses of local memory alone fit into 32 bits.
  const bool is_local = base == "wlg_local";
  if (!is_wide && !is_local) *status = Refuse("half an address");
  if (!status->ok()) return true;
  const Operand distance = Number(static_cast<int64_t>(place + static_cast<uint64_t>(offset)));
  if (is_wide) {
    Put(Under(pattern, Make("add.s64", {destination, Name(base), distance})));
  } else {
    Put(Under(pattern, Make("cvt.u32.u64", {destination, Name(base)})));
    Put(Under(pattern, Make("add.s32", {destination, destination, distance})));
  }
  return true;
}

absl::Status FunctionRewriter::RewriteMove(Instruction move) {
  if (absl::Status status = CheckOperand(move.operands[0]); !status.ok()) return status;
  const Operand source = move.operands[1];
  if (source.kind != Operand::Kind::kName || source.name.empty() || !source.component.empty()) {
    if (absl::Status status = CheckOperand(source); !status.ok()) return status;
    Put(std::move(move));
    return absl::OkStatus();
  }
  absl::Status status;
  if (PutAddress(source.name, source.offset, move.operands[0], move, &status)) return status;
  const Symbol* const symbol = function_.Find(source.name);
  if (symbol != nullptr && symbol->kind != Symbol::Kind::kRegister) {
    // An address is a number: what is done with it is fenced.
    const bool is_readable =
        symbol->kind == Symbol::Kind::kShared ||
        (symbol->kind == Symbol::Kind::kParameter && function_.source->is_entry);
    if (!is_readable) return Refuse("the address of an argument");
    Put(std::move(move));
    return absl::OkStatus();
  }
  if (symbol == nullptr && module_.shared->contains(source.name)) {
    Put(std::move(move));
    return absl::OkStatus();
  }
  if (absl::Status checked = CheckOperand(source); !checked.ok()) return checked;
  Put(std::move(move));
  return absl::OkStatus();
}

absl::Status FunctionRewriter::RewriteConvertAddress(Instruction convert) {
  if (Has(convert, "param") || Has(convert, "const") || Has(convert, "param::entry")) {
    return Refuse("a generic address of a parameter or constant");
  }
  const Operand source = convert.operands[1];
  absl::Status status;
  if (source.kind == Operand::Kind::kName && function_.Find(source.name) == nullptr &&
      PutAddress(source.name, source.offset, convert.operands[0], convert, &status)) {
    return status;
  }
  for (const Operand& operand : convert.operands) {
    if (absl::Status checked = CheckOperand(operand); !checked.ok()) return checked;
  }
  Put(std::move(convert));
  return absl::OkStatus();
}

}  // namespace warpline::guard
