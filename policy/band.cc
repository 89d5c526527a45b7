#include "policy/band.h"

#include <algorithm>

namespace warpline::policy {
namespace {

// Shorter turns than this cost more than they bring to who waits.
constexpr uint64_t kLeastTurnNs = 2'000'000;

}  // namespace

uint32_t ScoreOfCredit(int64_t credit_ns) {
  constexpr int64_t kMiddle = int64_t{1} << 31;
  return static_cast<uint32_t>(std::clamp<int64_t>(credit_ns / 1000 + kMiddle, 1, 2 * kMiddle - 1));
}

Verdict Band::OnDispatch(const DispatchContext& context) {
  if (context.credit_ns < 0 && context.used_share > context.bw_share) return Verdict::Skip();
  return Verdict::Score(ScoreOfCredit(context.credit_ns));
}

Verdict Band::OnPreempt(const PreemptContext& context) {
  const bool starved =
      context.waiting_credit_ns >= 0 && context.waiting_used_share < context.waiting_bw_share / 2;
  return starved && context.elapsed_ns >= kLeastTurnNs ? Verdict::Yield() : Verdict::Keep();
}

}  // namespace warpline::policy
