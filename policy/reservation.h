// Reservations, after TimeGraph (Kato et al., USENIX ATC 2011): a slice may have so much time of an
// engine in each period, and its work is to be done by the period's end.
//
// While a slice is within its budget it goes before all that have no reservation, and does not wait
// for the end of another's turn. Among several such slices, the one whose period ends first goes
// first (Liu and Layland, JACM 1973). Once its budget is used up it is as any other, by weight
// (BAND), until its period is over. A turn for its reservation may exceed the budget, because its
// kernels cannot be stopped. The slice owes that excess: posterior enforcement. The arbiter keeps
// the ledgers (server/gpu_server/dispatch/ledgers/reservation_ledger.h).
//
// It gives to all what it was promised, and does not starve anybody, where budgets over periods are
// together less than one. Schedulers place leases so (docs/slices.md).
#ifndef WARPLINE_POLICY_RESERVATION_H_
#define WARPLINE_POLICY_RESERVATION_H_

#include "policy/band.h"
#include "policy/policy.h"

namespace warpline::policy {

class Reservation : public Policy {
 public:
  std::string_view name() const override { return "reservation"; }
  // Whoever comes regularly is to find little in flight.
  Wishes wishes() const override { return {.expects = true}; }
  Verdict OnDispatch(const DispatchContext& context) override;
  Verdict OnPreempt(const PreemptContext& context) override;

 private:
  Band band_;
};

}  // namespace warpline::policy

#endif  // WARPLINE_POLICY_RESERVATION_H_
