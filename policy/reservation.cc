#include "policy/reservation.h"

#include <algorithm>
#include <limits>

namespace warpline::policy {
namespace {

constexpr uint32_t kMostScore = std::numeric_limits<uint32_t>::max();

}  // namespace

// Reservations have the upper half of all scores, and weights the lower one.
Verdict Reservation::OnDispatch(const DispatchContext& context) {
  if (context.budget_left_ns <= 0) {
    Verdict verdict = band_.OnDispatch(context);
    if (verdict.action == Action::kScore) verdict.argument /= 2;
    return verdict;
  }
  const uint64_t now_ns = context.head.now_ns;
  const uint64_t left_us = context.deadline_ns > now_ns ? (context.deadline_ns - now_ns) / 1000 : 0;
  return Verdict::Score(kMostScore -
                        static_cast<uint32_t>(std::min<uint64_t>(left_us, kMostScore / 2)));
}

Verdict Reservation::OnPreempt(const PreemptContext& context) {
  if (context.level > 1) return Verdict::Keep();
  const bool within_budget = context.budget_left_ns > 0;
  if (context.waiting_deadline_ns != 0) {
    const bool is_first = within_budget && context.deadline_ns <= context.waiting_deadline_ns;
    return is_first ? Verdict::Keep() : Verdict::Yield();
  }
  // Nobody that waits has a budget. Those are not worth a limit before they come.
  if (within_budget || context.level == 0) return Verdict::Keep();
  if (context.turn_is_reserved != 0) return Verdict::Yield();
  return band_.OnPreempt(context);
}

}  // namespace warpline::policy
