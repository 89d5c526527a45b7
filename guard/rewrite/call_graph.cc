#include "guard/rewrite/call_graph.h"

#include <algorithm>
#include <set>
#include <variant>

#include "guard/rewrite/families.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/runtime.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

bool AnyMayUseShared(const FlatFunction& function) {
  return std::any_of(function.code.begin(), function.code.end(), [](const auto& statement) {
    const auto* const instruction = std::get_if<ptx::Instruction>(&statement.node);
    return instruction != nullptr && MayUseShared(*instruction);
  });
}

}  // namespace

std::vector<std::string> CalleesOf(const FlatFunction& function) {
  std::set<std::string> callees;
  for (const ptx::Statement& statement : function.code) {
    const auto* const call = std::get_if<ptx::Instruction>(&statement.node);
    if (call == nullptr) continue;
    if (call->opcode == "trap" || call->opcode == "brkpt") {
      callees.insert(std::string(kTrapFunction));
    }
    if (call->opcode != "call") continue;
    for (const ptx::Operand& operand : call->operands) {
      if (operand.kind != ptx::Operand::Kind::kName) continue;
      callees.insert(operand.name);
      break;
    }
  }
  return {callees.begin(), callees.end()};
}

CallGraph FindCalls(const FunctionsByName& functions) {
  CallGraph graph;
  std::map<std::string, std::vector<std::string>> callees;
  std::map<std::string, std::vector<std::string>> callers;
  std::map<std::string, size_t> open_callees;
  for (const auto& [name, function] : functions) {
    for (std::string& callee : CalleesOf(function)) {
      if (!functions.contains(callee)) continue;
      callers[callee].push_back(name);
      callees[name].push_back(std::move(callee));
    }
    open_callees[name] = callees[name].size();
  }
  // Those whose callees have all been taken come next. Who is never taken is in a circle, or calls
  // into one.
  std::vector<std::string>& order = graph.order;
  for (const auto& [name, count] : open_callees) {
    if (count == 0) order.push_back(name);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const auto uses = [&graph](const std::string& name) { return graph.use_shared.contains(name); };
    if (AnyMayUseShared(functions.at(order[i])) ||
        std::any_of(callees[order[i]].begin(), callees[order[i]].end(), uses)) {
      graph.use_shared.insert(order[i]);
    }
    for (const std::string& caller : callers[order[i]]) {
      if (--open_callees[caller] == 0) order.push_back(caller);
    }
  }
  for (const auto& [name, count] : open_callees) {
    if (count == 0) continue;
    for (const std::string& callee : callees[name]) {
      if (open_callees[callee] != 0) graph.recursive[name] = callee;
    }
  }
  std::reverse(order.begin(), order.end());
  for (const std::string& name : order) {
    const uint64_t begin = graph.local_offsets[name];
    const uint64_t end = ptx::AlignUp(begin + functions.at(name).local_bytes, kLocalAlignment);
    graph.local_bytes = std::max(graph.local_bytes, end);
    for (const std::string& callee : callees[name]) {
      uint64_t& offset = graph.local_offsets[callee];
      offset = std::max(offset, end);
    }
  }
  return graph;
}

}  // namespace warpline::guard
