#include "scheduler/scheduler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/text.h"
#include "lease/token.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;
using warpline_internal::ReportReply;
using warpline_internal::ServerReport;

constexpr size_t kMaxText = 256;
constexpr int kMaxDevices = 64;
constexpr int kMaxSessions = 8192;
constexpr size_t kLeaseIdBytes = 8;
// How long an ended lease is remembered, so that its sessions can be told why.
constexpr absl::Duration kAfterlife = absl::Minutes(10);
// Of each tenant: who acquires and releases all the time must not fill the table.
constexpr size_t kMaxEnded = 64;

absl::Status CheckReport(const ServerReport& report) {
  bool fits = !report.name().empty() && report.name().size() <= kMaxText &&
              !report.endpoint().empty() && report.endpoint().size() <= kMaxText &&
              report.version().size() <= kMaxText && report.devices_size() <= kMaxDevices &&
              report.sessions_size() <= kMaxSessions && report.leases_size() <= kMaxSessions &&
              report.idle_leases_size() <= kMaxSessions;
  for (const auto& device : report.devices()) {
    fits = fits && absl::StartsWith(device.uuid(), "GPU-") && device.uuid().size() <= kMaxText &&
           device.name().size() <= kMaxText && device.backend().size() <= kMaxText &&
           device.capacity_bytes() < (1ull << 50);
  }
  for (const auto& session : report.sessions()) {
    fits = fits && session.program().size() <= kMaxText && session.reason().size() <= 4 * kMaxText;
  }
  return fits ? absl::OkStatus() : absl::InvalidArgumentError("a malformed report");
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, std::unique_ptr<Store> store, KeyRing keys)
    : options_(std::move(options)), store_(std::move(store)), keys_(std::move(keys)) {
  MutexLock lock(&mu_);
  const absl::Time now = Now();
  if (auto servers = store_->Servers(); servers.ok()) {
    for (ServerRecord& server : *servers) {
      servers_[server.name].heard = now;
      servers_[server.name].lost_at = now;
      records_[server.name] = std::move(server);
    }
  }
  // Nobody could renew a lease while there was no scheduler.
  if (auto leases = store_->Leases(); leases.ok()) {
    for (LeaseRecord& lease : *leases) {
      if (lease.state != LeaseState::kActive) continue;
      lease.expires = std::max(lease.expires, now + options_.lease_ttl);
      (void)store_->UpdateLease(lease);
    }
  }
}

bool Scheduler::IsUp(const LiveServer& server, absl::Time now) const {
  return server.report.devices_size() > 0 && now - server.heard < options_.lost_after;
}

// --- Who asks.

absl::StatusOr<TenantRecord> Scheduler::TenantOf(const std::string& credential, bool local) {
  const auto tenants = store_->Tenants();
  if (!tenants.ok()) return tenants.status();
  if (tenants->empty()) {
    if (!local) {
      return absl::UnauthenticatedError(
          "the scheduler has no tenants yet and takes only programs of its own host: add one with "
          "`warpline tenant add`");
    }
    TenantRecord tenant;
    tenant.name = kDefaultTenant;
    return tenant;
  }
  if (credential.empty()) {
    return absl::UnauthenticatedError(
        "the scheduler wants a tenant's credential: set WARPLINE_CREDENTIAL_FILE");
  }
  const std::string hash = HashCredential(credential);
  for (const TenantRecord& tenant : *tenants) {
    if (EqualSecrets(tenant.credential_hash, hash)) return tenant;
  }
  ++counts_.rejected;
  return absl::UnauthenticatedError("the scheduler knows no tenant with this credential");
}

absl::Status Scheduler::CheckServer(const std::string& credential, bool local) {
  if (EqualSecrets(credential, options_.server_credential)) return absl::OkStatus();
  const auto tenants = store_->Tenants();
  if (!tenants.ok()) return tenants.status();
  if (tenants->empty() && local && credential.empty()) return absl::OkStatus();
  ++counts_.rejected;
  return absl::UnauthenticatedError(
      "the scheduler does not take this server: --scheduler_credential_file must name a copy of "
      "server.credential in the scheduler's state folder");
}

absl::Status Scheduler::CheckOperator(const std::string& credential) const {
  if (EqualSecrets(credential, options_.operator_credential)) return absl::OkStatus();
  return absl::UnauthenticatedError(
      "this is for the scheduler's operator: set WARPLINE_OPERATOR_CREDENTIAL_FILE to "
      "operator.credential in the scheduler's state folder");
}

absl::Status Scheduler::CheckReader(const std::string& credential, bool local) const {
  return local ? absl::OkStatus() : CheckOperator(credential);
}

// --- Leases.

absl::Status Scheduler::ForgetEnded(const std::vector<LeaseRecord>& leases,
                                    const std::string& tenant) {
  std::vector<const LeaseRecord*> ended;
  for (const LeaseRecord& lease : leases) {
    if (lease.state != LeaseState::kActive && lease.tenant == tenant) ended.push_back(&lease);
  }
  if (ended.size() <= kMaxEnded) return absl::OkStatus();
  std::sort(ended.begin(), ended.end(),
            [](const auto* a, const auto* b) { return a->expires < b->expires; });
  ended.resize(ended.size() - kMaxEnded);
  for (const LeaseRecord* lease : ended) {
    if (auto status = store_->RemoveLease(lease->id); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<LeaseRecord> Scheduler::Choose(const AcquireRequest& request,
                                              const TenantRecord& tenant) {
  const absl::Time now = Now();
  const auto leases = store_->Leases();
  if (!leases.ok()) return leases.status();
  if (auto status = ForgetEnded(*leases, tenant.name); !status.ok()) return status;
  size_t active = 0;
  uint32_t held = 0;
  uint64_t held_bytes = 0;
  std::map<std::pair<std::string, std::string>, std::pair<uint64_t, int>> leased;
  for (const LeaseRecord& lease : *leases) {
    if (lease.state != LeaseState::kActive) continue;
    ++active;
    auto& [bytes, count] = leased[{lease.server, lease.device}];
    bytes += lease.memory_bytes;
    ++count;
    if (lease.tenant != tenant.name) continue;
    ++held;
    held_bytes += lease.memory_bytes;
  }
  if (active >= options_.max_leases) {
    return absl::ResourceExhaustedError("the scheduler has as many leases as it keeps");
  }
  if (tenant.max_leases != 0 && held >= tenant.max_leases) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tenant ", tenant.name, " holds ", held, " leases, which is its limit"));
  }
  std::vector<DeviceState> devices;
  for (const auto& [name, server] : servers_) {
    if (!IsUp(server, now) || server.report.draining()) continue;
    for (const auto& device : server.report.devices()) {
      const auto& [bytes, count] = leased[{name, device.uuid()}];
      devices.push_back({name, device.uuid(), device.capacity_bytes(), bytes, count});
    }
  }
  auto placed = Place(devices, {request.memory_bytes(), request.device()}, options_.policy);
  if (!placed.ok()) return placed.status();
  if (tenant.memory_bytes != 0) {
    const uint64_t left = tenant.memory_bytes - std::min(tenant.memory_bytes, held_bytes);
    if (request.memory_bytes() == 0) placed->memory_bytes = std::min(placed->memory_bytes, left);
    if (placed->memory_bytes == 0 || placed->memory_bytes > left) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "tenant ", tenant.name, " may lease ", tenant.memory_bytes >> 20, " MiB and holds ",
          held_bytes >> 20, " MiB; ", request.memory_bytes() >> 20, " MiB wanted"));
    }
  }
  LeaseRecord lease;
  lease.id = absl::BytesToHexString(RandomBytes(kLeaseIdBytes));
  lease.tenant = tenant.name;
  lease.server = devices[placed->device].server;
  lease.device = devices[placed->device].uuid;
  lease.memory_bytes = placed->memory_bytes;
  lease.program = request.program();
  lease.pid = request.pid();
  lease.created = now;
  if (tenant.max_seconds != 0) lease.ends = now + absl::Seconds(tenant.max_seconds);
  lease.expires = std::min(now + options_.lease_ttl, lease.ends);
  return lease;
}

absl::StatusOr<LeaseReply> Scheduler::ReplyFor(const LeaseRecord& lease, uint32_t max_sessions) {
  LeaseToken token;
  token.lease = lease.id;
  token.tenant = lease.tenant;
  token.server = lease.server;
  token.device = lease.device;
  token.memory_bytes = lease.memory_bytes;
  token.max_sessions = max_sessions;
  token.expires = lease.expires;
  token.ends = lease.ends;
  auto text = SignToken(keys_.SignerAt(Now()), token);
  if (!text.ok()) return text.status();
  LeaseReply reply;
  reply.set_lease(lease.id);
  reply.set_endpoint(records_[lease.server].endpoint);
  reply.set_token(*std::move(text));
  reply.set_server(lease.server);
  reply.set_device(lease.device);
  reply.set_tenant(lease.tenant);
  reply.set_memory_bytes(lease.memory_bytes);
  for (const auto& device : servers_[lease.server].report.devices()) {
    if (device.uuid() == lease.device) reply.set_driver_version(device.driver_version());
  }
  reply.set_renew_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.lease_ttl / 3)));
  return reply;
}

absl::StatusOr<LeaseReply> Scheduler::Acquire(const AcquireRequest& request, bool by_sessions,
                                              bool local) {
  if (request.credential().size() > kMaxText || request.program().size() > kMaxText ||
      request.device().size() > kMaxText || request.memory_bytes() >= (1ull << 50)) {
    return absl::InvalidArgumentError("a malformed request for a lease");
  }
  MutexLock lock(&mu_);
  const auto tenant = TenantOf(request.credential(), local);
  if (!tenant.ok()) return tenant.status();
  auto lease = Choose(request, *tenant);
  if (!lease.ok()) {
    ++counts_.refused;
    LogInfo("refused a lease tenant=", tenant->name, " program=", request.program(),
            " memory_bytes=", request.memory_bytes(), " reason=\"", lease.status().message(), "\"");
    return lease.status();
  }
  lease->by_sessions = by_sessions;
  if (auto status = store_->AddLease(*lease); !status.ok()) return status;
  ++counts_.granted;
  LogInfo("granted lease=", lease->id, " tenant=", lease->tenant, " server=", lease->server,
          " device=", lease->device, " memory_bytes=", lease->memory_bytes,
          " program=", lease->program);
  return ReplyFor(*lease, tenant->max_sessions);
}

absl::StatusOr<LeaseRecord> Scheduler::LeaseOfToken(const std::string& text) {
  const auto token = OpenToken(text, keys_.VerifyKeys());
  if (!token.ok()) {
    ++counts_.rejected;
    return token.status();
  }
  auto lease = store_->FindLease(token->lease);
  if (!lease.ok()) return lease.status();
  if (!lease->has_value()) return absl::NotFoundError("the lease is over");
  return **std::move(lease);
}

absl::StatusOr<LeaseReply> Scheduler::Renew(const std::string& token) {
  MutexLock lock(&mu_);
  auto lease = LeaseOfToken(token);
  if (!lease.ok()) return lease.status();
  if (lease->state != LeaseState::kActive) {
    return absl::FailedPreconditionError(absl::StrCat("the lease was ended: ", lease->reason));
  }
  lease->expires = std::min(Now() + options_.lease_ttl, lease->ends);
  lease->by_sessions = false;
  if (auto status = store_->UpdateLease(*lease); !status.ok()) return status;
  uint32_t max_sessions = TenantRecord().max_sessions;
  const auto tenants = store_->Tenants();
  if (!tenants.ok()) return tenants.status();
  for (const TenantRecord& tenant : *tenants) {
    if (tenant.name == lease->tenant) max_sessions = tenant.max_sessions;
  }
  return ReplyFor(*lease, max_sessions);
}

absl::Status Scheduler::Release(const std::string& token) {
  MutexLock lock(&mu_);
  auto lease = LeaseOfToken(token);
  if (!lease.ok()) return lease.status();
  if (lease->state != LeaseState::kActive) return absl::OkStatus();
  return EndLease(*std::move(lease), LeaseState::kReleased, "the program that held it has ended");
}

absl::Status Scheduler::EndLease(LeaseRecord lease, LeaseState state, const std::string& reason) {
  lease.state = state;
  lease.reason = reason;
  lease.expires = Now() + kAfterlife;
  LogInfo("ended lease=", lease.id, " tenant=", lease.tenant, " server=", lease.server,
          " reason=\"", reason, "\"");
  return store_->UpdateLease(lease);
}

absl::Status Scheduler::Revoke(const warpline_internal::RevokeRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  MutexLock lock(&mu_);
  auto lease = store_->FindLease(request.lease());
  if (!lease.ok()) return lease.status();
  if (!lease->has_value()) return absl::NotFoundError("there is no such lease");
  if ((*lease)->state != LeaseState::kActive) return absl::OkStatus();
  ++counts_.revoked;
  const std::string reason = FitText(request.reason(), kMaxText);
  return EndLease(**std::move(lease), LeaseState::kRevoked,
                  reason.empty() ? "the operator revoked it"
                                 : absl::StrCat("the operator revoked it: ", reason));
}

// --- Servers.

absl::Status Scheduler::NoteServer(const ServerReport& report) {
  ServerRecord record;
  record.name = report.name();
  record.endpoint = report.endpoint();
  record.version = report.version();
  for (const auto& device : report.devices()) {
    record.devices.push_back(
        {device.uuid(), device.name(), device.backend(), device.capacity_bytes()});
  }
  const auto known = records_.find(report.name());
  if (known == records_.end() && records_.size() >= options_.max_servers) {
    return absl::ResourceExhaustedError("the scheduler has as many servers as it keeps");
  }
  if (known != records_.end() && known->second == record) return absl::OkStatus();
  if (auto status = store_->PutServer(record); !status.ok()) return status;
  LogInfo(known == records_.end() ? "registered" : "changed", " server=", record.name,
          " endpoint=", record.endpoint, " devices=", record.devices.size());
  records_[record.name] = std::move(record);
  return absl::OkStatus();
}

absl::StatusOr<ReportReply> Scheduler::Report(const ServerReport& report, bool local) {
  if (auto status = CheckReport(report); !status.ok()) return status;
  MutexLock lock(&mu_);
  if (auto status = CheckServer(report.credential(), local); !status.ok()) return status;
  if (auto status = NoteServer(report); !status.ok()) return status;
  const absl::Time now = Now();
  LiveServer& live = servers_[report.name()];
  if (live.lost) LogInfo("up server=", report.name());
  live.lost = false;
  live.heard = now;
  live.report = report;
  live.report.clear_credential();
  ReportReply reply;
  for (const VerifyKey& key : keys_.VerifyKeys()) {
    auto* added = reply.add_keys();
    added->set_id(key.id);
    added->set_key(key.public_key);
  }
  reply.set_interval_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.report_interval)));
  std::set<std::string> in_use;
  for (const auto& reported : report.leases()) {
    in_use.insert(reported.lease());
    auto lease = store_->FindLease(reported.lease());
    if (!lease.ok()) return lease.status();
    const bool ours = lease->has_value() && (*lease)->server == report.name();
    if (!ours || (*lease)->state != LeaseState::kActive) {
      auto* ended = reply.add_ended();
      ended->set_lease(reported.lease());
      ended->set_reason(ours ? (*lease)->reason : "the scheduler does not know it");
      continue;
    }
    // Sessions that run keep their lease.
    if ((*lease)->expires - now > options_.lease_ttl / 2) continue;
    (*lease)->expires = std::min(now + options_.lease_ttl, (*lease)->ends);
    if (auto status = store_->UpdateLease(**lease); !status.ok()) return status;
  }
  for (const std::string& id : report.idle_leases()) {
    // A session has joined since it fell idle, as when a client opens again what broke.
    if (in_use.count(id) > 0) continue;
    auto lease = store_->FindLease(id);
    if (!lease.ok()) return lease.status();
    if (!lease->has_value() || (*lease)->server != report.name()) continue;
    if (!(*lease)->by_sessions && (*lease)->state == LeaseState::kActive) continue;
    if (auto status = store_->RemoveLease(id); !status.ok()) return status;
    LogInfo("over lease=", id, " tenant=", (*lease)->tenant, " server=", report.name());
  }
  return reply;
}

// --- Time.

void Scheduler::HousekeepLeases(absl::Time now) {
  auto leases = store_->Leases();
  if (!leases.ok()) {
    LogError("cannot read the leases: ", leases.status().message());
    return;
  }
  for (LeaseRecord& lease : *leases) {
    absl::Status status;
    if (lease.state != LeaseState::kActive) {
      if (now >= lease.expires) status = store_->RemoveLease(lease.id);
    } else if (now >= lease.ends) {
      ++counts_.expired;
      status = EndLease(std::move(lease), LeaseState::kRevoked,
                        "it has lasted as long as its tenant's leases may");
    } else if (now >= lease.expires) {
      // Its sessions may be running well: there is no word of them.
      const auto server = servers_.find(lease.server);
      if (server != servers_.end() && !IsUp(server->second, now)) continue;
      ++counts_.expired;
      status = EndLease(std::move(lease), LeaseState::kRevoked,
                        "it has no sessions and nobody renewed it");
    }
    if (!status.ok()) LogError("cannot end a lease: ", status.message());
  }
}

void Scheduler::HousekeepServers(absl::Time now) {
  for (auto server = servers_.begin(); server != servers_.end();) {
    auto& [name, live] = *server;
    if (!live.lost && !IsUp(live, now)) {
      live.lost = true;
      live.lost_at = now;
      LogWarning("lost server=", name, " silent_seconds=", absl::ToInt64Seconds(now - live.heard));
    }
    // From when that was noticed: after a jump of the clock, or a pause of this machine, servers
    // get their chance to report.
    if (!live.lost || now - live.lost_at < options_.forget_after) {
      ++server;
      continue;
    }
    if (auto status = store_->RemoveServer(name); !status.ok()) {
      LogError("cannot forget a server: ", status.message());
      ++server;
      continue;
    }
    LogInfo("forgot server=", name);
    records_.erase(name);
    server = servers_.erase(server);
  }
}

void Scheduler::Housekeep() {
  MutexLock lock(&mu_);
  const absl::Time now = Now();
  HousekeepServers(now);
  HousekeepLeases(now);
  const auto rotated = keys_.RotateIfDue(now);
  if (!rotated.ok()) LogError("cannot make a new key: ", rotated.status().message());
  if (rotated.ok() && *rotated) LogInfo("made a new key");
}

}  // namespace warpline::scheduler
