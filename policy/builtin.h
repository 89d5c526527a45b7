// The simpler of the built-in policies, and all of them by name.
#ifndef WARPLINE_POLICY_BUILTIN_H_
#define WARPLINE_POLICY_BUILTIN_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/policy.h"

namespace warpline::policy {

// Who has waited the longest goes first, for one turn.
class Fifo : public Policy {
 public:
  std::string_view name() const override { return "fifo"; }
  Verdict OnDispatch(const DispatchContext&) override { return Verdict::Run(); }
  Verdict OnPreempt(const PreemptContext&) override { return Verdict::Keep(); }
};

// Higher priorities go first and need not wait for the end of a turn; equal ones share by BAND.
// Whoever is less urgent may starve. Those who come regularly are expected, so that they find
// little in flight.
class StrictPriority : public Policy {
 public:
  std::string_view name() const override { return "priority"; }
  Wishes wishes() const override { return {.expects = true}; }
  Verdict OnDispatch(const DispatchContext& context) override;
  Verdict OnPreempt(const PreemptContext& context) override;
};

// Work is due a period after it came, and what is due first goes first (Liu and Layland, JACM
// 1973; TimeGraph, USENIX ATC 2011, for GPUs). Who has no period is due in a second.
class EarliestDeadline : public Policy {
 public:
  std::string_view name() const override { return "edf"; }
  Verdict OnDispatch(const DispatchContext& context) override;
  Verdict OnPreempt(const PreemptContext&) override { return Verdict::Keep(); }
};

// Who is furthest behind what it would have had alone on its share goes first: finish-time fairness
// of Themis (Mahajan et al., NSDI 2020), over the time in which a slice has had work.
class FinishTimeFairness : public Policy {
 public:
  std::string_view name() const override { return "fairness"; }
  Verdict OnDispatch(const DispatchContext& context) override;
  Verdict OnPreempt(const PreemptContext&) override { return Verdict::Keep(); }
};

// The names that MakePolicy() knows, the default first.
std::vector<std::string> PolicyNames();
// INVALID_ARGUMENT for a name that there is not.
absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(std::string_view name);

}  // namespace warpline::policy

#endif  // WARPLINE_POLICY_BUILTIN_H_
