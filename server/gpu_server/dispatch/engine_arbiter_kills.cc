// Work of best-effort slices that is in the way of more urgent ones.
#include <algorithm>

#include "server/gpu_server/dispatch/engine_arbiter.h"

namespace warpline::dispatch {

// No work is in the way of a contender that waits because the policy wants it.
const Contender* EngineArbiter::MoreUrgentThan(const Contender& c) const {
  const Contender* most = nullptr;
  for (const auto& other : contenders_) {
    if (!Counts(*other) || Together(*other, c)) continue;
    if (other->terms_.priority <= c.terms_.priority) continue;
    if (std::max(other->held_until_ns_, all_held_until_ns_) > now_ns_) continue;
    const bool is_more = most == nullptr || other->terms_.priority > most->terms_.priority ||
                         (other->terms_.priority == most->terms_.priority &&
                          other->stalled_since_ns_ < most->stalled_since_ns_);
    if (is_more) most = other.get();
  }
  return most;
}

// Short kernels that follow each other end, and turns do the rest.
KillVerdict EngineArbiter::InWay(const Contender& c) const {
  if (c.working_since_ns_ == 0) return {};
  const Contender* const urgent = MoreUrgentThan(c);
  if (urgent == nullptr) return {};
  const int64_t since_ns =
      std::max({urgent->stalled_since_ns_, c.stalled_since_ns_, c.working_since_ns_});
  return {urgent->terms_.vgpu, now_ns_ - since_ns};
}

void EngineArbiter::AskAboutOverruns() {
  for (const auto& c : contenders_) {
    if (c.get() == holder_ || !c->terms_.best_effort || !c->wants_.in_flight) continue;
    const KillVerdict in_way = InWay(*c);
    if (in_way.in_way_ns < kLeastInWayNs) continue;
    policy::PreemptContext context;
    context.head = HeadOf(*c);
    context.elapsed_ns = static_cast<uint64_t>(now_ns_ - c->working_since_ns_);
    context.priority = c->terms_.priority;
    context.waiting_priority = MoreUrgentThan(*c)->terms_.priority;
    context.level = 2;
    context.device = options_.device;
    context.engine = options_.engine;
    FillInWay(/*best_effort=*/true, in_way.in_way_ns, &context);
    if (Kills(context, policy_->OnPreempt(context).action)) c->kill_ = in_way;
  }
}

}  // namespace warpline::dispatch
