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

const PacedSlice* KernelPaces::MostUrgent(absl::Span<const PacedSlice> slices, int32_t above,
                                          int64_t now_ns) const {
  const PacedSlice* most = nullptr;
  for (const PacedSlice& slice : slices) {
    const int64_t last_ns = LastWork(slice);
    if (slice.priority <= above || last_ns == 0 || now_ns - last_ns > kLingerNs) continue;
    const bool is_more = most == nullptr || slice.priority > most->priority ||
                         (slice.priority == most->priority && last_ns > LastWork(*most));
    if (is_more) most = &slice;
  }
  return most;
}

void KernelPaces::Look(absl::Span<PacedSlice> slices, int64_t now_ns, policy::Policy* policy) {
  Note(slices, now_ns);
  for (PacedSlice& slice : slices) {
    slice.nap_us = 0;
    const PacedSlice* const urgent =
        slice.at_work ? MostUrgent(slices, slice.priority, now_ns) : nullptr;
    if (urgent == nullptr) continue;
    policy::PreemptContext context;
    context.head.vgpu = slice.vgpu;
    context.head.tenant = slice.tenant;
    context.head.now_ns = static_cast<uint64_t>(now_ns);
    context.elapsed_ns = static_cast<uint64_t>(now_ns - known_[slice.vgpu].since_ns);
    context.waiting_ns = static_cast<uint64_t>(now_ns - LastWork(*urgent));
    context.priority = slice.priority;
    context.waiting_priority = urgent->priority;
    context.level = 2;
    const policy::Verdict verdict = policy->OnPreempt(context);
    if (verdict.action != policy::Action::kThrottle) continue;
    slice.nap_us = std::min(verdict.argument, kLongestNapUs);
  }
}

}  // namespace warpline::dispatch
