// The part of FunctionRewriter that fences addresses.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "guard/rewrite/families.h"
#include "guard/rewrite/function_rewriter.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/statements.h"
#include "guard/rewrite/words.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

using ptx::Description;
using ptx::Family;
using ptx::Instruction;
using ptx::MemoryAccess;
using ptx::Operand;
using ptx::StateSpace;

// The hardware takes an offset in shared memory for the address of these, whatever they say.
bool IsOnlyShared(Family family) {
  switch (family) {
    case Family::kTileLoad:
    case Family::kTileStore:
    case Family::kBarrierInit:
    case Family::kBarrierEnd:
    case Family::kBarrierArrive:
    case Family::kBarrierTest:
    case Family::kCopyAsyncArrive:
    case Family::kBarrierExpect:
      return true;
    default:
      return false;
  }
}

// A policy of the cache is a number that the hardware reads; without it the access is the same.
void DropCacheHint(Instruction* instruction) {
  const auto hint =
      std::find(instruction->modifiers.begin(), instruction->modifiers.end(), "L2::cache_hint");
  if (hint == instruction->modifiers.end() || instruction->operands.empty()) return;
  instruction->modifiers.erase(hint);
  instruction->operands.pop_back();
}

}  // namespace

absl::Status FunctionRewriter::RewriteAccesses(const Description& what, Instruction instruction) {
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    if (what.roles()[i] == ptx::Role::kAddress) continue;
    if (absl::Status status = CheckOperand(instruction.operands[i]); !status.ok()) return status;
  }
  if (Has(instruction, "mmio")) return Refuse("an access to registers of a device");
  DropCacheHint(&instruction);
  const bool only_shared = IsOnlyShared(what.row().family);
  for (const MemoryAccess& access : what.accesses()) {
    Operand& address = instruction.operands[access.operand];
    if (!address.elements.empty()) return Refuse("an address with coordinates");
    if (access.bytes == 0 || access.bytes > 32) return Refuse("an access of unknown size");
    const absl::Status status = RewriteAddress(access, only_shared, &instruction, &address);
    if (!status.ok()) return status;
  }
  if (what.row().family == Family::kCopyAsync && module_.options->hardened &&
      instruction.operands.size() > 3) {
    const absl::Status status = RewritePart(&instruction);
    if (!status.ok()) return status;
  }
  Put(std::move(instruction));
  return absl::OkStatus();
}

// Between shared memory and the arena. It may be longer than any access, though not than the zone
// behind the arena; in shared memory the hardware sees where a block's own ends.
absl::Status FunctionRewriter::RewriteBulkCopy(Instruction copy) {
  if (module_.options->hardened) return Refuse("a copy of many bytes, which may not be aligned");
  DropCacheHint(&copy);
  const bool to_shared = Has(copy, "mbarrier::complete_tx::bytes");
  const bool to_global = Has(copy, "bulk_group");
  // cp.async.bulk.TO.FROM.how
  const auto names = [&copy](size_t at, std::string_view space) {
    return copy.modifiers.size() == 5 && copy.modifiers[at] == space;
  };
  const bool is_known = to_shared ? (names(2, "shared::cluster") || names(2, "shared::cta")) &&
                                        names(3, "global") && copy.operands.size() == 4
                                  : to_global && names(2, "global") && names(3, "shared::cta") &&
                                        copy.operands.size() == 3;
  if (!is_known) return Refuse("a copy between spaces that the guard does not know");
  for (size_t i = 0; i < copy.operands.size(); ++i) {
    Operand& operand = copy.operands[i];
    if (operand.kind != Operand::Kind::kAddress) {
      if (absl::Status status = CheckOperand(operand); !status.ok()) return status;
      continue;
    }
    MemoryAccess access;
    access.kind = ptx::AccessKind::kUpdate;
    access.bytes = 1;
    access.space = i == (to_shared ? 1 : 0) ? StateSpace::kGlobal : StateSpace::kShared;
    if (!operand.elements.empty()) return Refuse("an address with coordinates");
    const bool moves = access.space == StateSpace::kGlobal && operand.offset != 0;
    const Symbol* const symbol = function_.Find(operand.name);
    if (moves && symbol != nullptr && ptx::TypeBytes(symbol->type) == 8) {
      operand = Address(code_.Arena(code_.Sum(operand.name, operand.offset), 1));
      continue;
    }
    const absl::Status status = RewriteAddress(access, false, &copy, &operand);
    if (!status.ok()) return status;
  }
  Operand& size = copy.operands[2];
  if (size.kind != Operand::Kind::kInteger || size.value > kMostBulkBytes) {
    size = Name(code_.Bounded(size, kMostBulkBytes));
  }
  Put(std::move(copy));
  return absl::OkStatus();
}

// The compiler reads a part from the end of its source, where it is not aligned. So a copy in which
// that is not the whole ends the thread.
absl::Status FunctionRewriter::RewritePart(Instruction* copy) {
  const uint64_t bytes = copy->operands[2].value;
  Operand* const size = &copy->operands[3];
  if (size->kind == Operand::Kind::kInteger) {
    if (size->value == 0 || size->value == bytes) return absl::OkStatus();
    return Refuse("a copy of a part");
  }
  const Symbol* const symbol = function_.Find(size->name);
  if (symbol == nullptr || symbol->type == "pred") return absl::OkStatus();
  if (ptx::TypeBytes(symbol->type) != 4) return Refuse("a size of other than 32 bits");
  if (known_numbers_.IsAllOrNothing(size->name, bytes)) {
    *size = Name(code_.AllOrNothing(*size, static_cast<int64_t>(bytes)));
    return absl::OkStatus();
  }
  *size = Name(code_.Part(*size, static_cast<int64_t>(bytes), copy->guard, copy->guard_negated));
  is_whole_ = false;
  return absl::OkStatus();
}

absl::Status FunctionRewriter::RewriteAddress(const MemoryAccess& access, bool only_shared,
                                              Instruction* instruction, Operand* address) {
  if (access.space == StateSpace::kSharedCluster) return Refuse("shared memory of another block");
  if (access.space == StateSpace::kConst && access.kind != ptx::AccessKind::kRead) {
    return Refuse("a constant that is written");
  }
  if (address->name.empty()) return Refuse("an absolute address");
  const Symbol* const symbol = function_.Find(address->name);
  if (symbol != nullptr && symbol->kind == Symbol::Kind::kRegister) {
    return RewriteRegisterAddress(access, *symbol, only_shared, instruction, address);
  }
  return RewriteVariableAddress(access, address);
}

absl::Status FunctionRewriter::RewriteVariableAddress(const MemoryAccess& access,
                                                      Operand* address) {
  const bool hardened = module_.options->hardened;
  const auto fits = [&](uint64_t bytes) {
    return address->offset >= 0 && access.bytes <= bytes &&
           static_cast<uint64_t>(address->offset) <= bytes - access.bytes &&
           (!hardened || static_cast<uint64_t>(address->offset) % access.bytes == 0);
  };
  const auto stays_in_shared = [&](uint64_t bytes, uint64_t alignment) {
    return !hardened || (fits(bytes) && alignment % access.bytes == 0);
  };
  const Symbol* const symbol = function_.Find(address->name);
  if (symbol != nullptr) {
    switch (symbol->kind) {
      case Symbol::Kind::kParameter:
      case Symbol::Kind::kResult:
      case Symbol::Kind::kArgument:
        if (access.space != StateSpace::kParam) break;
        if (symbol->kind == Symbol::Kind::kParameter && access.kind != ptx::AccessKind::kRead) {
          return Refuse("a parameter that is written");
        }
        if (!fits(symbol->bytes)) return Refuse("an access beyond its parameter");
        return absl::OkStatus();
      case Symbol::Kind::kShared:
        if (access.space != StateSpace::kShared) break;
        if (!stays_in_shared(symbol->bytes, symbol->alignment)) {
          *address = Address(code_.SharedVariable(address->name, address->offset, access.bytes));
        }
        return absl::OkStatus();
      case Symbol::Kind::kLocal:
        if (access.space != StateSpace::kLocal) break;
        if (!fits(symbol->bytes)) return Refuse("an access beyond its variable");
        *address = Address(code_.Locals(),
                           static_cast<int64_t>(local_offset_ + symbol->offset) + address->offset);
        return absl::OkStatus();
      case Symbol::Kind::kRegister:
        break;
    }
    return Refuse(absl::StrCat("'", address->name, "' is not in that space"));
  }
  if (const auto shared = module_.shared->find(address->name); shared != module_.shared->end()) {
    if (access.space != StateSpace::kShared) return Refuse("a variable of another space");
    if (!stays_in_shared(shared->second.bytes, shared->second.alignment)) {
      *address = Address(code_.SharedVariable(address->name, address->offset, access.bytes));
    }
    return absl::OkStatus();
  }
  const auto& consts = module_.layout->consts_by_name;
  if (const auto found = consts.find(address->name); found != consts.end()) {
    if (access.space != StateSpace::kConst) return Refuse("a variable of another space");
    if (!found->second->refusal.empty()) {
      return Refuse(absl::StrCat("'", address->name, "' ", found->second->refusal));
    }
    if (!fits(found->second->bytes)) return Refuse("an access beyond its variable");
    *address =
        Address(kConstVariable, static_cast<int64_t>(found->second->offset) + address->offset);
    return absl::OkStatus();
  }
  const auto& globals = module_.layout->globals_by_name;
  const auto found = globals.find(address->name);
  if (found == globals.end()) return Refuse(absl::StrCat("'", address->name, "' is not declared"));
  if (access.space != StateSpace::kGlobal && access.space != StateSpace::kGeneric) {
    return Refuse("a variable of another space");
  }
  if (!found->second->refusal.empty()) {
    return Refuse(absl::StrCat("'", address->name, "' ", found->second->refusal));
  }
  // In a module of its own an offset beyond the variable would lead to another of its variables.
  // Here it does as well, so it needs no check.
  const int64_t place =
      static_cast<int64_t>(found->second->offset + static_cast<uint64_t>(address->offset));
  const std::string_view sum = code_.Sum(code_.Globals(), place);
  *address = Address(access.space == StateSpace::kGlobal ? code_.Arena(sum, access.bytes)
                                                         : code_.Generic(sum, access.bytes));
  return absl::OkStatus();
}

absl::Status FunctionRewriter::RewriteRegisterAddress(const MemoryAccess& access,
                                                      const Symbol& symbol, bool only_shared,
                                                      Instruction* instruction, Operand* address) {
  const int width = ptx::TypeBytes(symbol.type);
  if ((width != 4 && width != 8) || ptx::IsFloatType(symbol.type)) {
    return Refuse("an address in a register that is no integer of 32 or 64 bits");
  }
  const bool is_wide = width == 8;
  const bool hardened = module_.options->hardened;
  const std::string x = address->name;
  const int64_t offset = address->offset;
  const bool is_shared = access.space == StateSpace::kShared;
  const SharedGroups::Place* const in_group =
      hardened && is_shared ? shared_groups_->Find(at_) : nullptr;
  if (in_group != nullptr) {
    const SharedGroup& group = shared_groups_->groups()[in_group->group];
    if (in_group->is_first) {
      code_.BeginSharedGroup(group,
                             KnownAlignments::OfSum(alignments_.Of(group.base), group.offset));
    }
    *address = Address(SharedGroupRegister(group.number), in_group->distance);
    return absl::OkStatus();
  }
  if (is_shared || only_shared) {
    std::string_view place = x;
    int64_t rest = offset;
    if (!is_shared) {
      if (!is_wide) return Refuse("an address of 32 bits");
      if (offset != 0) place = code_.Sum(x, offset);
      rest = 0;
      place = code_.InShared(place);
      // The space stands before the type, which comes last.
      instruction->modifiers.insert(instruction->modifiers.end() - 1, "shared");
    }
    *address = hardened ? Address(code_.Shared(
                              place, is_wide, rest, access.bytes,
                              KnownAlignments::OfSum(alignments_.Of(std::string(place)), rest)))
                        : Address(place, rest);
    return absl::OkStatus();
  }
  std::string_view sum = x;
  if (!is_wide) {
    if (access.space != StateSpace::kLocal) return Refuse("an address of 32 bits");
    sum = code_.Widen(x);
  }
  switch (access.space) {
    case StateSpace::kGlobal: {
      const bool stays = offset >= -kMostOffset && offset <= kMostOffset &&
                         (!hardened || offset % static_cast<int64_t>(access.bytes) == 0);
      if (!stays) sum = code_.Sum(sum, offset);
      *address = Address(code_.Arena(sum, access.bytes), stays ? offset : 0);
      return absl::OkStatus();
    }
    case StateSpace::kGeneric:
      if (offset != 0) sum = code_.Sum(sum, offset);
      *address = Address(code_.Generic(sum, access.bytes));
      return absl::OkStatus();
    case StateSpace::kLocal:
      if (module_.local_bytes < access.bytes) return Refuse("local memory that nobody declared");
      if (offset != 0) sum = code_.Sum(sum, offset);
      *address = Address(code_.Local(sum, access.bytes));
      return absl::OkStatus();
    case StateSpace::kConst:
      if (offset != 0) sum = code_.Sum(sum, offset);
      *address = Address(code_.Const(sum, access.bytes));
      return absl::OkStatus();
    case StateSpace::kParam:
      if (!function_.source->is_entry || access.kind != ptx::AccessKind::kRead ||
          function_.param_bytes < access.bytes) {
        return Refuse("a parameter by its address");
      }
      if (offset != 0) sum = code_.Sum(sum, offset);
      *address = Address(code_.Param(sum, access.bytes));
      return absl::OkStatus();
    default:
      return Refuse("a space that the guard does not know");
  }
}

}  // namespace warpline::guard
