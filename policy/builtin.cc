#include "policy/builtin.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "policy/band.h"
#include "policy/reservation.h"

namespace warpline::policy {
namespace {

constexpr uint64_t kNoPeriodNs = 1'000'000'000;

template <typename Kind>
std::unique_ptr<Policy> Make() {
  return std::make_unique<Kind>();
}

struct Named {
  std::string_view name;
  std::unique_ptr<Policy> (*make)();
};
constexpr Named kPolicies[] = {
    {"band", &Make<Band>},
    {"fifo", &Make<Fifo>},
    {"priority", &Make<StrictPriority>},
    {"edf", &Make<EarliestDeadline>},
    {"fairness", &Make<FinishTimeFairness>},
    {"reservation", &Make<Reservation>},
};

uint32_t Clamp(uint64_t score) {
  return static_cast<uint32_t>(std::min<uint64_t>(score, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

Verdict StrictPriority::OnDispatch(const DispatchContext& context) {
  if (context.more_urgent_waiting > 0) return Verdict::Skip();
  return Verdict::Score(ScoreOfCredit(context.credit_ns));
}

Verdict StrictPriority::OnPreempt(const PreemptContext& context) {
  return context.waiting_priority > context.priority ? Verdict::Yield() : Verdict::Keep();
}

Verdict EarliestDeadline::OnDispatch(const DispatchContext& context) {
  const uint64_t period_ns = context.period_ns == 0 ? kNoPeriodNs : context.period_ns;
  const uint64_t left_us = period_ns > context.wait_ns ? (period_ns - context.wait_ns) / 1000 : 0;
  return Verdict::Score(std::numeric_limits<uint32_t>::max() - Clamp(left_us));
}

Verdict FinishTimeFairness::OnDispatch(const DispatchContext& context) {
  // How long the slice has had work, over how long it would have had on its share for the same.
  const uint64_t due_ns = context.active_ns / 1000 * context.bw_share;
  return Verdict::Score(Clamp(due_ns * 1000 / std::max<uint64_t>(context.attained_ns, 1000)));
}

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const Named& policy : kPolicies) names.emplace_back(policy.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(std::string_view name) {
  for (const Named& policy : kPolicies) {
    if (policy.name == name) return policy.make();
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no policy \"", std::string(name),
                                                 "\", only ", absl::StrJoin(PolicyNames(), ", ")));
}

}  // namespace warpline::policy
