// What the operator asks of the scheduler.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "scheduler/scheduler.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::TenantReply;
using warpline_internal::TenantRequest;

constexpr size_t kMaxTenants = 4096;
constexpr size_t kMaxName = 64;

bool IsName(const std::string& name) {
  if (name.empty() || name.size() > kMaxName) return false;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<TenantReply> Scheduler::PutTenant(const TenantRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  if (!IsName(request.name())) {
    return absl::InvalidArgumentError("a tenant's name has up to 64 letters, digits, -, _ or .");
  }
  MutexLock lock(&mu_);
  const auto tenants = store_->Tenants();
  if (!tenants.ok()) return tenants.status();
  TenantRecord tenant;
  tenant.name = request.name();
  bool known = false;
  for (const TenantRecord& old : *tenants) {
    if (old.name != tenant.name) continue;
    tenant = old;
    known = true;
  }
  if (known && request.create()) {
    return absl::AlreadyExistsError(absl::StrCat("there is a tenant ", tenant.name));
  }
  if (!known && !request.create()) {
    return absl::NotFoundError(absl::StrCat("there is no tenant ", tenant.name));
  }
  if (!known && tenants->size() >= kMaxTenants) {
    return absl::ResourceExhaustedError("there are as many tenants as the scheduler keeps");
  }
  if (request.has_memory_bytes()) tenant.memory_bytes = request.memory_bytes();
  if (request.has_max_leases()) tenant.max_leases = request.max_leases();
  if (request.has_max_sessions()) tenant.max_sessions = request.max_sessions();
  if (request.has_max_seconds()) tenant.max_seconds = request.max_seconds();
  if (tenant.max_sessions == 0 || tenant.memory_bytes >= (1ull << 50) ||
      tenant.max_seconds > (1ull << 32)) {
    return absl::InvalidArgumentError("a tenant's limits are out of range");
  }
  TenantReply reply;
  if (!known || request.new_credential()) {
    reply.set_credential(NewCredential());
    tenant.credential_hash = HashCredential(reply.credential());
  }
  const absl::Status status = known ? store_->UpdateTenant(tenant) : store_->AddTenant(tenant);
  if (!status.ok()) return status;
  LogInfo(known ? "changed" : "added", " tenant=", tenant.name,
          " memory_bytes=", tenant.memory_bytes, " max_leases=", tenant.max_leases,
          " max_sessions=", tenant.max_sessions, " max_seconds=", tenant.max_seconds);
  return reply;
}

absl::Status Scheduler::RemoveTenant(const TenantRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto leases = store_->Leases();
  if (!leases.ok()) return leases.status();
  // First the tenant, so that it gets no new lease whatever happens next.
  if (auto status = store_->RemoveTenant(request.name()); !status.ok()) return status;
  LogInfo("removed tenant=", request.name());
  for (const LeaseRecord& lease : *leases) {
    if (lease.tenant != request.name() || lease.state != LeaseState::kActive) continue;
    auto status = EndLease(lease, LeaseState::kRevoked, "its tenant was removed");
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<warpline_internal::TenantList> Scheduler::Tenants(const std::string& credential,
                                                                 bool local) {
  if (auto status = CheckReader(credential, local); !status.ok()) return status;
  MutexLock lock(&mu_);
  auto tenants = store_->Tenants();
  if (!tenants.ok()) return tenants.status();
  const auto leases = store_->Leases();
  if (!leases.ok()) return leases.status();
  if (tenants->empty()) {
    tenants->emplace_back();
    tenants->back().name = kDefaultTenant;
  }
  warpline_internal::TenantList list;
  for (const TenantRecord& tenant : *tenants) {
    auto* to = list.add_tenants();
    to->set_name(tenant.name);
    to->set_memory_bytes(tenant.memory_bytes);
    to->set_max_leases(tenant.max_leases);
    to->set_max_sessions(tenant.max_sessions);
    to->set_max_seconds(tenant.max_seconds);
    for (const LeaseRecord& lease : *leases) {
      if (lease.tenant != tenant.name || lease.state != LeaseState::kActive) continue;
      to->set_leases(to->leases() + 1);
      to->set_leased_bytes(to->leased_bytes() + lease.memory_bytes);
    }
  }
  return list;
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

absl::StatusOr<warpline_internal::LeaseList> Scheduler::Leases(const std::string& credential,
                                                               bool local) {
  if (auto status = CheckReader(credential, local); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto leases = store_->Leases();
  if (!leases.ok()) return leases.status();
  auto sessions = SessionsByLease();
  const absl::Time now = Now();
  warpline_internal::LeaseList list;
  for (const LeaseRecord& lease : *leases) {
    auto* to = list.add_leases();
    to->set_id(lease.id);
    to->set_tenant(lease.tenant);
    to->set_server(lease.server);
    to->set_device(lease.device);
    to->set_memory_bytes(lease.memory_bytes);
    to->set_program(lease.program);
    to->set_pid(lease.pid);
    to->set_holder(lease.by_sessions ? "sessions" : "run");
    to->set_sessions(sessions[lease.id]);
    to->set_age_seconds(absl::ToDoubleSeconds(now - lease.created));
    to->set_expires_in_seconds(absl::ToDoubleSeconds(lease.expires - now));
    constexpr const char* kStates[] = {"active", "revoked", "released"};
    const auto state = static_cast<size_t>(lease.state);
    to->set_state(state < std::size(kStates) ? kStates[state] : "unknown");
    to->set_reason(lease.reason);
  }
  return list;
}

absl::StatusOr<warpline_internal::ServerList> Scheduler::Servers(const std::string& credential,
                                                                 bool local) {
  if (auto status = CheckReader(credential, local); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto leases = store_->Leases();
  if (!leases.ok()) return leases.status();
  const absl::Time now = Now();
  warpline_internal::ServerList list;
  for (const auto& [name, record] : records_) {
    const LiveServer& live = servers_[name];
    const bool up = IsUp(live, now);
    auto* to = list.add_servers();
    to->set_name(name);
    to->set_endpoint(record.endpoint);
    to->set_version(record.version);
    to->set_state(!up ? "lost" : live.report.draining() ? "draining" : "up");
    to->set_heard_seconds_ago(absl::ToDoubleSeconds(now - live.heard));
    for (const DeviceRecord& device : record.devices) {
      auto* added = to->add_devices();
      added->set_uuid(device.uuid);
      added->set_name(device.name);
      added->set_backend(device.backend);
      added->set_capacity_bytes(device.capacity_bytes);
      for (const auto& reported : live.report.devices()) {
        if (reported.uuid() == device.uuid) added->set_granted_bytes(reported.granted_bytes());
      }
    }
    to->set_sessions(static_cast<uint32_t>(live.report.sessions_size()));
    for (const LeaseRecord& lease : *leases) {
      if (lease.server != name || lease.state != LeaseState::kActive) continue;
      to->set_leases(to->leases() + 1);
      to->set_leased_bytes(to->leased_bytes() + lease.memory_bytes);
    }
  }
  return list;
}

absl::StatusOr<warpline_internal::StatReply> Scheduler::Stat(const std::string& name, bool local) {
  if (!local) {
    return absl::PermissionDeniedError(
        "statistics are given to peers on the scheduler's host only");
  }
  MutexLock lock(&mu_);
  const absl::Time now = Now();
  warpline_internal::StatReply reply;
  reply.set_server(name);
  for (const auto& [server, live] : servers_) {
    if (!IsUp(live, now)) continue;
    for (const auto& session : live.report.sessions()) {
      *reply.add_sessions() = session;
      reply.mutable_sessions(reply.sessions_size() - 1)->set_server(server);
    }
    int gpu = 0;
    for (const auto& device : live.report.devices()) {
      auto* to = reply.add_devices();
      to->set_gpu(gpu++);
      to->set_name(device.name());
      to->set_uuid(device.uuid());
      to->set_backend(device.backend());
      to->set_capacity_bytes(device.capacity_bytes());
      to->set_granted_bytes(device.granted_bytes());
    }
  }
  return reply;
}

SchedulerCounts Scheduler::Counts() {
  MutexLock lock(&mu_);
  SchedulerCounts counts = counts_;
  const absl::Time now = Now();
  for (const auto& [name, live] : servers_) {
    const bool up = IsUp(live, now);
    ++(up ? counts.servers_up : counts.servers_lost);
    if (!up) continue;
    counts.sessions += static_cast<uint64_t>(live.report.sessions_size());
    for (const auto& device : live.report.devices()) {
      counts.capacity_bytes += device.capacity_bytes();
    }
  }
  if (const auto tenants = store_->Tenants(); tenants.ok()) counts.tenants = tenants->size();
  if (const auto leases = store_->Leases(); leases.ok()) {
    for (const LeaseRecord& lease : *leases) {
      if (lease.state != LeaseState::kActive) continue;
      ++counts.leases;
      counts.leased_bytes += lease.memory_bytes;
    }
  }
  return counts;
}

}  // namespace warpline::scheduler
