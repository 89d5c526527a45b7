#include "policy/bpf/contexts.h"

#include <array>
#include <cstdint>

#include "policy/include/warpline_policy.h"

namespace warpline::policy::bpf {
namespace {

#define WARPLINE_FIELD(type, name) \
  Field { offsetof(type, name), sizeof(type::name) }
#define WARPLINE_HEAD(type)                                                                \
  WARPLINE_FIELD(type, version), WARPLINE_FIELD(type, vgpu), WARPLINE_FIELD(type, tenant), \
      WARPLINE_FIELD(type, session), WARPLINE_FIELD(type, now_ns)

// Whether the fields follow each other without holes and overlaps up to the end of the context, so
// that none was left out.
template <size_t kCount>
constexpr bool AreWhole(const std::array<Field, kCount>& fields, size_t context_bytes) {
  size_t end = 0;
  for (const Field& field : fields) {
    if (field.offset != end || field.bytes == 0 || field.offset % field.bytes != 0) return false;
    end += field.bytes;
  }
  return end == context_bytes && end % sizeof(uint64_t) == 0;
}

constexpr std::array kOnSubmitFields = {
    WARPLINE_HEAD(warpline_on_submit),
    WARPLINE_FIELD(warpline_on_submit, bytes),
    WARPLINE_FIELD(warpline_on_submit, expected_ns),
    WARPLINE_FIELD(warpline_on_submit, call_class),
    WARPLINE_FIELD(warpline_on_submit, queue_depth),
};
static_assert(AreWhole(kOnSubmitFields, sizeof(warpline_on_submit)));

constexpr std::array kOnDispatchFields = {
    WARPLINE_HEAD(warpline_on_dispatch),
    WARPLINE_FIELD(warpline_on_dispatch, credit_ns),
    WARPLINE_FIELD(warpline_on_dispatch, wait_ns),
    WARPLINE_FIELD(warpline_on_dispatch, expected_ns),
    WARPLINE_FIELD(warpline_on_dispatch, used_share),
    WARPLINE_FIELD(warpline_on_dispatch, bw_share),
    WARPLINE_FIELD(warpline_on_dispatch, queue_depth),
    WARPLINE_FIELD(warpline_on_dispatch, engine),
    WARPLINE_FIELD(warpline_on_dispatch, priority),
    WARPLINE_FIELD(warpline_on_dispatch, more_urgent_waiting),
    WARPLINE_FIELD(warpline_on_dispatch, power_mw),
    WARPLINE_FIELD(warpline_on_dispatch, power_limit_mw),
    WARPLINE_FIELD(warpline_on_dispatch, temperature_c),
    WARPLINE_FIELD(warpline_on_dispatch, day_second),
    WARPLINE_FIELD(warpline_on_dispatch, device),
    WARPLINE_FIELD(warpline_on_dispatch, registers),
    WARPLINE_FIELD(warpline_on_dispatch, kernel),
    WARPLINE_FIELD(warpline_on_dispatch, grid_blocks),
    WARPLINE_FIELD(warpline_on_dispatch, block_threads),
    WARPLINE_FIELD(warpline_on_dispatch, shared_bytes),
};
static_assert(AreWhole(kOnDispatchFields, sizeof(warpline_on_dispatch)));

constexpr std::array kOnPreemptFields = {
    WARPLINE_HEAD(warpline_on_preempt),
    WARPLINE_FIELD(warpline_on_preempt, elapsed_ns),
    WARPLINE_FIELD(warpline_on_preempt, waiting_ns),
    WARPLINE_FIELD(warpline_on_preempt, priority),
    WARPLINE_FIELD(warpline_on_preempt, waiting_priority),
    WARPLINE_FIELD(warpline_on_preempt, level),
    WARPLINE_FIELD(warpline_on_preempt, engine),
    WARPLINE_FIELD(warpline_on_preempt, in_way_ns),
    WARPLINE_FIELD(warpline_on_preempt, killable),
    WARPLINE_FIELD(warpline_on_preempt, device),
    WARPLINE_FIELD(warpline_on_preempt, waiting_busy_ns),
    WARPLINE_FIELD(warpline_on_preempt, waiting_commands),
    WARPLINE_FIELD(warpline_on_preempt, waiting_vgpu),
    WARPLINE_FIELD(warpline_on_preempt, reserved),
};
static_assert(AreWhole(kOnPreemptFields, sizeof(warpline_on_preempt)));

constexpr std::array kOnRetireFields = {
    WARPLINE_HEAD(warpline_on_retire),
    WARPLINE_FIELD(warpline_on_retire, actual_ns),
    WARPLINE_FIELD(warpline_on_retire, bytes),
    WARPLINE_FIELD(warpline_on_retire, engine),
    WARPLINE_FIELD(warpline_on_retire, status),
    WARPLINE_FIELD(warpline_on_retire, device),
    WARPLINE_FIELD(warpline_on_retire, reserved),
};
static_assert(AreWhole(kOnRetireFields, sizeof(warpline_on_retire)));

constexpr std::array kOnMemFaultFields = {
    WARPLINE_HEAD(warpline_on_mem_fault),
    WARPLINE_FIELD(warpline_on_mem_fault, wanted_bytes),
    WARPLINE_FIELD(warpline_on_mem_fault, used_bytes),
    WARPLINE_FIELD(warpline_on_mem_fault, quota_bytes),
    WARPLINE_FIELD(warpline_on_mem_fault, pool_free_bytes),
};
static_assert(AreWhole(kOnMemFaultFields, sizeof(warpline_on_mem_fault)));

constexpr std::array kOnReclaimFields = {
    WARPLINE_HEAD(warpline_on_reclaim),
    WARPLINE_FIELD(warpline_on_reclaim, bytes),
    WARPLINE_FIELD(warpline_on_reclaim, age_ns),
    WARPLINE_FIELD(warpline_on_reclaim, references),
    WARPLINE_FIELD(warpline_on_reclaim, priority),
    WARPLINE_FIELD(warpline_on_reclaim, wanted_by),
    WARPLINE_FIELD(warpline_on_reclaim, moves),
    WARPLINE_FIELD(warpline_on_reclaim, reserved),
};
static_assert(AreWhole(kOnReclaimFields, sizeof(warpline_on_reclaim)));

constexpr std::array kOnCopyEnqueueFields = {
    WARPLINE_HEAD(warpline_on_copy_enqueue),
    WARPLINE_FIELD(warpline_on_copy_enqueue, bytes),
    WARPLINE_FIELD(warpline_on_copy_enqueue, io_used_bytes),
    WARPLINE_FIELD(warpline_on_copy_enqueue, io_budget_bytes),
    WARPLINE_FIELD(warpline_on_copy_enqueue, direction),
    WARPLINE_FIELD(warpline_on_copy_enqueue, priority),
    WARPLINE_FIELD(warpline_on_copy_enqueue, device),
    WARPLINE_FIELD(warpline_on_copy_enqueue, reserved),
};
static_assert(AreWhole(kOnCopyEnqueueFields, sizeof(warpline_on_copy_enqueue)));

constexpr std::array kOnPowerFields = {
    WARPLINE_HEAD(warpline_on_power),
    WARPLINE_FIELD(warpline_on_power, power_mw),
    WARPLINE_FIELD(warpline_on_power, power_limit_mw),
    WARPLINE_FIELD(warpline_on_power, temperature_c),
    WARPLINE_FIELD(warpline_on_power, reserved),
};
static_assert(AreWhole(kOnPowerFields, sizeof(warpline_on_power)));

constexpr std::array kOnThermalFields = {
    WARPLINE_HEAD(warpline_on_thermal),
    WARPLINE_FIELD(warpline_on_thermal, temperature_c),
    WARPLINE_FIELD(warpline_on_thermal, change_c),
    WARPLINE_FIELD(warpline_on_thermal, device),
    WARPLINE_FIELD(warpline_on_thermal, reserved),
};
static_assert(AreWhole(kOnThermalFields, sizeof(warpline_on_thermal)));

// In the order of WarplineHook.
constexpr std::array<Hook, kWarplineHooks> kHooks = {{
    {"on_submit", sizeof(warpline_on_submit), kOnSubmitFields},
    {"on_dispatch", sizeof(warpline_on_dispatch), kOnDispatchFields},
    {"on_preempt", sizeof(warpline_on_preempt), kOnPreemptFields},
    {"on_retire", sizeof(warpline_on_retire), kOnRetireFields},
    {"on_mem_fault", sizeof(warpline_on_mem_fault), kOnMemFaultFields},
    {"on_reclaim", sizeof(warpline_on_reclaim), kOnReclaimFields},
    {"on_copy_enqueue", sizeof(warpline_on_copy_enqueue), kOnCopyEnqueueFields},
    {"on_power", sizeof(warpline_on_power), kOnPowerFields},
    {"on_thermal", sizeof(warpline_on_thermal), kOnThermalFields},
}};

}  // namespace

absl::Span<const Hook> WarplineHooks() { return kHooks; }

#undef WARPLINE_FIELD
#undef WARPLINE_HEAD

}  // namespace warpline::policy::bpf
