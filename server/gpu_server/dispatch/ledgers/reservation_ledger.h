// The ledger of a reservation: a contender's budget of time on an engine in each period.
//
// This follows TimeGraph's posterior enforcement (Kato et al., USENIX ATC 2011). Time is charged
// after it has been used, and a kernel cannot be stopped, so the ledger may become negative. The
// next periods pay that debt. Each period adds a budget, and a ledger holds at most one. Time is
// not charged while no other contender wants the engine. It is not charged either in turns that the
// contender gets beyond its budget, as any contender does.
//
// A period begins when the last one ends, or when the contender comes after that. A contender may
// also come within a period with more left than an even use of its budget would have left. Then it
// begins a new period, so that two budgets are never used right after each other (the constant
// bandwidth server of Abeni and Buttazzo, RTSS 1998).
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_RESERVATION_LEDGER_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_RESERVATION_LEDGER_H_

#include <algorithm>
#include <cstdint>

namespace warpline::dispatch {

// Thread-compatible. Its time is the one that See() is given, which must not go backwards.
class ReservationLedger {
 public:
  // REQUIRES: the budget is less than the period, and the period at most three seconds. Both are 0
  // for no reservation.
  ReservationLedger(int64_t period_ns, int64_t budget_ns)
      : period_ns_(budget_ns == 0 ? 0 : period_ns), budget_ns_(budget_ns), left_ns_(budget_ns) {}

  // Notes whether the contender wants the engine. Called at each look, before Charge().
  void See(bool wants, int64_t now_ns) {
    if (budget_ns_ == 0) return;
    if (ends_ns_ != 0 && now_ns >= ends_ns_) Replenish(now_ns);
    if (wants && !wanted_ && (ends_ns_ == 0 || HasMoreThanItsPart(now_ns))) {
      ends_ns_ = now_ns + period_ns_;
      left_ns_ = budget_ns_;
    }
    wanted_ = wants;
  }
  // Says that the contender gets a turn, or another quantum of its turn.
  void BeginTurn() { reserved_turn_ = within_budget(); }
  // Charges time that the contender used while others wanted the engine.
  void Charge(int64_t used_ns) {
    if (reserved_turn_ || within_budget()) left_ns_ = std::max(left_ns_ - used_ns, -kMostDebtNs);
  }

  int64_t period_ns() const { return period_ns_; }
  int64_t budget_ns() const { return budget_ns_; }
  int64_t left_ns() const { return left_ns_; }
  // The end of the period, by which the contender's work should be done; 0 for none.
  int64_t deadline_ns() const { return ends_ns_; }
  // True if it has a budget left, and so goes before contenders without a reservation.
  bool within_budget() const { return left_ns_ > 0; }
  // Returns within_budget() for a later time, which may be in another period, if the contender uses
  // nothing until then.
  bool WithinBudgetAt(int64_t at_ns) const {
    if (within_budget() || ends_ns_ == 0 || at_ns < ends_ns_) return within_budget();
    return left_ns_ + ((at_ns - ends_ns_) / period_ns_ + 1) * budget_ns_ > 0;
  }
  // True if its current or last turn was given within its budget.
  bool reserved_turn() const { return reserved_turn_; }

 private:
  static constexpr int64_t kMostDebtNs = 1'000'000'000;

  void Replenish(int64_t now_ns) {
    const int64_t periods = (now_ns - ends_ns_) / period_ns_ + 1;
    const bool follows = wanted_ || left_ns_ < budget_ns_;
    left_ns_ = std::min(left_ns_ + periods * budget_ns_, budget_ns_);
    ends_ns_ = follows ? ends_ns_ + periods * period_ns_ : 0;
  }
  bool HasMoreThanItsPart(int64_t now_ns) const {
    return left_ns_ > 0 && left_ns_ * period_ns_ > (ends_ns_ - now_ns) * budget_ns_;
  }

  const int64_t period_ns_;
  const int64_t budget_ns_;
  int64_t left_ns_;
  int64_t ends_ns_ = 0;  // End of the period; 0 before the first, and at rest with a whole budget.
  bool wanted_ = false;  // It wanted the engine at the last look.
  bool reserved_turn_ = false;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_RESERVATION_LEDGER_H_
