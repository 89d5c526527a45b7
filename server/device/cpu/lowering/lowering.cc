#include "server/device/cpu/lowering/lowering.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ptx/types.h"
#include "server/device/cpu/lowering/function_lowering.h"
#include "server/device/cpu/lowering/kernel_context.h"
#include "server/device/cpu/machine/device_limits.h"

namespace warpline::cpu {
namespace {

// The depth for which a kernel that calls itself may use the stacks; without recursion the depth is
// known.
constexpr uint32_t kRecursionDepth = 256;
constexpr size_t kMaxCallSites = 100'000;
constexpr uint64_t kMaxSharedBytes = 1u << 20;

class KernelLowering {
 public:
  KernelLowering(const ModuleSymbols& symbols, const ptx::Function& kernel) : kernel_(kernel) {
    context_.symbols = &symbols;
  }

  absl::StatusOr<KernelCode> Run() {
    code_.name = kernel_.name;
    Collect();
    if (!PlaceShared()) return absl::InvalidArgumentError("too much shared memory");
    for (size_t i = 0; i < functions_.size(); ++i) {
      absl::Status status = LowerFunction(static_cast<uint32_t>(i));
      if (!status.ok()) return status;
    }
    absl::Status status = ResolveIndirectCalls();
    if (!status.ok()) return status;
    code_.calls = std::move(context_.calls);
    code_.matrices = std::move(context_.matrices);
    code_.warpgroup_multiplies = std::move(context_.warpgroup_multiplies);
    status = MeasureStacks();
    if (!status.ok()) return status;
    return std::move(code_);
  }

 private:
  // Collects the functions that can be reached, and the names that are mentioned.
  void Collect() {
    functions_.push_back(&kernel_);
    context_.function_index[&kernel_] = 0;
    for (size_t i = 0; i < functions_.size(); ++i) {
      for (const ptx::Statement& statement : functions_[i]->body) {
        const auto* instruction = std::get_if<ptx::Instruction>(&statement.node);
        if (instruction == nullptr) continue;
        for (const ptx::Operand& operand : instruction->operands) Mention(operand);
        if (instruction->opcode == "call") AddCallees(*instruction);
      }
    }
  }

  void Mention(const ptx::Operand& operand) {
    if (!operand.name.empty() && operand.name[0] != '%') names_.insert(operand.name);
    for (const ptx::Operand& element : operand.elements) Mention(element);
  }

  void AddCallees(const ptx::Instruction& call) {
    for (const ptx::Operand& operand : call.operands) {
      if (operand.kind != ptx::Operand::Kind::kName) continue;
      if (!operand.name.empty() && operand.name[0] == '%') {
        // A call through a register may reach any function whose address is taken.
        if (calls_indirectly_) continue;
        calls_indirectly_ = true;
        for (const ptx::Function* function : context_.symbols->address_taken) AddCallee(function);
        continue;
      }
      const auto it = context_.symbols->functions.find(operand.name);
      if (it != context_.symbols->functions.end() && it->second->has_body) AddCallee(it->second);
    }
  }

  void AddCallee(const ptx::Function* function) {
    if (context_.function_index.emplace(function, functions_.size()).second) {
      functions_.push_back(function);
    }
  }

  // Makes a call site of its own for every function that fits an indirect call.
  absl::Status ResolveIndirectCalls() {
    std::unordered_map<const ptx::Function*, Formals> laid_out;
    for (const ptx::Function* function : context_.symbols->address_taken) {
      laid_out[function] = LayOutFormals(*function);
    }
    for (const IndirectCall& call : context_.indirect_calls) {
      IndirectSite site;
      for (const ptx::Function* function : context_.symbols->address_taken) {
        const auto index = context_.function_index.find(function);
        if (index == context_.function_index.end()) continue;
        CallSite target;
        target.caller = call.caller;
        target.function = index->second;
        const Formals& formals = laid_out[function];
        if (!Match(call.arguments, formals.params, &target.arguments) ||
            !Match(call.results, formals.results, &target.results)) {
          continue;
        }
        site.targets.emplace_back(context_.symbols->AddressOf(function),
                                  static_cast<uint32_t>(context_.calls.size()));
        context_.calls.push_back(std::move(target));
        if (context_.calls.size() > kMaxCallSites) {
          return absl::UnimplementedError("too many targets of indirect calls");
        }
      }
      std::sort(site.targets.begin(), site.targets.end());
      code_.indirect_calls.push_back(std::move(site));
    }
    return absl::OkStatus();
  }

  static bool Match(const std::vector<Formal>& actuals, const std::vector<Formal>& formals,
                    std::vector<CallCopy>* copies) {
    if (actuals.size() != formals.size()) return false;
    for (size_t i = 0; i < actuals.size(); ++i) {
      const Formal& actual = actuals[i];
      const Formal& formal = formals[i];
      if (actual.is_register != formal.is_register || actual.bytes < formal.bytes ||
          (actual.is_register && actual.bytes != formal.bytes)) {
        return false;
      }
      copies->push_back({actual.at, formal.at, formal.bytes, formal.is_register});
    }
    return true;
  }

  bool PlaceShared() {
    uint64_t top = 0;
    std::vector<const ptx::Variable*> dynamic;
    uint64_t alignment = 16;
    const auto place = [&](const ptx::Variable& variable) {
      alignment = std::max(alignment, ptx::VariableAlignment(variable));
      if (variable.is_array && variable.element_count == 0) {
        dynamic.push_back(&variable);
        return;
      }
      top = ptx::AlignUp(top, ptx::VariableAlignment(variable));
      context_.shared_offsets[&variable] = top;
      top += std::min<uint64_t>(ptx::VariableBytes(variable), 2 * kMaxSharedBytes);
    };
    // Sorted by name, because layouts should not change between runs as the order of a hash table
    // does.
    std::vector<const ptx::Variable*> module_variables;
    for (const auto& [name, variable] : context_.symbols->shared) {
      if (names_.count(name) != 0) module_variables.push_back(variable);
    }
    std::sort(module_variables.begin(), module_variables.end(),
              [](const auto* a, const auto* b) { return a->name < b->name; });
    for (const ptx::Variable* variable : module_variables) place(*variable);
    for (const ptx::Function* function : functions_) {
      for (const ptx::Statement& statement : function->body) {
        const auto* variable = std::get_if<ptx::Variable>(&statement.node);
        if (variable != nullptr && variable->space == "shared") place(*variable);
        if (top > kMaxSharedBytes) return false;
      }
    }
    if (top > kMaxSharedBytes) return false;
    // All dynamic arrays start where the static variables end.
    if (!dynamic.empty()) top = ptx::AlignUp(top, alignment);
    for (const ptx::Variable* variable : dynamic) context_.shared_offsets[variable] = top;
    code_.static_shared_bytes = static_cast<uint32_t>(top);
    code_.shared_alignment = static_cast<uint32_t>(alignment);
    return true;
  }

  absl::Status LowerFunction(uint32_t index) {
    FunctionLowering lowering(&context_, *functions_[index], index);
    absl::Status status = lowering.Run();
    if (!status.ok()) return status;
    CodeBuilder& code = lowering.code();
    FunctionCode function;
    function.name = functions_[index]->name;
    function.entry_pc = static_cast<uint32_t>(code_.ops.size());
    function.frame_bytes = lowering.frame_bytes();
    function.local_bytes = lowering.local_bytes();
    if (index == 0) {
      code_.constants = code.constants();
      code_.specials = code.specials();
      code_.register_count = std::min<uint32_t>(lowering.frame_bytes() / 128 + 16, 255);
    } else {
      // A called function has its frame for itself only once it runs: it fills it first.
      for (const ConstantSlot& constant : code.constants()) {
        code_.ops.push_back(Broadcast(constant));
      }
      for (const auto& [special, slot] : code.specials()) {
        Op op;
        op.kind = OpKind::kSpecial;
        op.special = special;
        op.r[0] = slot;
        code_.ops.push_back(op);
      }
    }
    const auto base = static_cast<uint32_t>(code_.ops.size());
    for (Op& op : code.ops()) {
      if (op.kind == OpKind::kBranch) op.target += base;
      code_.ops.push_back(op);
    }
    code_.functions.push_back(std::move(function));
    return absl::OkStatus();
  }

  static Op Broadcast(const ConstantSlot& constant) {
    Op op;
    const char* const name = constant.width == Width::kPred ? "broadcast.pred"
                             : constant.width == Width::k16 ? "broadcast.b16"
                             : constant.width == Width::k32 ? "broadcast.b32"
                                                            : "broadcast.b64";
    op.alu = FindAlu(name)->fn;
    op.r[0] = constant.slot;
    op.imm = constant.bits;
    return op;
  }

  // Measures the stacks that the deepest chain of calls needs.
  absl::Status MeasureStacks() {
    const size_t count = functions_.size();
    std::vector<std::vector<uint32_t>> callees(count);
    std::vector<uint32_t> callers(count, 0);
    for (const CallSite& site : code_.calls) {
      callees[site.caller].push_back(site.function);
      ++callers[site.function];
    }
    // Visits them in topological order; the functions that are left over call themselves.
    std::vector<uint32_t> ready;
    std::vector<uint64_t> registers(count, 0), locals(count, 0);
    std::vector<uint32_t> depth(count, 0);
    if (callers[0] == 0) ready.push_back(0);
    for (uint32_t i = 1; i < count; ++i) {
      if (callers[i] == 0) ready.push_back(i);
    }
    size_t done = 0;
    uint64_t max_registers = 0, max_locals = 0;
    uint32_t max_depth = 0;
    for (; done < ready.size(); ++done) {
      const uint32_t f = ready[done];
      registers[f] += code_.functions[f].frame_bytes;
      locals[f] += code_.functions[f].local_bytes;
      max_registers = std::max(max_registers, registers[f]);
      max_locals = std::max(max_locals, locals[f]);
      max_depth = std::max(max_depth, depth[f]);
      for (const uint32_t callee : callees[f]) {
        registers[callee] = std::max(registers[callee], registers[f]);
        locals[callee] = std::max(locals[callee], locals[f]);
        depth[callee] = std::max(depth[callee], depth[f] + 1);
        if (--callers[callee] == 0) ready.push_back(callee);
      }
    }
    if (done < count) {
      code_.recursive = true;
      max_depth = kRecursionDepth;
      uint64_t frame = 0, local = 0;
      for (const FunctionCode& function : code_.functions) {
        frame = std::max<uint64_t>(frame, function.frame_bytes);
        local = std::max<uint64_t>(local, function.local_bytes);
      }
      max_registers = std::min(frame * kRecursionDepth, kMaxRegisterStack);
      max_locals = std::min(local * kRecursionDepth, kMaxLocalStack);
    }
    if (max_registers > kMaxRegisterStack || max_locals > kMaxLocalStack) {
      return absl::UnimplementedError("calls need too much memory");
    }
    code_.register_bytes = static_cast<uint32_t>(max_registers);
    code_.local_bytes = static_cast<uint32_t>(max_locals);
    code_.max_depth = max_depth;
    return absl::OkStatus();
  }

  const ptx::Function& kernel_;
  KernelContext context_;
  KernelCode code_;
  std::vector<const ptx::Function*> functions_;
  std::unordered_set<std::string> names_;
  bool calls_indirectly_ = false;
};

}  // namespace

absl::StatusOr<KernelCode> Lower(const ModuleSymbols& symbols, const ptx::Function& kernel) {
  return KernelLowering(symbols, kernel).Run();
}

}  // namespace warpline::cpu
