#include "guard/rewrite/rewrite.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "guard/rewrite/barriers.h"
#include "guard/rewrite/call_graph.h"
#include "guard/rewrite/checks.h"
#include "guard/rewrite/convergence.h"
#include "guard/rewrite/early_returns.h"
#include "guard/rewrite/function_rewriter.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/loop_polls.h"
#include "guard/rewrite/recursion.h"
#include "guard/rewrite/runtime.h"
#include "guard/rewrite/warp_atomics.h"
#include "guard/rewrite/words.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

using ptx::Function;
using ptx::Variable;

// An access takes 32 bytes at most, so that each fits.
constexpr uint64_t kLeastLocalBytes = 32;

bool IsReserved(std::string_view name) {
  return name.starts_with(kReservedPrefix) || name.starts_with(kRuntimePrefix);
}

// Whether the function needs the runtime: it prints, asserts or traps.
bool NeedsRuntime(const Function& function) {
  for (const ptx::Statement& statement : function.body) {
    const auto* const instruction = std::get_if<ptx::Instruction>(&statement.node);
    if (instruction == nullptr) continue;
    if (instruction->opcode == "trap" || instruction->opcode == "brkpt") return true;
    if (instruction->opcode != "call") continue;
    for (const ptx::Operand& operand : instruction->operands) {
      if (!RuntimeFunctionFor(operand.name).empty()) return true;
    }
  }
  return false;
}

absl::Status RewriteFunction(const ModuleContext& context, const FlatFunction& function,
                             uint64_t local_offset, Function* result, bool* leaves_lines) {
  Convergence convergence(function, context.have_several_barriers->contains(function.source->name));
  do {
    FunctionRewriter rewriter(context, function, local_offset, &convergence);
    if (absl::Status status = rewriter.Rewrite(result); !status.ok()) return status;
    *leaves_lines = rewriter.leaves_lines();
  } while (!convergence.Settle());
  return absl::OkStatus();
}

bool NamesAreFree(const Function& function) {
  for (const Variable& variable : function.params) {
    if (IsReserved(variable.name)) return false;
  }
  for (const Variable& variable : function.results) {
    if (IsReserved(variable.name)) return false;
  }
  for (const ptx::Statement& statement : function.body) {
    if (const auto* const variable = std::get_if<Variable>(&statement.node);
        variable != nullptr && IsReserved(variable->name)) {
      return false;
    }
    if (const auto* const label = std::get_if<ptx::Label>(&statement.node);
        label != nullptr && IsReserved(label->name)) {
      return false;
    }
  }
  return true;
}

class ModuleRewriter {
 public:
  ModuleRewriter(const ptx::Module& module, const RewriteOptions& options)
      : module_(module), options_(options) {}

  absl::Status Run(GuardedModule* guarded) {
    if (absl::Status status = CheckModule(); !status.ok()) return status;
    absl::StatusOr<ModuleLayout> layout = PlaceVariables(module_);
    if (!layout.ok()) return layout.status();
    guarded->layout = *std::move(layout);
    layout_ = &guarded->layout;
    CollectShared();
    FlattenAll();
    DropCallersOfRefused();
    DropUnreachable();
    LimitRecursion();
    if (needs_runtime_) {
      for (const Function& function : RuntimeFunctions()) FlattenOne(function);
    }
    if (options_.hardened) NumberBarriers();
    // Who calls what is refused is refused as well, and the rest may need less local memory.
    do {
      DropCallersOfRefused();
      DropUnreachable();
      RewriteAll();
    } while (dropped_);
    Assemble(guarded);
    return absl::OkStatus();
  }

 private:
  struct Reason {
    std::string function;
    std::string text;
  };

  absl::Status CheckModule() {
    if (options_.arena_bits < 32 || options_.arena_bits > 47) {
      return absl::InvalidArgumentError("an arena has 2^32 to 2^47 bytes");
    }
    if (module_.address_size != 64) {
      return absl::InvalidArgumentError("the module has addresses of 32 bits");
    }
    for (const auto& item : module_.items) {
      const bool reserved =
          std::visit([](const auto& node) { return IsReserved(node.name); }, item);
      const auto* const function = std::get_if<Function>(&item);
      if (reserved || (function != nullptr && !NamesAreFree(*function))) {
        return absl::InvalidArgumentError(absl::StrCat("the module has a name that begins with ",
                                                       std::string(kReservedPrefix), " or ",
                                                       std::string(kRuntimePrefix)));
      }
      std::visit([this](const auto& node) { names_.insert(node.name); }, item);
    }
    return absl::OkStatus();
  }

  void CollectShared() {
    for (const auto& item : module_.items) {
      const auto* const variable = std::get_if<Variable>(&item);
      if (variable == nullptr || variable->space != "shared") continue;
      uint64_t bytes = 0;
      if (!SizeOf(*variable, &bytes) || !variable->init.empty()) continue;
      if (!shared_.emplace(variable->name, SharedVariable{bytes, ptx::VariableAlignment(*variable)})
               .second) {
        continue;
      }
      Variable copy = *variable;
      // Without a size it is the dynamic part, which is the same whatever module declares it.
      copy.linkage = bytes == 0 ? "extern" : "";
      shared_variables_.push_back(std::move(copy));
    }
  }

  void FlattenAll() {
    needs_runtime_ = options_.checks;
    for (const auto& item : module_.items) {
      const auto* const function = std::get_if<Function>(&item);
      if (function == nullptr || !function->has_body) continue;
      FlattenOne(*function);
      const auto flat = functions_.find(function->name);
      if (flat != functions_.end()) {
        if (options_.checks) {
          AddChecks(options_.first_site, &flat->second, &sites_);
        } else if (IsVersion(6, 2)) {
          AggregateAtomics(IsVersion(7, 0) && Generation() >= 80, &flat->second);
        }
      }
      needs_runtime_ = needs_runtime_ || NeedsRuntime(*function);
    }
  }

  void FlattenOne(const Function& function) {
    order_.push_back(function.name);
    if (function.is_entry) entries_.push_back(function.name);
    const auto refused = options_.refused.find(function.name);
    if (refused != options_.refused.end()) {
      return Refuse(function.name, {function.name, refused->second});
    }
    absl::StatusOr<FlatFunction> flat = Flatten(function, names_);
    if (!flat.ok()) {
      return Refuse(function.name, {function.name, std::string(flat.status().message())});
    }
    functions_[function.name] = *std::move(flat);
  }

  void LimitRecursion() {
    recursion_ = UnrollRecursion(&functions_);
    for (const auto& [name, why] : recursion_.refused) Refuse(name, {name, why});
    for (const std::string& name : recursion_.copies) {
      order_.push_back(name);
      const auto refused = options_.refused.find(name);
      if (refused != options_.refused.end()) Refuse(name, {name, refused->second});
    }
    if (!recursion_.copies.empty()) needs_runtime_ = true;
    // What is left are circles with a kernel in them, which cannot be called.
    for (const auto& [name, other] : FindCalls(functions_).recursive) {
      Refuse(name, {name, absl::StrCat("it calls '", other, "', which may call itself")});
    }
  }

  void NumberBarriers() {
    DropCallersOfRefused();
    DropUnreachable();
    const CallGraph graph = FindCalls(functions_);
    NumberedBarriers numbered = guard::NumberBarriers(graph.use_shared, &functions_);
    for (const std::string& name : numbered.refused) {
      Refuse(name, {name, "more barriers of different forms than a block has"});
    }
    have_several_barriers_ = std::move(numbered.have_several);
    for (const std::string& name : have_several_barriers_) {
      const auto found = functions_.find(name);
      // Instructions of a warp want all of its lanes, whoever has returned.
      if (found != functions_.end() && found->second.source->is_entry &&
          !NeedsWholeWarps(found->second, /*at_barriers=*/false)) {
        EndAtOnce(&found->second);
      }
    }
  }

  void Refuse(const std::string& name, Reason reason) {
    refused_[name] = std::move(reason);
    functions_.erase(name);
  }

  void DropCallersOfRefused() {
    for (bool more = true; more;) {
      more = false;
      std::map<std::string, Reason> found;
      for (const auto& [name, function] : functions_) {
        for (const std::string& callee : CalleesOf(function)) {
          if (const auto bad = refused_.find(callee); bad != refused_.end()) {
            found[name] = bad->second;
          }
        }
      }
      for (auto& [name, reason] : found) {
        Refuse(name, std::move(reason));
        more = true;
      }
    }
  }

  // Functions that no kernel calls any more: what is theirs is not needed.
  void DropUnreachable() {
    std::set<std::string> reached;
    std::vector<std::string> open;
    const auto reach = [&](const std::string& name) {
      if (functions_.contains(name) && reached.insert(name).second) open.push_back(name);
    };
    for (const std::string& name : entries_) reach(name);
    while (!open.empty()) {
      const std::string name = std::move(open.back());
      open.pop_back();
      for (const std::string& callee : CalleesOf(functions_.at(name))) reach(callee);
    }
    std::erase_if(functions_, [&](const auto& entry) { return !reached.contains(entry.first); });
  }

  void RewriteAll() {
    dropped_ = false;
    rewritten_.clear();
    leave_lines_.clear();
    const CallGraph graph = FindCalls(functions_);
    std::unordered_map<std::string, const FlatFunction*> callable;
    for (const auto& [name, function] : functions_) {
      if (!function.source->is_entry) callable[name] = &function;
    }
    ModuleContext context;
    context.options = &options_;
    context.layout = layout_;
    context.shared = &shared_;
    context.functions = &callable;
    context.local_bytes =
        graph.local_bytes == 0 ? 0 : std::max(graph.local_bytes, kLeastLocalBytes);
    context.use_shared = &graph.use_shared;
    context.have_several_barriers = &have_several_barriers_;
    std::map<std::string, Reason> found;
    for (const auto& [name, function] : functions_) {
      absl::Status status = absl::InvalidArgumentError("it needs too much local memory");
      if (context.local_bytes <= kMostLocalBytes) {
        bool leaves_lines = false;
        status = RewriteFunction(context, function, graph.local_offsets.at(name), &rewritten_[name],
                                 &leaves_lines);
        if (leaves_lines) leave_lines_.insert(name);
      }
      if (!status.ok()) found[name] = {name, std::string(status.message())};
    }
    if (options_.hardened && found.empty()) {
      for (const std::string& name : SetPollPeriods(graph.order, &rewritten_)) {
        found[name] = {name, "it calls so many functions that it may not be stopped in time"};
      }
    }
    for (auto& [name, reason] : found) {
      Refuse(name, std::move(reason));
      dropped_ = true;
    }
  }

  void Assemble(GuardedModule* guarded) {
    ptx::Module& out = guarded->module;
    out.version_major = module_.version_major;
    out.version_minor = module_.version_minor;
    // Without the tables that debugging needs.
    for (const std::string& target : module_.targets) {
      if (target.starts_with("sm_")) out.targets.push_back(target);
    }
    if ((options_.hardened || options_.checks) && !out.targets.empty()) RaiseTarget(&out);
    out.address_size = 64;
    out.items.push_back(Constants());
    for (Variable& variable : shared_variables_) out.items.push_back(std::move(variable));
    // Each before it may be called.
    for (const std::string& name : order_) {
      const auto found = rewritten_.find(name);
      if (found == rewritten_.end() || found->second.is_entry) continue;
      Function prototype = found->second;
      prototype.has_body = false;
      prototype.body.clear();
      prototype.directives.clear();
      out.items.push_back(std::move(prototype));
    }
    for (const std::string& name : order_) {
      const auto found = rewritten_.find(name);
      if (found == rewritten_.end()) continue;
      if (name.starts_with(kRuntimePrefix) || leave_lines_.contains(name)) {
        guarded->leaves_records = true;
      }
      out.items.push_back(std::move(found->second));
      rewritten_.erase(found);
    }
    guarded->sites = std::move(sites_);
    for (const std::string& name : entries_) {
      if (const auto bad = refused_.find(name); bad != refused_.end()) {
        guarded->refusals.push_back({name, bad->second.function, bad->second.text});
      } else {
        guarded->kernels.push_back(name);
      }
    }
  }

  // 90 for "sm_90a"; 0 for what is no such name.
  static int GenerationOf(std::string_view target) {
    constexpr std::string_view kPrefix = "sm_";
    if (!target.starts_with(kPrefix)) return 0;
    target.remove_prefix(kPrefix.size());
    target = target.substr(0, target.find_first_not_of("0123456789"));
    int generation = 0;
    return absl::SimpleAtoi(std::string(target), &generation) ? generation : 0;
  }

  // Of the module.
  int Generation() const {
    for (const std::string& target : module_.targets) {
      if (target.starts_with("sm_")) return GenerationOf(target);
    }
    return 0;
  }

  bool IsVersion(int major, int minor) const {
    return module_.version_major > major ||
           (module_.version_major == major && module_.version_minor >= minor);
  }

  // The register that tells how much shared memory a block has came with PTX 8.1 and sm_90.
  static void RaiseTarget(ptx::Module* out) {
    if (GenerationOf(out->targets.front()) < 90) out->targets.front() = "sm_90";
    if (out->version_major < 8 || (out->version_major == 8 && out->version_minor < 1)) {
      out->version_major = 8;
      out->version_minor = 1;
    }
  }

  Variable Constants() const {
    Variable constants;
    constants.space = "const";
    constants.type = "b8";
    constants.name = kConstVariable;
    constants.alignment = kVariableAlignment;
    constants.is_array = true;
    const std::string& image = layout_->consts_image;
    constants.element_count = image.size();
    // The rest is zero.
    const size_t end = std::max(image.find_last_not_of('\0') + 1, size_t{1});
    for (size_t i = 0; i < end; ++i) {
      ptx::InitElement element;
      element.bits = static_cast<uint8_t>(image[i]);
      constants.init.push_back(element);
    }
    return constants;
  }

  const ptx::Module& module_;
  const RewriteOptions options_;
  const ModuleLayout* layout_ = nullptr;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, SharedVariable> shared_;
  std::vector<Variable> shared_variables_;
  std::vector<std::string> order_;    // Functions with a body, as they stand in the module
  std::vector<std::string> entries_;  // The same of kernels
  FunctionsByName functions_;         // Those that are not refused
  std::map<std::string, Reason> refused_;
  std::map<std::string, Function> rewritten_;
  std::unordered_set<std::string> leave_lines_;  // Of these, where a warp was not whole
  std::vector<CheckSite> sites_;
  Unrolled recursion_;
  std::unordered_set<std::string> have_several_barriers_;
  bool needs_runtime_ = false;
  bool dropped_ = false;
};

}  // namespace

absl::StatusOr<GuardedModule> Rewrite(const ptx::Module& module, const RewriteOptions& options) {
  GuardedModule guarded;
  const absl::Status status = ModuleRewriter(module, options).Run(&guarded);
  if (!status.ok()) return status;
  return guarded;
}

}  // namespace warpline::guard
