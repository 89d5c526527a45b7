// What a contender may still use of an engine by its reservation: so much time in each period.
//
// After TimeGraph's posterior enforcement (Kato et al., USENIX ATC 2011): what is used is charged
// when it has been used, so that the account may become negative, since a kernel cannot be stopped;
// that is owed in the next periods. Each period adds a budget, and an account has one at most. What
// is used while nobody else wants the engine is not charged, nor is what a contender beyond its
// budget was given like any other. A period begins when the contender comes after the former one is
// over, and otherwise where that one ends. Who comes within a period and has more left than it
// could have kept by using its budget evenly begins a new one, so that no two budgets are used one
// right after the other (the constant bandwidth server of Abeni and Buttazzo, RTSS 1998).
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_RESERVATION_ACCOUNT_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_RESERVATION_ACCOUNT_H_

#include <algorithm>
#include <cstdint>

namespace warpline::dispatch {

// Thread-compatible. Its clock is what See() is told, which does not go backwards.
class ReservationAccount {
 public:
  // A budget is less than its period, and that at most three seconds. 0 and 0 for no reservation.
  ReservationAccount(int64_t period_ns, int64_t budget_ns)
      : period_ns_(budget_ns == 0 ? 0 : period_ns), budget_ns_(budget_ns), left_ns_(budget_ns) {}

  // Whether the contender wants the engine. At each look, before anything is charged.
  void See(bool wants, int64_t now_ns) {
    if (budget_ns_ == 0) return;
    if (ends_ns_ != 0 && now_ns >= ends_ns_) Replenish(now_ns);
    if (wants && !wanted_ && (ends_ns_ == 0 || HasMoreThanItsPart(now_ns))) {
      ends_ns_ = now_ns + period_ns_;
      left_ns_ = budget_ns_;
    }
    wanted_ = wants;
  }
  // It is given a turn, or another one right after the last.
  void BeginTurn() { reserved_turn_ = within_budget(); }
  // It has used so much while others wanted the engine.
  void Charge(int64_t used_ns) {
    if (reserved_turn_ || within_budget()) left_ns_ = std::max(left_ns_ - used_ns, -kMostDebtNs);
  }

  int64_t period_ns() const { return period_ns_; }
  int64_t budget_ns() const { return budget_ns_; }
  int64_t left_ns() const { return left_ns_; }
  // When the period is over, by which what it wants is to be done; 0 for none.
  int64_t deadline_ns() const { return ends_ns_; }
  // Whether it goes before those that have no reservation.
  bool within_budget() const { return left_ns_ > 0; }
  // The same at a time that may be in the next period, if it uses nothing until then.
  bool WithinBudgetAt(int64_t at_ns) const {
    if (within_budget() || ends_ns_ == 0 || at_ns < ends_ns_) return within_budget();
    return left_ns_ + ((at_ns - ends_ns_) / period_ns_ + 1) * budget_ns_ > 0;
  }
  // Whether the turn that it has, or had last, was given within its budget.
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
  int64_t ends_ns_ = 0;  // Of the period; 0 before the first, and at rest with a whole budget.
  bool wanted_ = false;  // At the last look.
  bool reserved_turn_ = false;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_RESERVATION_ACCOUNT_H_
