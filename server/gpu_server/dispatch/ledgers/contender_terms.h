// The promises made to a slice for an engine, and the way its work runs there.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_CONTENDER_TERMS_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_CONTENDER_TERMS_H_

#include <cstdint>
#include <string>

namespace warpline::dispatch {

struct ContenderTerms {
  uint64_t tenant = 0;   // ContextHead::tenant of policy/policy.h.
  uint32_t vgpu = 0;     // ContextHead::vgpu, likewise.
  uint32_t weight = 1;   // At least 1.
  int32_t priority = 0;  // Higher ones first, for policies that ask.
  // Slices of the same domain run at once: their sessions are in one hardware context, or in
  // several that the driver runs together. 0 for a slice that runs alone.
  uint64_t domain = 0;
  // The reservation, for policies that ask: `budget_ns` in each period. Both are 0 for none.
  int64_t period_ns = 0;
  int64_t budget_ns = 0;
  bool best_effort = false;  // Its work may be ended for more urgent work.
  // Contenders of the same ledger share its weight and its reservation, whatever their domains.
  // Empty for a ledger of its own.
  std::string ledger = {};
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_CONTENDER_TERMS_H_
