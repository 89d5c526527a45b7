// Slices: the operator's requests about them, and leases that have their shape.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "proto/page.h"
#include "scheduler/scheduler.h"
#include "scheduler/slice_rules.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::SliceRequest;

constexpr size_t kMaxSlices = 1024;

// Only the parts that the request has change.
void Change(const SliceRequest& request, SliceShape* shape) {
  if (request.has_memory_bytes()) shape->memory_bytes = request.memory_bytes();
  if (request.has_staging_bytes()) shape->staging_bytes = request.staging_bytes();
  if (request.has_max_sessions()) shape->max_sessions = request.max_sessions();
  if (request.has_max_handles()) shape->max_handles = request.max_handles();
  if (request.has_max_module_bytes()) shape->max_module_bytes = request.max_module_bytes();
  if (request.has_max_commands()) shape->max_commands = request.max_commands();
  if (request.has_sm_percent()) shape->sm_percent = request.sm_percent();
  if (request.has_launch_ms()) shape->launch_ms = request.launch_ms();
  if (request.has_weight()) shape->weight = request.weight();
  if (request.has_copy_weight()) shape->copy_weight = request.copy_weight();
  if (request.has_priority()) shape->priority = request.priority();
  if (request.has_period_ms()) shape->period_ms = request.period_ms();
  if (request.has_budget_ms()) shape->budget_ms = request.budget_ms();
  if (request.has_best_effort()) shape->best_effort = request.best_effort();
  if (request.has_resident_bytes()) shape->resident_bytes = request.resident_bytes();
}

void Fill(const SliceRecord& slice, warpline_internal::Slice* to) {
  to->set_name(slice.name);
  to->set_memory_bytes(slice.shape.memory_bytes);
  to->set_staging_bytes(slice.shape.staging_bytes);
  to->set_max_sessions(slice.shape.max_sessions);
  to->set_max_handles(slice.shape.max_handles);
  to->set_max_module_bytes(slice.shape.max_module_bytes);
  to->set_max_commands(slice.shape.max_commands);
  to->set_sm_percent(slice.shape.sm_percent);
  to->set_launch_ms(slice.shape.launch_ms);
  to->set_weight(slice.shape.weight);
  to->set_copy_weight(slice.shape.copy_weight);
  to->set_priority(slice.shape.priority);
  to->set_period_ms(slice.shape.period_ms);
  to->set_budget_ms(slice.shape.budget_ms);
  to->set_best_effort(slice.shape.best_effort);
  to->set_resident_bytes(slice.shape.resident_bytes);
}

}  // namespace

absl::Status Scheduler::PutSlice(const SliceRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto slices = store_->Slices();
  const auto old = std::find_if(slices.begin(), slices.end(), [&](const SliceRecord& known) {
    return known.name == request.name();
  });
  const bool known = old != slices.end();
  SliceRecord slice = {request.name(), {}};
  if (known) slice = *old;
  Change(request, &slice.shape);
  // Also a name that is none is refused so.
  if (auto status = CheckSlice(slice); !status.ok()) return status;
  if (known && request.create()) {
    return absl::AlreadyExistsError(absl::StrCat("there is a slice ", slice.name));
  }
  if (!known && !request.create()) {
    return absl::NotFoundError(absl::StrCat("there is no slice ", slice.name));
  }
  if (!known) {
    if (auto status = CheckNewSlice(slice.name); !status.ok()) return status;
  }
  if (!known && slices.size() >= kMaxSlices) {
    return absl::ResourceExhaustedError("there are as many slices as the scheduler keeps");
  }
  const absl::Status status = known ? store_->UpdateSlice(slice) : store_->AddSlice(slice);
  if (!status.ok()) return status;
  const SliceShape& shape = slice.shape;
  LogInfo(known ? "changed" : "added", " slice=", slice.name, " memory_bytes=", shape.memory_bytes,
          " staging_bytes=", shape.staging_bytes, " max_sessions=", shape.max_sessions,
          " max_handles=", shape.max_handles, " max_module_bytes=", shape.max_module_bytes,
          " max_commands=", shape.max_commands, " sm_percent=", shape.sm_percent,
          " launch_ms=", shape.launch_ms, " weight=", shape.weight,
          " copy_weight=", shape.copy_weight, " priority=", shape.priority,
          " period_ms=", shape.period_ms, " budget_ms=", shape.budget_ms,
          " best_effort=", shape.best_effort, " resident_bytes=", shape.resident_bytes);
  return absl::OkStatus();
}

absl::Status Scheduler::RemoveSlice(const SliceRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto tenants = store_->Tenants();
  for (const TenantRecord& tenant : tenants) {
    if (std::count(tenant.slices.begin(), tenant.slices.end(), request.name()) == 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "tenant ", tenant.name, " has slice ", request.name(),
        ": take it away first, with `warpline tenant set ", tenant.name, " --slices=...`"));
  }
  const absl::Status status = store_->RemoveSlice(request.name());
  if (status.ok()) LogInfo("removed slice=", request.name());
  return status;
}

absl::StatusOr<warpline_internal::SliceList> Scheduler::Slices(
    const std::string& credential, const warpline_internal::Page& page) {
  if (auto status = CheckOperator(credential); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto slices = store_->Slices();
  const auto leases = store_->ActiveLeases();
  std::map<std::string, uint32_t> made;
  for (const LeaseRecord& lease : leases) ++made[lease.slice.name];
  PageCut cut(page);
  warpline_internal::SliceList list;
  list.set_from_follower(options_.only_reads);
  for (const SliceRecord& slice : slices) {
    if (!cut.Takes(slice.name)) continue;
    auto* const to = list.add_slices();
    Fill(slice, to);
    to->set_leases(made[slice.name]);
    cut.Add(*to);
  }
  return cut.Finish(std::move(list));
}

absl::StatusOr<std::optional<LeaseRecord>> Scheduler::ChooseOfSlice(
    const AcquireRequest& request, const TenantRecord& tenant, bool by_sessions,
    warpline_placement::Decision* decision) {
  const auto slices = store_->Slices();
  auto slice = SliceFor(tenant, request.slice(), slices);
  if (!slice.ok()) return slice.status();
  if (slice->name.empty()) return Choose(request, tenant, *slice, by_sessions, decision);
  AcquireRequest shaped = request;
  if (auto status = ShapeRequest(*slice, tenant, by_sessions, &shaped); !status.ok()) return status;
  auto lease = Choose(shaped, tenant, *slice, by_sessions, decision);
  if (!lease.ok() || !lease->has_value()) return lease;
  if (const uint32_t most = slice->shape.max_sessions; most != 0) {
    (*lease)->max_sessions = std::min((*lease)->max_sessions, most);
  }
  (*lease)->slice = *std::move(slice);
  return lease;
}

}  // namespace warpline::scheduler
