#include "server/device/cpu/lowering/function_lowering.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ptx/printer.h"
#include "ptx/types.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {
namespace {

constexpr uint32_t kMaxFrameBytes = 16u << 20;
constexpr uint64_t kMaxLocalBytes = 512 << 10;  // CUDA's limit for a thread.

uint32_t SlotBytes(Width width) { return static_cast<uint32_t>(width) * kLanes; }

}  // namespace

Formals LayOutFormals(const ptx::Function& function) {
  Formals formals;
  const auto place = [&](const std::vector<ptx::Variable>& variables, std::vector<Formal>* out) {
    for (const ptx::Variable& variable : variables) {
      Formal formal;
      if (variable.space == "reg") {
        Width width = Width::k32;
        TypeWidth(variable.type, &width);
        formal.is_register = true;
        formal.at = formals.slot_bytes;
        formal.bytes = static_cast<uint32_t>(width);
        formals.slot_bytes += std::max<uint32_t>(SlotBytes(width), 64);
      } else {
        const uint64_t bytes = std::min<uint64_t>(ptx::VariableBytes(variable), kMaxLocalBytes);
        formal.at = static_cast<uint32_t>(ptx::AlignUp(
            formals.local_bytes, std::min<uint64_t>(ptx::VariableAlignment(variable), 16)));
        formal.bytes = static_cast<uint32_t>(bytes);
        formals.local_bytes =
            static_cast<uint32_t>(std::min<uint64_t>(formal.at + bytes, 2 * kMaxLocalBytes));
      }
      out->push_back(formal);
    }
  };
  place(function.results, &formals.results);
  place(function.params, &formals.params);
  return formals;
}

bool FunctionLowering::Invalid(std::string_view text) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("line ", line_, ": ", std::string(text.substr(0, 300))));
  }
  return false;
}

bool FunctionLowering::Unsupported(std::string_view text) {
  if (status_.ok()) {
    status_ = absl::UnimplementedError(
        absl::StrCat(std::string(text.substr(0, 300)), " at line ", line_));
  }
  return false;
}

bool FunctionLowering::Unsupported(const Instruction& instruction) {
  return Unsupported(ptx::Print(instruction));
}

bool FunctionLowering::Run() {
  if (!Prepare()) return false;
  for (const ptx::Statement& statement : function_.body) {
    if (!LowerStatement(statement)) return false;
    if (frame_bytes > kMaxFrameBytes) return Unsupported("too many registers");
  }
  // A function whose control runs off its end returns.
  guard_ = kNoSlot;
  Emit(OpKind::kReturn);
  frame_bytes = static_cast<uint32_t>(ptx::AlignUp(frame_bytes, 64));
  local_bytes = static_cast<uint32_t>(ptx::AlignUp(local_bytes, 16));
  return BindLabels();
}

bool FunctionLowering::Prepare() {
  line_ = function_.line.number;
  // Labels belong to their block and may be used before they appear.
  std::vector<uint32_t> open = {0};
  scope_parents_ = {0};
  for (const ptx::Statement& statement : function_.body) {
    if (std::holds_alternative<ptx::OpenBlock>(statement.node)) {
      scope_parents_.push_back(open.back());
      open.push_back(static_cast<uint32_t>(scope_parents_.size() - 1));
    } else if (std::holds_alternative<ptx::CloseBlock>(statement.node)) {
      open.pop_back();
    } else if (const auto* label = std::get_if<ptx::Label>(&statement.node)) {
      if (!label_pcs_.emplace(LabelKey(open.back(), label->name), UINT32_MAX).second) {
        line_ = statement.line.number;
        return Invalid("label defined twice");
      }
    }
  }
  scopes_.emplace_back();
  next_scope_ = 1;

  if (function_.is_entry) {
    uint64_t total;
    const std::vector<ptx::Placement> places = ptx::PlaceInOrder(function_.params, &total);
    for (size_t i = 0; i < places.size(); ++i) {
      Symbol symbol;
      symbol.kind = Symbol::Kind::kParam;
      symbol.offset = places[i].offset;
      symbol.bytes = places[i].bytes;
      scopes_[0].names[function_.params[i].name] = symbol;
    }
    return true;
  }
  const Formals formals = LayOutFormals(function_);
  frame_bytes = formals.slot_bytes;
  local_top_ = local_bytes = formals.local_bytes;
  if (local_top_ > kMaxLocalBytes) return Invalid("parameters too large");
  const auto declare = [&](const std::vector<ptx::Variable>& variables,
                           const std::vector<Formal>& places) {
    for (size_t i = 0; i < variables.size(); ++i) {
      Symbol symbol;
      symbol.kind = places[i].is_register ? Symbol::Kind::kRegister : Symbol::Kind::kLocal;
      TypeWidth(variables[i].type, &symbol.width);
      symbol.slot = places[i].at;
      symbol.offset = places[i].at;
      symbol.bytes = places[i].bytes;
      scopes_[0].names[variables[i].name] = symbol;
    }
  };
  declare(function_.results, formals.results);
  declare(function_.params, formals.params);
  return true;
}

bool FunctionLowering::LowerStatement(const ptx::Statement& statement) {
  line_ = statement.line.number;
  if (const auto* instruction = std::get_if<ptx::Instruction>(&statement.node)) {
    return LowerInstruction(*instruction);
  }
  if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
    return Declare(*variable);
  }
  if (const auto* label = std::get_if<ptx::Label>(&statement.node)) {
    label_pcs_[LabelKey(scopes_.back().id, label->name)] = static_cast<uint32_t>(ops.size());
    return true;
  }
  if (std::holds_alternative<ptx::OpenBlock>(statement.node)) {
    Scope scope;
    scope.id = next_scope_++;
    scope.local_top = local_top_;
    scopes_.push_back(std::move(scope));
    return true;
  }
  if (std::holds_alternative<ptx::CloseBlock>(statement.node)) {
    local_top_ = scopes_.back().local_top;
    scopes_.pop_back();
    return true;
  }
  return true;  // Other statements use pragmas, target lists and prototypes, if at all.
}

bool FunctionLowering::Declare(const ptx::Variable& variable) {
  Scope& scope = scopes_.back();
  if (variable.space == "reg") {
    Width width;
    if (!TypeWidth(variable.type, &width)) {
      return Unsupported(absl::StrCat(".reg .", variable.type));
    }
    if (variable.register_count != 0) {
      scope.ranges.push_back(
          {variable.name, variable.register_count, width, variable.vector_width});
      return true;
    }
    Symbol symbol;
    symbol.width = width;
    symbol.vector_width = variable.vector_width;
    symbol.slot = NewSlot(width);
    for (uint32_t i = 1; i < variable.vector_width; ++i) NewSlot(width);
    scope.names[variable.name] = symbol;
    return true;
  }
  Symbol symbol;
  symbol.bytes = ptx::VariableBytes(variable);
  symbol.element_bytes =
      static_cast<uint32_t>(ptx::TypeBytes(variable.type)) * variable.vector_width;
  if (variable.space == "shared") {
    const auto it = kernel_->shared_offsets.find(&variable);
    if (it == kernel_->shared_offsets.end()) return Invalid("shared variable without a place");
    symbol.kind = Symbol::Kind::kShared;
    symbol.offset = it->second;
  } else if (variable.space == "local" || variable.space == "param") {
    if (symbol.bytes > kMaxLocalBytes) return Unsupported("local variable too large");
    symbol.kind = Symbol::Kind::kLocal;
    symbol.offset =
        ptx::AlignUp(local_top_, std::min<uint64_t>(ptx::VariableAlignment(variable), 16));
    local_top_ = symbol.offset + symbol.bytes;
    if (local_top_ > kMaxLocalBytes) return Unsupported("too much local memory");
    local_bytes = std::max(local_bytes, static_cast<uint32_t>(local_top_));
  } else {
    return Unsupported(absl::StrCat("variable in .", variable.space, " inside a function"));
  }
  scope.names[variable.name] = symbol;
  return true;
}

const FunctionLowering::Symbol* FunctionLowering::Find(const std::string& name) {
  // %r12 is the prefix and index of a range, if there is no such name by itself.
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->names.find(name);
    if (it != scope->names.end()) return &it->second;
    if (digits == name.size() || name.size() - digits > 9) continue;
    const auto index = static_cast<uint32_t>(std::stoul(name.substr(digits)));
    if (name[digits] == '0' && name.size() - digits > 1) continue;
    for (const Range& range : scope->ranges) {
      if (index >= range.count || std::string_view(name).substr(0, digits) != range.prefix) {
        continue;
      }
      Symbol symbol;
      symbol.width = range.width;
      symbol.vector_width = range.vector_width;
      symbol.slot = NewSlot(range.width);
      for (uint32_t i = 1; i < range.vector_width; ++i) NewSlot(range.width);
      return &scope->names.emplace(name, symbol).first->second;
    }
  }
  return nullptr;
}

bool FunctionLowering::BindLabels() {
  for (auto& [op, key] : branches_) {
    line_ = ops[op].line;
    // Searches from the branch's block outwards.
    for (uint32_t scope = key.first;; scope = scope_parents_[scope]) {
      const auto it = label_pcs_.find(LabelKey(scope, key.second));
      if (it != label_pcs_.end()) {
        ops[op].target = it->second;
        break;
      }
      if (scope == 0) return Invalid(absl::StrCat("unknown label ", key.second));
    }
  }
  return true;
}

uint32_t FunctionLowering::NewSlot(Width width) {
  if (width != Width::kPred) {
    const uint32_t slot = frame_bytes;
    frame_bytes += SlotBytes(width);
    return slot;
  }
  // Sixteen predicates share a line of 64 bytes.
  if (predicate_line_ == kNoSlot || predicates_in_line_ == 16) {
    predicate_line_ = frame_bytes;
    predicates_in_line_ = 0;
    frame_bytes += 64;
  }
  return predicate_line_ + 4 * predicates_in_line_++;
}

uint32_t FunctionLowering::Constant(Width width, uint64_t bits) {
  if (width == Width::k16) bits &= 0xffff;
  if (width == Width::k32) bits &= 0xffffffff;
  const auto key = std::make_pair(width, bits);
  const auto it = constant_slots_.find(key);
  if (it != constant_slots_.end()) return it->second;
  const uint32_t slot = NewSlot(width);
  constant_slots_[key] = slot;
  constants.push_back({slot, width, bits});
  return slot;
}

uint32_t FunctionLowering::SpecialSlot(Special special, Width width) {
  const bool changes = special >= Special::kClock && special <= Special::kGlobaltimerHi;
  if (changes) {
    const uint32_t slot = NewSlot(width);
    Op& op = Emit(OpKind::kSpecial);
    op.special = special;
    op.r[0] = slot;
    return slot;
  }
  const auto it = special_slots_.find(special);
  if (it != special_slots_.end()) return it->second;
  const uint32_t slot = NewSlot(width);
  special_slots_[special] = slot;
  specials.emplace_back(special, slot);
  return slot;
}

Op& FunctionLowering::Emit(OpKind kind) {
  Op& op = ops.emplace_back();
  op.kind = kind;
  op.line = line_;
  op.guard = guard_;
  op.guard_negated = guard_negated_;
  return op;
}

Op& FunctionLowering::EmitAlu(const AluRow& row) {
  Op& op = Emit(OpKind::kAlu);
  op.alu = row.fn;
  return op;
}

bool FunctionLowering::EmitNamed(std::string_view mnemonic, uint32_t d, uint32_t a, uint32_t b,
                                 uint32_t c) {
  const AluRow* const row = FindAlu(mnemonic);
  if (row == nullptr) return Unsupported(mnemonic);
  Op& op = EmitAlu(*row);
  op.r[0] = d;
  op.r[1] = a;
  op.r[2] = b;
  op.r[3] = c;
  return true;
}

void FunctionLowering::EmitPrepared(Op op) {
  op.line = line_;
  op.guard = guard_;
  op.guard_negated = guard_negated_;
  ops.push_back(op);
}

bool FunctionLowering::LowerInstruction(const Instruction& in) {
  guard_ = kNoSlot;
  guard_negated_ = in.guard_negated;
  if (!in.guard.empty()) {
    const Symbol* const symbol = Find(in.guard);
    if (symbol == nullptr || symbol->kind != Symbol::Kind::kRegister ||
        symbol->width != Width::kPred) {
      return Invalid(absl::StrCat("unknown predicate ", in.guard));
    }
    guard_ = symbol->slot;
  }
  ptx::Description what;
  switch (ptx::Describe(in, &what)) {
    case ptx::Verdict::kKnown:
      return LowerKnown(in, what);
    case ptx::Verdict::kUnknown:
      return Unsupported(in);
    case ptx::Verdict::kWrongOperands:
      return Invalid(absl::StrCat("wrong operands: ", ptx::Print(in)));
  }
  return false;
}

bool FunctionLowering::LowerKnown(const Instruction& in, const ptx::Description& what) {
  using ptx::Family;
  switch (what.row().family) {
    case Family::kArithmetic:
      return LowerAlu(in, what);
    case Family::kMove:
      return LowerMov(in);
    case Family::kCompare:
      return LowerSetp(in);
    case Family::kSet:
      return LowerSet(in);
    case Family::kConvert:
      return LowerCvt(in);
    case Family::kConvertAddress:
      return LowerCvta(in);
    case Family::kTestSpace:
      return LowerIsspacep(in);
    case Family::kLoad:
      return LowerLoad(in, what);
    case Family::kStore:
      return LowerStore(in, what);
    case Family::kAtomic:
      return LowerAtomic(in, what);
    case Family::kBranch:
      return LowerBranch(in);
    case Family::kCall:
      return LowerCall(in, what);
    case Family::kReturn:
      Emit(OpKind::kReturn);
      return true;
    case Family::kExit:
      Emit(OpKind::kExit);
      return true;
    case Family::kTrap:
      return LowerTrap();
    case Family::kFence:
      return LowerFence(in);
    case Family::kSleep:
      Emit(OpKind::kSleep);
      return true;
    case Family::kHint:
    case Family::kCopyAsyncGroup:
    case Family::kBarrierEnd:
      return true;
    case Family::kCopyAsync:
      return LowerCopyAsync(in, what);
    case Family::kCopyAsyncArrive:
      return LowerCopyAsyncArrive(in, what);
    case Family::kBarrierInit:
      return LowerBarrierInit(in, what);
    case Family::kBarrierArrive:
      return LowerBarrierArrive(in, what);
    case Family::kBarrierTest:
      return LowerBarrierTest(in, what);
    case Family::kBarrierPending:
      return LowerBarrierPending(in);
    case Family::kMatrixMultiply:
      return LowerMma(in);
    case Family::kWmmaMultiply:
      return LowerWmmaMultiply(in);
    case Family::kWmmaLoad:
    case Family::kWmmaStore:
      return LowerWmmaAccess(in, what.accesses()[0]);
    case Family::kTileLoad:
    case Family::kTileStore:
      return LowerTiles(in, what.accesses()[0]);
    case Family::kBlockBarrier:
      return LowerBlockBarrier(in);
    case Family::kWarpBarrier:
      return LowerWarpBarrier(in);
    case Family::kShuffle:
      return LowerShfl(in);
    case Family::kVote:
      return LowerVote(in);
    case Family::kMatch:
      return LowerMatch(in);
    case Family::kReduce:
      return LowerRedux(in);
    case Family::kActiveMask:
      return LowerActiveMask(in);
  }
  return false;
}

}  // namespace warpline::cpu
