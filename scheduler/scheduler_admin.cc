// The operator's requests to the scheduler.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/given_name.h"
#include "common/log/log.h"
#include "lease/entitlement.h"
#include "lease/rights.h"
#include "proto/page.h"
#include "proto/tier.h"
#include "scheduler/callers.h"
#include "scheduler/scheduler.h"
#include "scheduler/slice_rules.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::TenantReply;
using warpline_internal::TenantRequest;

constexpr size_t kMaxTenants = 4096;
constexpr size_t kMaxName = 64;

bool IsWeight(uint32_t weight) { return weight >= 1 && weight <= kMostWeight; }

absl::Status CheckNewTenant(const std::string& name) {
  if (name == kLocalTenant) {
    return absl::InvalidArgumentError(
        "a tenant cannot be called local, which servers without a scheduler call their clients");
  }
  return CheckGivenName("tenant", name, kMaxName, "-_.");
}

absl::Status CheckTiers(const TenantRecord& tenant) {
  const auto tier = static_cast<uint32_t>(tenant.tier);
  const bool known = tenant.tiers == kAllTiers || (tenant.tiers & ~kKnownTiers) == 0;
  if (!known || tenant.tiers == 0 || tier >= std::size(kTierChoices)) {
    return absl::InvalidArgumentError("the scheduler does not know such tiers");
  }
  if (tenant.tier != TierChoice::kAuto && (tenant.tiers & SetOf(static_cast<Tier>(tier))) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tenant with the tiers ", FormatTierSet(tenant.tiers), " cannot have ",
                     std::string(kTierChoices[tier]), " where it names none: give it --tier, too"));
  }
  return absl::OkStatus();
}

// Returns a sentence about the first of the tenant's limits that is out of range; empty if none is.
std::string LimitOutOfRange(const TenantRecord& tenant) {
  constexpr uint64_t kMostBytes = 1ull << 50;
  constexpr uint64_t kMostSeconds = 1ull << 32;
  if (tenant.max_lease_sessions == 0) return "--max_lease_sessions must be at least 1";
  if (tenant.memory_bytes >= kMostBytes) return "--memory must be less than 1024 TiB";
  if (tenant.reserved_bytes >= kMostBytes) return "--reserved must be less than 1024 TiB";
  if (tenant.max_seconds > kMostSeconds)
    return absl::StrCat("--max_seconds is at most ", kMostSeconds);
  if (!IsWeight(tenant.weight)) return "--weight must be from 1 to 1000";
  if (!IsWeight(tenant.copy_weight)) return "--copy_weight must be from 1 to 1000";
  if (tenant.priority > kMostPriority) return absl::StrCat("--priority is at most ", kMostPriority);
  return "";
}

}  // namespace

absl::StatusOr<TenantReply> Scheduler::PutTenant(const TenantRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto tenants = store_->Tenants();
  TenantRecord tenant;
  tenant.name = request.name();
  bool known = false;
  for (const TenantRecord& old : tenants) {
    if (old.name != tenant.name) continue;
    tenant = old;
    known = true;
  }
  if (!known) {
    if (auto status = CheckNewTenant(tenant.name); !status.ok()) return status;
  }
  if (known && request.create()) {
    return absl::AlreadyExistsError(absl::StrCat("there is a tenant ", tenant.name));
  }
  if (!known && !request.create()) {
    return absl::NotFoundError(absl::StrCat("there is no tenant ", tenant.name));
  }
  if (!known && tenants.size() >= kMaxTenants) {
    return absl::ResourceExhaustedError("there are as many tenants as the scheduler keeps");
  }
  const TenantRecord before = tenant;
  if (request.has_memory_bytes()) tenant.memory_bytes = request.memory_bytes();
  if (request.has_max_leases()) tenant.max_leases = request.max_leases();
  if (request.has_max_lease_sessions()) tenant.max_lease_sessions = request.max_lease_sessions();
  if (request.has_max_sessions()) tenant.max_sessions = request.max_sessions();
  if (request.has_rights()) tenant.rights = request.rights();
  if (request.has_tiers()) tenant.tiers = request.tiers();
  if (request.has_tier()) tenant.tier = static_cast<TierChoice>(request.tier());
  if (request.has_weight()) tenant.weight = request.weight();
  if (request.has_copy_weight()) tenant.copy_weight = request.copy_weight();
  if (request.has_priority()) tenant.priority = request.priority();
  if (request.has_parent()) tenant.parent = request.parent();
  if (request.has_reserved_bytes()) tenant.reserved_bytes = request.reserved_bytes();
  if (request.has_max_seconds()) tenant.max_seconds = request.max_seconds();
  if ((tenant.rights & ~kKnownRights) != 0) {
    return absl::InvalidArgumentError("the scheduler does not know such rights");
  }
  if (const absl::Status tiers = CheckTiers(tenant); !tiers.ok()) return tiers;
  if (request.has_slices()) {
    const auto slices = store_->Slices();
    tenant.slices.assign(request.slices().names().begin(), request.slices().names().end());
    if (auto status = CheckSlicesOf(tenant, slices); !status.ok()) return status;
  }
  if (request.has_namespaces()) {
    const auto& names = request.namespaces().names();
    tenant.namespaces.assign(names.begin(), names.end());
    if (auto status = CheckNamespacesOf(tenant, tenants); !status.ok()) return status;
  }
  if (const std::string wrong = LimitOutOfRange(tenant); !wrong.empty()) {
    return absl::InvalidArgumentError(wrong);
  }
  TenantReply reply;
  if (!known || request.new_credential()) {
    reply.set_credential(NewCredential());
    tenant.credential_hash = HashCredential(reply.credential());
  }
  // The parent is judged where tenants nest; what could not be written is put back.
  if (auto nested = pool_.PutTenant(tenant, Now()); !nested.ok()) return nested;
  const absl::Status status = known ? store_->UpdateTenant(tenant) : store_->AddTenant(tenant);
  if (!status.ok()) {
    if (known) {
      (void)pool_.PutTenant(before, Now());
    } else {
      pool_.RemoveTenant(tenant.name, Now());
    }
    return status;
  }
  renewals_.ForgetAll();
  TellNotices(Now());
  if (tenants.empty()) {
    if (auto ended = EndTrials(); !ended.ok()) return ended;
  }
  LogInfo(known ? "changed" : "added", " tenant=", tenant.name,
          " memory_bytes=", tenant.memory_bytes, " max_leases=", tenant.max_leases,
          " max_lease_sessions=", tenant.max_lease_sessions, " max_sessions=", tenant.max_sessions,
          " max_seconds=", tenant.max_seconds, " rights=", FormatRights(tenant.rights),
          " weight=", tenant.weight, " copy_weight=", tenant.copy_weight,
          " priority=", tenant.priority, " parent=", tenant.parent,
          " reserved_bytes=", tenant.reserved_bytes, " tiers=", FormatTierSet(tenant.tiers),
          " tier=", std::string(TierChoiceName(tenant.tier)),
          " slices=", absl::StrJoin(tenant.slices, ","),
          " namespaces=", absl::StrJoin(tenant.namespaces, ","));
  return reply;
}

// Leases of the time when everybody of this host had all rights do not outlive it.
absl::Status Scheduler::EndTrials() {
  for (LeaseRecord& lease : store_->ActiveLeases()) {
    if (lease.tenant != kDefaultTenant) continue;
    const auto status = EndLease(
        std::move(lease), LeaseState::kRevoked,
        {"the scheduler has tenants now, and it is of none of them", EndCause::kNamesNobody},
        /*by_operator=*/true);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Scheduler::RemoveTenant(const TenantRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto tenants = store_->Tenants();
  for (const TenantRecord& tenant : tenants) {
    if (tenant.parent != request.name()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "tenant ", tenant.name, " is below ", request.name(), ": remove it first, or move it"));
  }
  const auto status = store_->RemoveTenant(
      request.name(), {{"its tenant was removed", EndCause::kNamesNobody}, Now() + Afterlife()});
  renewals_.ForgetAll();
  if (status.ok()) {
    pool_.ReleaseOfTenant(request.name(), Now());
    pool_.RemoveTenant(request.name(), Now());
    TellNotices(Now());
  }
  if (status.ok()) LogInfo("removed tenant=", request.name());
  for (auto& [name, server] : servers_) server.ended.TellAll();
  return status;
}

namespace {

void Fill(const TenantRecord& tenant, warpline_internal::Tenant* to) {
  to->set_name(tenant.name);
  to->set_memory_bytes(tenant.memory_bytes);
  to->set_max_leases(tenant.max_leases);
  to->set_max_lease_sessions(tenant.max_lease_sessions);
  to->set_max_sessions(tenant.max_sessions);
  to->set_rights(tenant.rights);
  to->set_tiers(tenant.tiers);
  to->set_tier(static_cast<uint32_t>(tenant.tier));
  to->set_max_seconds(tenant.max_seconds);
  to->set_weight(tenant.weight);
  to->set_copy_weight(tenant.copy_weight);
  to->set_priority(tenant.priority);
  for (const std::string& slice : tenant.slices) to->add_slices(slice);
  to->set_parent(tenant.parent);
  to->set_reserved_bytes(tenant.reserved_bytes);
  for (const std::string& name : tenant.namespaces) to->add_namespaces(name);
}

}  // namespace

absl::StatusOr<warpline_internal::TenantList> Scheduler::Tenants(
    const std::string& credential, const warpline_internal::Page& page) {
  if (auto status = CheckOperator(credential); !status.ok()) return status;
  MutexLock lock(&mu_);
  auto tenants = store_->Tenants();
  const auto leases = store_->ActiveLeases();
  if (tenants.empty()) {
    tenants.emplace_back();
    tenants.back().name = kDefaultTenant;
    tenants.back().slices = {kAnySlice};
  }
  std::sort(tenants.begin(), tenants.end(),
            [](const TenantRecord& a, const TenantRecord& b) { return a.name < b.name; });
  const std::map<std::string, uint32_t> sessions = SessionsByLease();
  std::map<std::string, LeaseTotals> totals;
  for (const LeaseRecord& lease : leases) {
    const auto has = sessions.find(lease.id);
    totals[lease.tenant].Add(lease, has == sessions.end() ? 0 : has->second);
  }
  PageCut cut(page);
  warpline_internal::TenantList list;
  list.set_from_follower(options_.only_reads);
  for (const TenantRecord& tenant : tenants) {
    if (!cut.Takes(tenant.name)) continue;
    auto* const to = list.add_tenants();
    Fill(tenant, to);
    to->set_waiting(pool_.allocator().line().RequestsOf(tenant.name));
    const LeaseTotals& leased = totals[tenant.name];
    to->set_leases(leased.leases);
    to->set_leased_bytes(leased.bytes);
    to->set_leased_sessions(leased.max_sessions);
    to->set_sessions(leased.sessions);
    cut.Add(*to);
  }
  return cut.Finish(std::move(list));
}

std::map<std::string, uint32_t> Scheduler::SessionsByLease() {
  std::map<std::string, uint32_t> sessions;
  const absl::Time now = Now();
  for (const auto& [name, server] : servers_) {
    if (!IsUp(server, now)) continue;
    for (const auto& lease : server.report.leases()) sessions[lease.lease()] += lease.sessions();
  }
  return sessions;
}

namespace {

void Fill(const LeaseRecord& lease, absl::Time now, warpline_internal::Lease* to) {
  to->set_id(lease.id);
  to->set_tenant(lease.tenant);
  to->set_server(lease.server);
  to->set_device(FormatDeviceNames(lease.devices));
  to->set_memory_bytes(lease.memory_bytes);
  to->set_program(lease.program);
  to->set_pid(lease.pid);
  to->set_holder(lease.by_sessions ? "sessions" : "run");
  to->set_max_sessions(lease.max_sessions);
  to->set_age_seconds(absl::ToDoubleSeconds(now - lease.created));
  to->set_expires_in_seconds(absl::ToDoubleSeconds(lease.expires - now));
  constexpr const char* kStates[] = {"active", "revoked", "released"};
  const auto state = static_cast<size_t>(lease.state);
  to->set_state(state < std::size(kStates) ? kStates[state] : "unknown");
  to->set_reason(lease.reason.text);
  to->set_slice(lease.slice.name);
}

// The order of leases in the list: the oldest first.
std::string KeyOf(const LeaseRecord& lease) {
  const int64_t ms = std::max<int64_t>(absl::ToUnixMillis(lease.created), 0);
  return absl::StrCat(PageKey(static_cast<uint64_t>(ms)), " ", lease.id);
}

void Fill(const warpline_internal::ReportedDevice& device, warpline_internal::DeviceStat* to) {
  to->set_name(device.name());
  to->set_uuid(device.uuid());
  to->set_backend(device.backend());
  to->set_capacity_bytes(device.capacity_bytes());
  to->set_granted_bytes(device.granted_bytes());
}

uint32_t SessionsOn(int gpu, const ReportedSessions::Sessions& sessions) {
  return static_cast<uint32_t>(
      std::count_if(sessions.begin(), sessions.end(), [gpu](const auto& session) {
        const auto& more = session.more_gpus();
        return session.gpu() == gpu || std::find(more.begin(), more.end(), gpu) != more.end();
      }));
}

}  // namespace

absl::StatusOr<warpline_internal::LeaseList> Scheduler::Leases(
    const std::string& credential, const warpline_internal::Page& page) {
  if (auto status = CheckOperator(credential); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto leases = store_->Leases();
  const std::map<std::string, uint32_t> sessions = SessionsByLease();
  std::map<std::string, const LeaseRecord*> in_order;
  for (const LeaseRecord& lease : leases) in_order[KeyOf(lease)] = &lease;
  const absl::Time now = Now();
  PageCut cut(page);
  warpline_internal::LeaseList list;
  list.set_from_follower(options_.only_reads);
  for (const auto& [key, lease] : in_order) {
    if (!cut.Takes(key)) continue;
    auto* const to = list.add_leases();
    Fill(*lease, now, to);
    const auto has = sessions.find(lease->id);
    to->set_sessions(has == sessions.end() ? 0 : has->second);
    to->set_lent(pool_.allocator().lent().count(lease->id) != 0);
    if (const auto* const room = pool_.allocator().RoomOfMove(lease->id); room != nullptr) {
      to->set_reason(absl::StrCat("moves to ", room->server));
    }
    cut.Add(*to);
  }
  return cut.Finish(std::move(list));
}

absl::StatusOr<warpline_internal::StatReply> Scheduler::Stat(
    const warpline_internal::StatRequest& request, const std::string& name,
    const std::string& peer) {
  const absl::Status is_operator = CheckOperator(request.operator_credential());
  const auto caller = callers_.Identify(request.tenant_credential(), peer);
  MutexLock lock(&mu_);
  std::string tenant;
  if (!is_operator.ok()) {
    if (request.tenant_credential().empty()) return is_operator;
    const auto asking = TenantOf(caller, /*local=*/false);
    if (!asking.ok()) return asking.status();
    tenant = asking->name;
  }
  const absl::Time now = Now();
  PageCut cut(request.page());
  warpline_internal::StatReply reply;
  reply.set_server(name);
  for (const auto& [server, live] : servers_) {
    if (!IsUp(live, now)) continue;
    const ReportedSessions::Sessions& sessions = live.sessions.all();
    // A server's devices come before its sessions. No name of a server has a blank, nor a character
    // before it.
    if (is_operator.ok() && cut.Takes(absl::StrCat(server, " "))) {
      for (int gpu = 0; gpu < live.report.devices_size(); ++gpu) {
        auto* const to = reply.add_devices();
        to->set_server(server);
        to->set_gpu(gpu);
        to->set_sessions(SessionsOn(gpu, sessions));
        Fill(live.report.devices(gpu), to);
        cut.Add(*to);
      }
    }
    std::map<std::string, const warpline_internal::SessionStat*> in_order;
    for (const auto& session : sessions) {
      if (!is_operator.ok() && session.tenant() != tenant) continue;
      in_order[absl::StrCat(server, " ", PageKey(session.id()))] = &session;
    }
    for (const auto& [key, session] : in_order) {
      if (!cut.Takes(key)) continue;
      auto* const to = reply.add_sessions();
      *to = *session;
      to->set_server(server);
      cut.Add(*to);
    }
  }
  return cut.Finish(std::move(reply));
}

SchedulerCounts Scheduler::Counts() {
  MutexLock lock(&mu_);
  SchedulerCounts counts = counts_;
  counts.waiting = pool_.allocator().line().requests();
  const absl::Time now = Now();
  for (const auto& [name, live] : servers_) {
    const bool up = IsUp(live, now);
    ++(up ? counts.servers_up : counts.servers_lost);
    if (!up) continue;
    counts.sessions += static_cast<uint64_t>(live.sessions.all().size());
    for (const auto& device : live.report.devices()) {
      counts.capacity_bytes += device.capacity_bytes();
    }
  }
  counts.tenants = store_->Tenants().size();
  for (const LeaseRecord& lease : store_->ActiveLeases()) {
    ++counts.leases;
    counts.leased_bytes += lease.total_bytes();
  }
  return counts;
}

std::vector<TenantCount> Scheduler::TenantCounts(size_t most) {
  MutexLock lock(&mu_);
  std::vector<TenantCount> counts;
  const auto tenants = store_->Tenants();
  const auto leases = store_->ActiveLeases();
  std::map<std::string, TenantCount> by_name;
  for (const LeaseRecord& lease : leases) {
    TenantCount& count = by_name[lease.tenant];
    ++count.leases;
    count.leased_bytes += lease.total_bytes();
  }
  for (const TenantRecord& tenant : tenants) {
    TenantCount& count = by_name[tenant.name];
    count.quota_bytes = tenant.memory_bytes;
    count.reserved_bytes = tenant.reserved_bytes;
  }
  if (tenants.empty()) by_name.try_emplace(kDefaultTenant);
  for (auto& [name, count] : by_name) {
    count.name = name;
    count.waiting = pool_.allocator().line().RequestsOf(name);
    counts.push_back(std::move(count));
  }
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
    return std::pair(a.leased_bytes, a.waiting) > std::pair(b.leased_bytes, b.waiting);
  });
  if (counts.size() > most) counts.resize(most);
  return counts;
}

}  // namespace warpline::scheduler
