#include "scheduler/pool_allocator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/slice_rules.h"

namespace warpline::scheduler {

using warpline_placement::Decision;
using warpline_placement::Event;

namespace {

EndCause CauseOf(const warpline_placement::Notice& notice) {
  switch (notice.cause()) {
    case warpline_placement::DRAIN:
      return EndCause::kDrained;
    case warpline_placement::PREEMPTION:
      return EndCause::kMakesWay;
    case warpline_placement::EPOCH:
      return EndCause::kEpochEnds;
    default:
      return EndCause::kOther;
  }
}

std::string ModelOf(const warpline_internal::ReportedDevice& device) {
  return device.backend().empty() ? device.name()
                                  : absl::StrCat(device.name(), " (", device.backend(), ")");
}

}  // namespace

Decision PoolAllocator::Apply(Event event, absl::Time now) {
  event.set_at_ns(absl::ToUnixNanos(now));
  Decision decision = allocator_->Apply(event);
  for (const auto& notice : decision.notices()) {
    notices_.push_back({notice.lease(), absl::FromUnixNanos(notice.deadline_ns()),
                        EndReason{notice.reason(), CauseOf(notice)}, notice.cancelled()});
    if (notice.cancelled()) {
      ending_.erase(notice.lease());
      due_.erase(notice.lease());
    } else {
      ending_[notice.lease()] = notices_.back();
    }
  }
  for (const auto& due : decision.due()) due_.insert(due.lease());
  for (const auto& ended : decision.ended_moves()) {
    ended_moves_.emplace_back(ended.lease(), ended.why());
  }
  return decision;
}

absl::Status PoolAllocator::PutTenant(const TenantRecord& tenant, absl::Time now) {
  Event event;
  auto* const to = event.mutable_put_tenant();
  to->set_name(tenant.name);
  to->set_parent(tenant.parent);
  to->set_memory_bytes(tenant.memory_bytes);
  to->set_reserved_bytes(tenant.reserved_bytes);
  to->set_max_leases(tenant.max_leases);
  to->set_max_sessions(tenant.max_sessions);
  to->set_weight(tenant.weight);
  const Decision decision = Apply(std::move(event), now);
  if (decision.outcome() != warpline_placement::REFUSED) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(decision.code()), decision.message());
}

void PoolAllocator::RemoveTenant(const std::string& name, absl::Time now) {
  Event event;
  event.set_remove_tenant(name);
  Apply(std::move(event), now);
}

void PoolAllocator::PutServer(
    const std::string& name,
    const google::protobuf::RepeatedPtrField<warpline_internal::ReportedDevice>& devices, bool up,
    absl::Time now) {
  Event event;
  auto* const to = event.mutable_put_server();
  to->set_name(name);
  to->set_up(up);
  for (const auto& device : devices) {
    auto* const added = to->add_devices();
    added->set_uuid(device.uuid());
    added->set_capacity_bytes(device.capacity_bytes());
    added->set_nvlink_group(device.nvlink_group());
    added->set_numa_group(device.numa_group());
    added->set_model(ModelOf(device));
  }
  Apply(std::move(event), now);
}

void PoolAllocator::RemoveServer(const std::string& name, absl::Time now) {
  Event event;
  event.set_remove_server(name);
  Apply(std::move(event), now);
}

void PoolAllocator::PutCordon(const CordonRecord& cordon, absl::Time now) {
  Event event;
  auto* const to = event.mutable_cordon();
  to->set_server(cordon.server);
  to->set_cordoned(true);
  to->set_reason(cordon.reason);
  if (cordon.drained != absl::InfiniteFuture()) {
    to->set_drained_ns(absl::ToUnixNanos(cordon.drained));
  }
  Apply(std::move(event), now);
}

void PoolAllocator::RemoveCordon(const std::string& server, absl::Time now) {
  Event event;
  event.mutable_cordon()->set_server(server);
  Apply(std::move(event), now);
}

void PoolAllocator::Restore(const LeaseRecord& lease, const TenantRecord& tenant, absl::Time now) {
  Event event;
  auto* const to = event.mutable_restore();
  to->set_id(lease.id);
  to->set_tenant(lease.tenant);
  to->set_server(lease.server);
  for (const std::string& device : lease.devices) to->add_devices(device);
  to->mutable_shape()->set_memory_bytes(lease.memory_bytes);
  to->mutable_shape()->set_sm_percent(lease.slice.shape.sm_percent);
  to->mutable_shape()->set_time_milli(TimeOf(lease.slice.shape));
  const LeaseTerms terms = TermsOf(lease.slice.shape, tenant);
  to->mutable_shape()->set_weight(terms.weight);
  to->set_priority(terms.priority);
  to->set_sessions(lease.max_sessions);
  to->set_since_ns(absl::ToUnixNanos(lease.created));
  if (lease.ends != absl::InfiniteFuture()) to->set_ends_ns(absl::ToUnixNanos(lease.ends));
  Apply(std::move(event), now);
}

void PoolAllocator::Release(const std::string& lease, absl::Time now) {
  ending_.erase(lease);
  due_.erase(lease);
  if (allocator().pool().Find(lease) == nullptr) return;
  Event event;
  event.set_release(lease);
  Apply(std::move(event), now);
}

Decision PoolAllocator::BeginMove(const std::string& lease, const std::string& to,
                                  const std::string& device, absl::Time now) {
  Event event;
  event.mutable_move()->set_lease(lease);
  event.mutable_move()->set_to(to);
  event.mutable_move()->set_device(device);
  return Apply(std::move(event), now);
}

void PoolAllocator::CommitMove(const std::string& lease, absl::Time now) {
  Event event;
  event.set_commit_move(lease);
  Apply(std::move(event), now);
}

void PoolAllocator::EndMove(const std::string& lease, const std::string& why, absl::Time now) {
  if (allocator().moves().count(lease) == 0) return;
  Event event;
  event.mutable_end_move()->set_lease(lease);
  event.mutable_end_move()->set_why(why);
  Apply(std::move(event), now);
}

void PoolAllocator::ReleaseOfTenant(const std::string& tenant, absl::Time now) {
  std::vector<std::string> leases;
  std::vector<std::string> tickets;
  for (const auto& [id, allocation] : allocator().pool().allocations()) {
    // A place that is not picked up goes with its ticket, and a move's room with its lease.
    if (allocation.tenant == tenant && id[0] != '#') leases.push_back(id);
  }
  for (const auto& [number, entry] : allocator().line().entries()) {
    if (entry->ask.tenant() != tenant) continue;
    for (const auto& member : entry->asking) tickets.push_back(member.ticket());
  }
  std::sort(leases.begin(), leases.end());
  for (const std::string& ticket : tickets) Withdraw(tenant, ticket, now);
  for (const std::string& lease : leases) Release(lease, now);
}

void PoolAllocator::ReleaseOfServer(const std::string& server, absl::Time now) {
  std::vector<std::string> leases;
  for (const auto& [id, allocation] : allocator().pool().allocations()) {
    // A place that is not picked up, and a move's room, go by themselves.
    if (allocation.server == server && id[0] != '#') leases.push_back(id);
  }
  std::sort(leases.begin(), leases.end());
  for (const std::string& lease : leases) Release(lease, now);
}

Decision PoolAllocator::Ask(const RoomRequest& request, const TenantRecord& tenant,
                            absl::Time now) {
  Event event;
  auto* const to = event.mutable_ask();
  to->set_lease(request.lease);
  to->set_tenant(tenant.name);
  to->mutable_shape()->set_memory_bytes(request.memory_bytes);
  to->mutable_shape()->set_sm_percent(request.slice.sm_percent);
  to->mutable_shape()->set_time_milli(TimeOf(request.slice));
  const LeaseTerms terms = TermsOf(request.slice, tenant);
  to->mutable_shape()->set_weight(terms.weight);
  to->set_slice(request.slice_name);
  to->set_gpus(request.gpus);
  for (const std::string& device : request.named) to->add_named(device);
  to->set_sessions(request.sessions);
  to->set_priority(terms.priority);
  to->set_ticket(request.ticket);
  to->set_gang(request.gang);
  to->set_members(request.members);
  if (tenant.max_seconds != 0) {
    to->set_lasts_ns(absl::ToInt64Nanoseconds(absl::Seconds(tenant.max_seconds)));
  }
  return Apply(std::move(event), now);
}

void PoolAllocator::Withdraw(const std::string& tenant, const std::string& ticket, absl::Time now) {
  Event event;
  event.mutable_withdraw()->set_tenant(tenant);
  event.mutable_withdraw()->set_ticket(ticket);
  Apply(std::move(event), now);
}

void PoolAllocator::Advance(absl::Time now) {
  Event event;
  event.set_advance(true);
  Apply(std::move(event), now);
}

std::vector<LeaseNotice> PoolAllocator::TakeNotices() { return std::exchange(notices_, {}); }

std::vector<std::pair<std::string, std::string>> PoolAllocator::TakeEndedMoves() {
  return std::exchange(ended_moves_, {});
}

std::vector<LeaseNotice> PoolAllocator::Due() const {
  std::vector<LeaseNotice> due;
  for (const std::string& lease : due_) {
    if (const auto notice = ending_.find(lease); notice != ending_.end()) {
      due.push_back(notice->second);
    }
  }
  return due;
}

const LeaseNotice* PoolAllocator::NoticeFor(const std::string& lease) const {
  const auto notice = ending_.find(lease);
  return notice == ending_.end() ? nullptr : &notice->second;
}

}  // namespace warpline::scheduler
