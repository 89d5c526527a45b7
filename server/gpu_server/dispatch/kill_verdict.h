// The verdict that work of a best-effort slice is ended for more urgent work, and the conditions
// for it. This is REEF's reset of best-effort kernels (Han et al., OSDI 2022). REEF kills kernels
// that are idempotent, and restarts them. A tenant's kernels are not known to be idempotent, so
// their session ends with an error, and only slices that were made best effort are ended at all.
//
// A policy advises: PreemptContext::killable says whether the server would heed it.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_KILL_VERDICT_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_KILL_VERDICT_H_

#include <cstdint>
#include <string>

#include "policy/policy.h"

namespace warpline::dispatch {

// Work that is in the way for less than this is never ended: most of it drains by itself.
inline constexpr int64_t kLeastInWayNs = 500'000;

// The policy's verdict to end a slice's work.
struct KillVerdict {
  uint32_t urgent = 0;    // ContextHead::vgpu of the more urgent slice.
  int64_t in_way_ns = 0;  // Time for which it was in that slice's way.
};

// The order that sessions receive which end by such a verdict.
struct KillOrder {
  std::string policy;  // The policy's name.
  int gpu = 0;         // The device's ordinal.
  std::string urgent;  // DispatchTerms::tenant of the more urgent slice.
  int64_t in_way_ns = 0;
};

// Sets in `context` how long a slice's work has been in the way of a more urgent slice, and whether
// a verdict to end it is heeded.
inline void FillInWay(bool best_effort, int64_t in_way_ns, policy::PreemptContext* context) {
  context->in_way_ns = static_cast<uint64_t>(in_way_ns);
  context->killable = best_effort && in_way_ns >= kLeastInWayNs ? 1 : 0;
}

// Returns whether the policy's answer on this context ends the slice's work.
inline bool Kills(const policy::PreemptContext& context, policy::Action action) {
  return action == policy::Action::kKill && context.killable != 0;
}

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_KILL_VERDICT_H_
