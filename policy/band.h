// BAND, the bandwidth-aware non-preemptive device scheduler of Gdev (Kato et al., USENIX ATC 2012),
// which is the default.
//
// Each slice has a credit, which grows by its share of what is used and shrinks by what it uses. A
// slice steps back only when both its credit is used up and its measured share is above the one
// that it was promised; Xen's credit scheduler, which looks at the credit alone, is unfair to
// whoever runs short kernels. What differs from the original:
//
//   - Of those that need not step back, the one with the most credit goes first, and not the first
//     in a list: shares are then right within a turn and not within a second.
//   - Shares are weights among those that are active, so that nothing is left idle.
//   - The short wait in which a slice with short kernels brings its next one is a timer of the
//     arbiter's (server/gpu_server/dispatch/engine_arbiter.h) and not a loop, and nobody waits
//     alone.
//   - Who has had less than half of its share, and comes while another runs, need not wait for the
//     end of that one's turn.
#ifndef WARPLINE_POLICY_BAND_H_
#define WARPLINE_POLICY_BAND_H_

#include "policy/policy.h"

namespace warpline::policy {

class Band : public Policy {
 public:
  std::string_view name() const override { return "band"; }
  Verdict OnDispatch(const DispatchContext& context) override;
  Verdict OnPreempt(const PreemptContext& context) override;
};

// The score of a credit: most credit first.
uint32_t ScoreOfCredit(int64_t credit_ns);

}  // namespace warpline::policy

#endif  // WARPLINE_POLICY_BAND_H_
