#include "policy/bpf/bpf_policy.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "policy/bpf/contexts.h"
#include "policy/bpf/helpers.h"
#include "policy/bpf/host_interface.h"
#include "policy/bpf/map.h"
#include "policy/include/warpline_policy.h"

namespace warpline::policy::bpf {
namespace {

// A context of policy.h begins with the one that programs in C see.
#define WARPLINE_SAME(ours, theirs, field)                         \
  static_assert(offsetof(ours, field) == offsetof(theirs, field)); \
  static_assert(sizeof(ours::field) == sizeof(theirs::field))
#define WARPLINE_BEGINS(ours, theirs)       \
  static_assert(offsetof(ours, head) == 0); \
  static_assert(sizeof(ours) >= sizeof(theirs))

WARPLINE_SAME(ContextHead, warpline_on_submit, version);
WARPLINE_SAME(ContextHead, warpline_on_submit, vgpu);
WARPLINE_SAME(ContextHead, warpline_on_submit, tenant);
WARPLINE_SAME(ContextHead, warpline_on_submit, session);
WARPLINE_SAME(ContextHead, warpline_on_submit, now_ns);

WARPLINE_BEGINS(SubmitContext, warpline_on_submit);
WARPLINE_SAME(SubmitContext, warpline_on_submit, bytes);
WARPLINE_SAME(SubmitContext, warpline_on_submit, expected_ns);
WARPLINE_SAME(SubmitContext, warpline_on_submit, call_class);
WARPLINE_SAME(SubmitContext, warpline_on_submit, queue_depth);

WARPLINE_BEGINS(DispatchContext, warpline_on_dispatch);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, credit_ns);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, wait_ns);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, expected_ns);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, used_share);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, bw_share);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, queue_depth);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, engine);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, priority);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, more_urgent_waiting);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, power_mw);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, power_limit_mw);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, temperature_c);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, day_second);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, device);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, registers);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, kernel);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, grid_blocks);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, block_threads);
WARPLINE_SAME(DispatchContext, warpline_on_dispatch, shared_bytes);

WARPLINE_BEGINS(PreemptContext, warpline_on_preempt);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, elapsed_ns);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, waiting_ns);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, priority);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, waiting_priority);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, level);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, engine);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, in_way_ns);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, killable);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, device);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, waiting_busy_ns);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, waiting_commands);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, waiting_vgpu);
WARPLINE_SAME(PreemptContext, warpline_on_preempt, reserved);

WARPLINE_BEGINS(RetireContext, warpline_on_retire);
WARPLINE_SAME(RetireContext, warpline_on_retire, actual_ns);
WARPLINE_SAME(RetireContext, warpline_on_retire, bytes);
WARPLINE_SAME(RetireContext, warpline_on_retire, engine);
WARPLINE_SAME(RetireContext, warpline_on_retire, status);
WARPLINE_SAME(RetireContext, warpline_on_retire, device);
WARPLINE_SAME(RetireContext, warpline_on_retire, reserved);

WARPLINE_BEGINS(MemFaultContext, warpline_on_mem_fault);
WARPLINE_SAME(MemFaultContext, warpline_on_mem_fault, wanted_bytes);
WARPLINE_SAME(MemFaultContext, warpline_on_mem_fault, used_bytes);
WARPLINE_SAME(MemFaultContext, warpline_on_mem_fault, quota_bytes);
WARPLINE_SAME(MemFaultContext, warpline_on_mem_fault, pool_free_bytes);

WARPLINE_BEGINS(ReclaimContext, warpline_on_reclaim);
WARPLINE_SAME(ReclaimContext, warpline_on_reclaim, bytes);
WARPLINE_SAME(ReclaimContext, warpline_on_reclaim, age_ns);
WARPLINE_SAME(ReclaimContext, warpline_on_reclaim, references);
WARPLINE_SAME(ReclaimContext, warpline_on_reclaim, priority);
WARPLINE_SAME(ReclaimContext, warpline_on_reclaim, wanted_by);
WARPLINE_SAME(ReclaimContext, warpline_on_reclaim, moves);

WARPLINE_BEGINS(CopyEnqueueContext, warpline_on_copy_enqueue);
WARPLINE_SAME(CopyEnqueueContext, warpline_on_copy_enqueue, bytes);
WARPLINE_SAME(CopyEnqueueContext, warpline_on_copy_enqueue, io_used_bytes);
WARPLINE_SAME(CopyEnqueueContext, warpline_on_copy_enqueue, io_budget_bytes);
WARPLINE_SAME(CopyEnqueueContext, warpline_on_copy_enqueue, direction);
WARPLINE_SAME(CopyEnqueueContext, warpline_on_copy_enqueue, priority);
WARPLINE_SAME(CopyEnqueueContext, warpline_on_copy_enqueue, device);
WARPLINE_SAME(CopyEnqueueContext, warpline_on_copy_enqueue, reserved);

WARPLINE_BEGINS(PowerContext, warpline_on_power);
WARPLINE_SAME(PowerContext, warpline_on_power, power_mw);
WARPLINE_SAME(PowerContext, warpline_on_power, power_limit_mw);
WARPLINE_SAME(PowerContext, warpline_on_power, temperature_c);
WARPLINE_SAME(PowerContext, warpline_on_power, reserved);

WARPLINE_BEGINS(ThermalContext, warpline_on_thermal);
WARPLINE_SAME(ThermalContext, warpline_on_thermal, temperature_c);
WARPLINE_SAME(ThermalContext, warpline_on_thermal, change_c);
WARPLINE_SAME(ThermalContext, warpline_on_thermal, device);
WARPLINE_SAME(ThermalContext, warpline_on_thermal, reserved);

#undef WARPLINE_SAME
#undef WARPLINE_BEGINS

static_assert(kPolicyVersion == WARPLINE_POLICY_ABI);
static_assert(static_cast<uint32_t>(Action::kScore) == WARPLINE_SCORE);
static_assert(static_cast<uint32_t>(Action::kThrottle) == WARPLINE_THROTTLE);
static_assert(static_cast<uint32_t>(Action::kKill) == WARPLINE_KILL);

// The low half says what to do; what it does not know is the default, as policy.h has it.
Verdict VerdictOf(uint64_t word) {
  const auto action = static_cast<uint32_t>(word);
  if (action > static_cast<uint32_t>(Action::kKill)) return {};
  return {static_cast<Action>(action), static_cast<uint32_t>(word >> 32)};
}

}  // namespace

BpfPolicy::BpfPolicy(BpfPolicyOptions options) : options_(std::move(options)) {}

uint64_t BpfPolicy::NowNs(void* self, const uint64_t* /*arguments*/) {
  return static_cast<BpfPolicy*>(self)->options_.now_ns();
}

uint64_t BpfPolicy::Audit(void* self, const uint64_t* arguments) {
  static_cast<BpfPolicy*>(self)->options_.audit(arguments[0]);
  return 0;
}

absl::StatusOr<std::unique_ptr<BpfPolicy>> BpfPolicy::Load(std::string_view object,
                                                           BpfPolicyOptions options,
                                                           const BpfPolicy* previous) {
  static constexpr Helper kHelpers[] = {
      kMapLookup,
      kMapAdd,
      {WARPLINE_NOW_NS, "now_ns", Result::kScalar, {}, NowNs},
      {WARPLINE_AUDIT, "audit", Result::kScalar, {Argument::kScalar}, Audit},
  };
  if (!options.now_ns || !options.audit) {
    return absl::InvalidArgumentError("a policy needs a clock and an audit");
  }
  std::unique_ptr<BpfPolicy> policy(new BpfPolicy(std::move(options)));
  const HostInterface host = {.abi_version = WARPLINE_POLICY_ABI,
                              .hooks = WarplineHooks(),
                              .helpers = kHelpers,
                              .self = policy.get()};
  absl::StatusOr<std::unique_ptr<Program>> program =
      Program::Load(object, host, previous == nullptr ? nullptr : previous->program_.get());
  if (!program.ok()) return program.status();
  policy->program_ = *std::move(program);
  return policy;
}

Verdict BpfPolicy::Ask(size_t hook, const void* context, size_t bytes) const {
  const std::optional<uint64_t> word = program_->Run(hook, context, bytes);
  return word.has_value() ? VerdictOf(*word) : Verdict();
}

Verdict BpfPolicy::OnSubmit(const SubmitContext& context) {
  return Ask(kOnSubmit, &context, sizeof(context));
}

Verdict BpfPolicy::OnDispatch(const DispatchContext& context) {
  return Ask(kOnDispatch, &context, sizeof(context));
}

Verdict BpfPolicy::OnPreempt(const PreemptContext& context) {
  return Ask(kOnPreempt, &context, sizeof(context));
}

void BpfPolicy::OnRetire(const RetireContext& context) {
  Ask(kOnRetire, &context, sizeof(context));
}

Verdict BpfPolicy::OnMemFault(const MemFaultContext& context) {
  return Ask(kOnMemFault, &context, sizeof(context));
}

Verdict BpfPolicy::OnReclaim(const ReclaimContext& context) {
  return Ask(kOnReclaim, &context, sizeof(context));
}

Verdict BpfPolicy::OnCopyEnqueue(const CopyEnqueueContext& context) {
  return Ask(kOnCopyEnqueue, &context, sizeof(context));
}

Verdict BpfPolicy::OnPower(const PowerContext& context) {
  return Ask(kOnPower, &context, sizeof(context));
}

Verdict BpfPolicy::OnThermal(const ThermalContext& context) {
  return Ask(kOnThermal, &context, sizeof(context));
}

Wishes BpfPolicy::wishes() const {
  const uint32_t ms = program_->ask_always_ms();
  return {.asked_always = ms != 0,
          .longest_wait_ns = int64_t{1'000'000} * ms,
          .expects = program_->expects_arrivals()};
}

std::vector<std::string> BpfPolicy::HookNames() const {
  std::vector<std::string> names;
  const absl::Span<const Hook> hooks = WarplineHooks();
  for (size_t i = 0; i < hooks.size(); ++i) {
    if (program_->Has(i)) names.emplace_back(hooks[i].name);
  }
  return names;
}

uint64_t BpfPolicy::MapBytes() const {
  uint64_t bytes = 0;
  for (const auto& map : program_->maps()) bytes += bpf::MapBytes(map->shape());
  return bytes;
}

}  // namespace warpline::policy::bpf
