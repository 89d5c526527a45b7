// What a slice was promised of an engine, and how what it does there runs.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_CONTENDER_TERMS_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_CONTENDER_TERMS_H_

#include <cstdint>
#include <string>

namespace warpline::dispatch {

struct ContenderTerms {
  uint64_t tenant = 0;   // As ContextHead of policy/policy.h has it.
  uint32_t vgpu = 0;     // Likewise.
  uint32_t weight = 1;   // From 1 on.
  int32_t priority = 0;  // Higher ones first, for policies that ask.
  // Slices of the same domain run at once: their sessions are in one hardware context, or in
  // several that the driver runs together. 0 for a slice that runs alone.
  uint64_t domain = 0;
  // It is to have so much time in each period, for policies that ask; 0 and 0 for no reservation.
  int64_t period_ns = 0;
  int64_t budget_ns = 0;
  bool best_effort = false;  // Its work may be ended for more urgent work.
  // Contenders that name the same account have its weight and its reservation together, whatever
  // their domains. Empty for one of its own.
  std::string account = {};
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_CONTENDER_TERMS_H_
