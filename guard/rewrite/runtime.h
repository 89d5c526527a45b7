// What guarded kernels have in place of the driver's functions for printf and assert, and of traps,
// and what checks their accesses: functions that write a record where the server finds it.
//
// They are PTX like the tenant's, and are rewritten with it: they can do no more than the tenant.
// So a record is the tenant's word, like everything in its arena.
#ifndef WARPLINE_GUARD_REWRITE_RUNTIME_H_
#define WARPLINE_GUARD_REWRITE_RUNTIME_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ptx/ast.h"

namespace warpline::guard {

// Begins the names of the runtime's functions and of its constant.
inline constexpr std::string_view kRuntimePrefix = "$guard_";
// Stands for the guard's words, at the start of the constants.
inline constexpr std::string_view kWordsVariable = "$guard_words";
// Called with the number of the line before a thread ends that would have trapped.
inline constexpr std::string_view kTrapFunction = "$guard_trap";
// Called with the number of the line, and of the levels that there are, before a thread ends that
// would have called itself once more than there are levels (recursion.h).
inline constexpr std::string_view kTooDeepFunction = "$guard_too_deep";
// Called before an access that is checked (checks.h), with its address, the number of its site, its
// bytes and its space.
inline constexpr std::string_view kCheckFunction = "$guard_check";
enum class CheckSpace : uint32_t { kGeneric = 0, kGlobal = 1, kShared = 2 };

// The function in place of one of the driver's; empty for another name.
std::string_view RuntimeFunctionFor(std::string_view name);

// All of them.
const std::vector<ptx::Function>& RuntimeFunctions();

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_RUNTIME_H_
