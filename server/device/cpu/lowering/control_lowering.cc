#include "server/device/cpu/lowering/control_lowering.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cpu/execution/memory_ops.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {

bool ControlLowering::Branch(const Instruction& in) {
  if (in.operands[0].kind != Operand::Kind::kName) return Invalid("malformed branch");
  for (const std::string& modifier : in.modifiers) {
    if (modifier != "uni") return Unsupported(in);
  }
  scopes_.BranchTo(in.operands[0].name);
  Emit(OpKind::kBranch);
  return true;
}

bool ControlLowering::Call(const Instruction& in, const ptx::Description& what) {
  const auto list_at = [&](size_t i) {
    return i < in.operands.size() && what.roles()[i] == ptx::Role::kList ? &in.operands[i]
                                                                         : nullptr;
  };
  const Operand* const results = list_at(0);
  const size_t place = results == nullptr ? 0 : 1;
  const Operand* const arguments = list_at(place + 1);
  const Operand& target = in.operands[place];
  const std::string& name = target.name;
  if (target.kind != Operand::Kind::kName) return Invalid("malformed call");
  Symbol pointer;
  if (RegisterOf(target, &pointer)) {
    if (pointer.width != Width::k64) return Invalid("call through a register of the wrong size");
    return CallIndirectly(results, pointer.slot, arguments);
  }

  const auto found = kernel_->symbols->functions.find(name);
  if (found == kernel_->symbols->functions.end()) {
    return Invalid(absl::StrCat("call of unknown function ", name));
  }
  const ptx::Function& callee = *found->second;
  if (!callee.has_body) {
    const SystemCall* const call = FindSystemCall(name);
    if (call != nullptr) return CallSystem(*call, results, arguments);
  }
  const auto index = kernel_->function_index.find(&callee);
  if (!callee.has_body || index == kernel_->function_index.end()) {
    return Unsupported(absl::StrCat("call of external function ", name));
  }
  CallSite site;
  site.caller = context_.index;
  site.function = index->second;
  const Formals formals = LayOutFormals(callee);
  if (!CopiesOf(arguments, formals.params, &site.arguments)) return false;
  if (!CopiesOf(results, formals.results, &site.results)) return false;
  Op& op = Emit(OpKind::kCall);
  op.target = static_cast<uint32_t>(kernel_->calls.size());
  kernel_->calls.push_back(std::move(site));
  return true;
}

bool ControlLowering::CallIndirectly(const Operand* results, uint32_t target,
                                     const Operand* arguments) {
  IndirectCall call;
  call.caller = context_.index;
  if (!Actuals(arguments, &call.arguments) || !Actuals(results, &call.results)) return false;
  Op& op = Emit(OpKind::kCallIndirect);
  op.r[0] = target;
  op.target = static_cast<uint32_t>(kernel_->indirect_calls.size());
  kernel_->indirect_calls.push_back(std::move(call));
  return true;
}

bool ControlLowering::Actuals(const Operand* list, std::vector<Formal>* actuals) {
  if (list == nullptr) return true;
  for (const Operand& operand : list->elements) {
    const Symbol* const symbol =
        operand.kind == Operand::Kind::kName ? Find(operand.name) : nullptr;
    if (symbol == nullptr) return Unsupported("argument of an indirect call");
    Formal actual;
    if (symbol->kind == Symbol::Kind::kRegister) {
      actual.is_register = true;
      actual.at = symbol->slot;
      actual.bytes = static_cast<uint32_t>(symbol->width);
    } else if (symbol->kind == Symbol::Kind::kLocal) {
      actual.at = static_cast<uint32_t>(symbol->offset);
      actual.bytes = static_cast<uint32_t>(symbol->bytes);
    } else {
      return Unsupported("argument of an indirect call");
    }
    actuals->push_back(actual);
  }
  return true;
}

bool ControlLowering::CallSystem(const SystemCall& call, const Operand* results,
                                 const Operand* arguments) {
  const std::string_view signature = call.signature;
  std::vector<Formal> given, taken;
  if (!Actuals(arguments, &given) || !Actuals(results, &taken)) return false;
  const bool returns = signature[0] != 'v';
  if (given.size() + 1 != signature.size() || taken.size() != (returns ? 1u : 0u)) {
    return Invalid(absl::StrCat("call of ", call.name, " with the wrong number of arguments"));
  }
  const auto transfer = [&](const Formal& formal, char code, bool load, uint32_t slot) {
    const Width width = WidthOf(code);
    const int bytes = static_cast<int>(width);
    Op& op = Emit(load ? OpKind::kLoad : OpKind::kStore);
    op.memory = load ? FindLoad(bytes, false, width) : FindStore(bytes, width);
    op.space = Space::kLocal;
    op.imm = formal.at;
    op.r[1] = slot;
    op.bytes = static_cast<uint8_t>(bytes);
  };
  uint32_t slots[6] = {};
  for (size_t i = 0; i < signature.size(); ++i) {
    if (i == 0 && !returns) continue;
    const Formal& formal = i == 0 ? taken[0] : given[i - 1];
    const Width width = WidthOf(signature[i]);
    if (formal.bytes < static_cast<uint32_t>(width)) {
      return Invalid(absl::StrCat("call of ", call.name, " with an argument of the wrong size"));
    }
    slots[i] = formal.is_register ? formal.at : NewSlot(width);
    if (i > 0 && !formal.is_register) transfer(formal, signature[i], true, slots[i]);
  }
  Op& op = Emit(OpKind::kAtomic);
  op.memory = call.fn;
  for (size_t i = returns ? 0 : 1; i < signature.size(); ++i) op.r[i] = slots[i];
  if (returns && !taken[0].is_register) transfer(taken[0], signature[0], false, slots[0]);
  return true;
}

bool ControlLowering::CopiesOf(const Operand* list, const std::vector<Formal>& formals,
                               std::vector<CallCopy>* copies) {
  const size_t count = list == nullptr ? 0 : list->elements.size();
  if (count != formals.size()) return Invalid("call with the wrong number of arguments");
  for (size_t i = 0; i < count; ++i) {
    const Operand& actual = list->elements[i];
    const Formal& formal = formals[i];
    CallCopy copy;
    copy.callee = formal.at;
    copy.bytes = formal.bytes;
    copy.is_register = formal.is_register;
    if (formal.is_register) {
      const char code = CodeOf(static_cast<Width>(formal.bytes));
      if (!Source(actual, code, &copy.caller)) return false;
    } else {
      const Symbol* const symbol =
          actual.kind == Operand::Kind::kName ? Find(actual.name) : nullptr;
      if (symbol == nullptr || symbol->kind != Symbol::Kind::kLocal) {
        return Unsupported("call with an argument that is no .param variable");
      }
      if (symbol->bytes < formal.bytes) return Invalid("argument is smaller than the parameter");
      copy.caller = static_cast<uint32_t>(symbol->offset);
    }
    copies->push_back(copy);
  }
  return true;
}

bool ControlLowering::Trap() {
  Emit(OpKind::kTrap).imm = static_cast<uint64_t>(CudaResult::kLaunchFailed);
  return true;
}

bool ControlLowering::Fence(const Instruction& in) {
  for (const std::string& modifier : in.modifiers) {
    if (modifier.find("tensormap") != std::string::npos) return Unsupported(in);
  }
  Emit(OpKind::kFence);
  return true;
}

bool ControlLowering::Sleep(const Instruction& in) {
  uint32_t nanoseconds;
  if (!Source(in.operands[0], 'i', &nanoseconds)) return false;
  Emit(OpKind::kSleep).r[0] = nanoseconds;
  return true;
}

}  // namespace warpline::cpu
