#include "server/gpu_server/dispatch/kernel_paces.h"

#include <algorithm>

namespace warpline::dispatch {

void KernelPaces::Note(absl::Span<const PacedSlice> slices, int64_t now_ns) {
  for (auto& [vgpu, known] : known_) known.seen = false;
  for (const PacedSlice& slice : slices) {
    Known& known = known_[slice.vgpu];
    known.seen = true;
    if (!slice.at_work && !slice.loading) {
      known.stalled_since_ns = 0;
    } else if (known.stalled_since_ns == 0 || slice.progressed) {
      known.stalled_since_ns = now_ns;
    }
    if (!slice.at_work) {
      known.since_ns = 0;
      continue;
    }
    if (known.since_ns == 0) known.since_ns = now_ns;
    known.last_ns = now_ns;
  }
  std::erase_if(known_, [](const auto& entry) { return !entry.second.seen; });
}

bool KernelPaces::IsPresent(const PacedSlice& slice, int64_t now_ns) const {
  const int64_t last_ns = LastWork(slice);
  return slice.loading || (last_ns != 0 && now_ns - last_ns <= kLingerNs);
}

const PacedSlice* KernelPaces::MostUrgent(absl::Span<const PacedSlice> slices, int32_t above,
                                          int64_t now_ns) const {
  const PacedSlice* most = nullptr;
  for (const PacedSlice& slice : slices) {
    if (slice.priority <= above || !IsPresent(slice, now_ns)) continue;
    const bool is_more = most == nullptr || slice.priority > most->priority ||
                         (slice.priority == most->priority && LastWork(slice) > LastWork(*most));
    if (is_more) most = &slice;
  }
  return most;
}

int64_t KernelPaces::InWayNs(const PacedSlice& slice, const PacedSlice& urgent,
                             int64_t now_ns) const {
  const int64_t stalled_since_ns = known_.at(urgent.vgpu).stalled_since_ns;
  if (stalled_since_ns == 0) return 0;
  const Known& known = known_.at(slice.vgpu);
  return now_ns - std::max({stalled_since_ns, known.stalled_since_ns, known.since_ns});
}

void KernelPaces::Look(absl::Span<PacedSlice> slices, int64_t now_ns, policy::Policy* policy) {
  Note(slices, now_ns);
  for (PacedSlice& slice : slices) {
    slice.nap_us = 0;
    slice.held_for = 0;
    slice.kill.reset();
    Known& known = known_.at(slice.vgpu);
    if (!slice.at_work && !slice.waiting) {
      if (now_ns < known.held_until_ns) slice.held_for = known.held_for;
      continue;
    }
    known.held_until_ns = 0;
    const PacedSlice* const urgent = MostUrgent(slices, slice.priority, now_ns);
    if (urgent == nullptr) continue;
    policy::PreemptContext context;
    context.head.vgpu = slice.vgpu;
    context.head.tenant = slice.tenant;
    context.head.now_ns = static_cast<uint64_t>(now_ns);
    if (slice.at_work) {
      context.elapsed_ns = static_cast<uint64_t>(now_ns - known.since_ns);
    }
    context.waiting_ns = urgent->loading ? 0 : static_cast<uint64_t>(now_ns - LastWork(*urgent));
    context.priority = slice.priority;
    context.waiting_priority = urgent->priority;
    context.level = 2;
    context.device = device_;
    context.waiting_vgpu = urgent->vgpu;
    context.waiting_busy_ns = urgent->busy_ns;
    context.waiting_commands = urgent->commands;
    const int64_t in_way_ns = slice.at_work ? InWayNs(slice, *urgent, now_ns) : 0;
    FillInWay(slice.best_effort, in_way_ns, &context);
    const policy::Verdict verdict = policy->OnPreempt(context);
    if (Kills(context, verdict.action)) slice.kill = KillVerdict{urgent->vgpu, in_way_ns};
    if (verdict.action == policy::Action::kHold) {
      const int64_t hold_ns = verdict.argument * int64_t{1000};
      known.held_until_ns = now_ns + std::min(hold_ns, kLongestHoldNs);
      known.held_for = urgent->vgpu;
      slice.held_for = urgent->vgpu;
    }
    // A slice that waits for the end of a kernel would wait for longer.
    if (urgent->loading) continue;
    if (verdict.action == policy::Action::kThrottle) {
      slice.nap_us = std::min(verdict.argument, kLongestNapUs);
    } else if (verdict.action == policy::Action::kHold) {
      slice.nap_us = kLongestNapUs;
    }
  }
}

}  // namespace warpline::dispatch
