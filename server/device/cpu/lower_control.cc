// Branches, calls, ends, fences.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cuda_result.h"
#include "server/device/cpu/function_lowering.h"

namespace warpline::cpu {

bool FunctionLowering::LowerBranch(const Instruction& in) {
  if (in.operands.size() != 1 || in.operands[0].kind != Operand::Kind::kName) {
    return Invalid("malformed branch");
  }
  for (const std::string& modifier : in.modifiers) {
    if (modifier != "uni") return Unsupported(in);
  }
  branches_.emplace_back(ops.size(), LabelKey(scopes_.back().id, in.operands[0].name));
  Emit(OpKind::kBranch);
  return true;
}

bool FunctionLowering::LowerCall(const Instruction& in) {
  size_t next = 0;
  const Operand* results = nullptr;
  const Operand* arguments = nullptr;
  const auto is_list = [&](size_t i) {
    return i < in.operands.size() && in.operands[i].kind == Operand::Kind::kList;
  };
  if (is_list(next)) results = &in.operands[next++];
  if (next >= in.operands.size() || in.operands[next].kind != Operand::Kind::kName) {
    return Invalid("malformed call");
  }
  const std::string& name = in.operands[next++].name;
  if (is_list(next)) arguments = &in.operands[next++];

  const auto found = kernel_->symbols->functions.find(name);
  if (found == kernel_->symbols->functions.end()) {
    return Unsupported(absl::StrCat("indirect call of ", name));
  }
  const ptx::Function& callee = *found->second;
  if (name == "__assertfail") {
    Emit(OpKind::kTrap).imm = static_cast<uint64_t>(CudaResult::kAssert);
    return true;
  }
  const auto index = kernel_->function_index.find(&callee);
  if (!callee.has_body || index == kernel_->function_index.end()) {
    return Unsupported(absl::StrCat("call of external function ", name));
  }
  CallSite site;
  site.caller = index_;
  site.function = index->second;
  const Formals formals = LayOutFormals(callee);
  if (!LowerCallCopies(arguments, formals.params, &site.arguments)) return false;
  if (!LowerCallCopies(results, formals.results, &site.results)) return false;
  Op& op = Emit(OpKind::kCall);
  op.target = static_cast<uint32_t>(kernel_->calls.size());
  kernel_->calls.push_back(std::move(site));
  return true;
}

bool FunctionLowering::LowerCallCopies(const Operand* list, const std::vector<Formal>& formals,
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
      const char code = formal.bytes == 0   ? 'p'
                        : formal.bytes == 2 ? 'h'
                        : formal.bytes == 4 ? 'i'
                                            : 'l';
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

bool FunctionLowering::LowerReturn(const Instruction&) {
  Emit(OpKind::kReturn);
  return true;
}

bool FunctionLowering::LowerExit(const Instruction&) {
  Emit(OpKind::kExit);
  return true;
}

bool FunctionLowering::LowerTrap(const Instruction&) {
  Emit(OpKind::kTrap).imm = static_cast<uint64_t>(CudaResult::kLaunchFailed);
  return true;
}

bool FunctionLowering::LowerFence(const Instruction& in) {
  for (const std::string& modifier : in.modifiers) {
    if (modifier.find("tensormap") != std::string::npos) return Unsupported(in);
  }
  Emit(OpKind::kFence);
  return true;
}

bool FunctionLowering::LowerSleep(const Instruction&) {
  Emit(OpKind::kSleep);
  return true;
}

bool FunctionLowering::LowerNothing(const Instruction&) { return true; }

}  // namespace warpline::cpu
