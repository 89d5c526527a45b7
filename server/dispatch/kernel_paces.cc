#include "server/dispatch/kernel_paces.h"

#include <algorithm>

namespace warpline::dispatch {

void KernelPaces::Note(absl::Span<const PacedSlice> slices, int64_t now_ns) {
  for (auto& [vgpu, known] : known_) known.seen = false;
  for (const PacedSlice& slice : slices) {
    Known& known = known_[slice.vgpu];
    known.seen = true;
    if (!slice.at_work) {
      known.since_ns = 0;
      continue;
    }
    if (known.since_ns == 0) known.since_ns = now_ns;
    known.last_ns = now_ns;
  }
  std::erase_if(known_, [](const auto& entry) { return !entry.second.seen; });
}

void KernelPaces::Look(absl::Span<PacedSlice> slices, int64_t now_ns, policy::Policy* policy) {
  Note(slices, now_ns);
  for (PacedSlice& slice : slices) {
    slice.nap_us = 0;
    if (!slice.at_work) continue;
    policy::PreemptContext context;
    int64_t urgent_ns = 0;  // When the most urgent one was last at work.
    for (const PacedSlice& other : slices) {
      const int64_t last_ns = known_[other.vgpu].last_ns;
      if (other.priority <= slice.priority || last_ns == 0 || now_ns - last_ns > kLingerNs)
        continue;
      if (urgent_ns != 0 && other.priority < context.waiting_priority) continue;
      urgent_ns =
          other.priority == context.waiting_priority ? std::max(urgent_ns, last_ns) : last_ns;
      context.waiting_priority = other.priority;
    }
    if (urgent_ns == 0) continue;
    context.head.vgpu = slice.vgpu;
    context.head.tenant = slice.tenant;
    context.head.now_ns = static_cast<uint64_t>(now_ns);
    context.elapsed_ns = static_cast<uint64_t>(now_ns - known_[slice.vgpu].since_ns);
    context.waiting_ns = static_cast<uint64_t>(now_ns - urgent_ns);
    context.priority = slice.priority;
    context.level = 2;
    const policy::Verdict verdict = policy->OnPreempt(context);
    if (verdict.action != policy::Action::kThrottle) continue;
    slice.nap_us = std::min(verdict.argument, kLongestNapUs);
  }
}

}  // namespace warpline::dispatch
