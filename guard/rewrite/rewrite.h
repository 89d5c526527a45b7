// Rewrites a module's PTX so that none of its kernels reaches memory outside an arena.
//
// docs/guarded-ptx.md says what comes out, and guard/verify proves it: the rewriter is not trusted.
// What cannot be guarded is left out, by kernel, with the reason; the rest of the module is usable.
//
//   absl::StatusOr<GuardedModule> guarded = Rewrite(*ptx::Parse(text), {.arena_bits = 36});
//   if (!guarded.ok()) return guarded.status();
//   const std::string output = ptx::Print(guarded->module);
//
// Thread-safe. Its time is linear in the module.
#ifndef WARPLINE_GUARD_REWRITE_REWRITE_H_
#define WARPLINE_GUARD_REWRITE_REWRITE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "guard/rewrite/checks.h"
#include "guard/rewrite/module_layout.h"
#include "ptx/ast.h"

namespace warpline::guard {

struct RewriteOptions {
  // The arena has 2^arena_bits bytes and lies at a multiple of that: 32 to 47.
  int arena_bits = 36;
  // Kernels shall not fault either: addresses are aligned, and shared memory is clamped. Loops ask
  // whether to stop, and shared memory is zeroed first, so that nothing is read that other kernels
  // left there. The result needs a device of sm_90 or later.
  bool hardened = false;
  // Whether accesses are checked, to find mistakes (checks.h); needs a device of sm_90 or later
  // too.
  bool checks = false;
  uint32_t first_site = 0;
  // Functions that are refused whatever they are, with the reasons.
  std::map<std::string, std::string> refused = {};
};

// A kernel that is not in the guarded module.
struct Refusal {
  std::string kernel;
  std::string function;  // In which the reason lies: the kernel itself, or one that it calls
  std::string reason;    // "line 7: ..."
};

struct GuardedModule {
  ptx::Module module;
  ModuleLayout layout;
  std::vector<std::string> kernels;  // Those that are in the module
  bool leaves_records = false;       // Some of them may write records (guard/records.h).
  std::vector<Refusal> refusals;
  std::vector<CheckSite> sites;  // Numbered from RewriteOptions::first_site on
};

// INVALID_ARGUMENT for a module of which nothing can be guarded: it has 32-bit addresses, names
// that the guard reserves, or too many variables.
absl::StatusOr<GuardedModule> Rewrite(const ptx::Module& module, const RewriteOptions& options);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_REWRITE_H_
