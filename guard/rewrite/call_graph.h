// Which functions of a module call which, and where each one's locals lie in the block that a
// kernel has for all of them.
#ifndef WARPLINE_GUARD_REWRITE_CALL_GRAPH_H_
#define WARPLINE_GUARD_REWRITE_CALL_GRAPH_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "guard/rewrite/flatten.h"

namespace warpline::guard {

// The functions by name. Thread-compatible.
using FunctionsByName = std::map<std::string, FlatFunction>;

// The names that a function calls, each once; also those that are not in the module.
std::vector<std::string> CalleesOf(const FlatFunction& function);

struct CallGraph {
  // For each function that a kernel reaches: where its locals begin. Callers' come before those of
  // whom they call, so that no two that are active at the same time share any.
  std::map<std::string, uint64_t> local_offsets;
  // The functions that may call themselves, directly or by way of others, or that call such a one.
  std::map<std::string, std::string> recursive;  // With a function of the circle
  // What a kernel needs for the locals of all; a multiple of 16.
  uint64_t local_bytes = 0;
  std::vector<std::string> order;  // All but the recursive ones, each before whom it calls
  // Those that may reach shared memory, themselves or by whom they call.
  std::unordered_set<std::string> use_shared;
};

CallGraph FindCalls(const FunctionsByName& functions);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_CALL_GRAPH_H_
