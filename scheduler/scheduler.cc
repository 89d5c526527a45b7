#include "scheduler/scheduler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "common/log/log.h"
#include "common/text.h"
#include "lease/end_reason.h"
#include "lease/entitlement.h"
#include "lease/token.h"
#include "proto/devices.h"
#include "scheduler/slice_rules.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;

constexpr size_t kMaxText = 256;
constexpr size_t kMaxDevicesText = 1024;
constexpr size_t kMaxTicket = 64;

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, std::unique_ptr<Store> store, KeyRing keys,
                     std::unique_ptr<placement::RecordedAllocator> allocator)
    : options_(std::move(options)),
      store_(std::move(store)),
      keys_(std::move(keys)),
      rates_(options_.tenant_calls_per_second, options_.tenant_calls_at_once),
      renewals_(options_.lease_ttl / 4),
      pool_(std::move(allocator)),
      callers_(options_.accounts, options_.audit),
      log_(SchedulerLogOptions()) {}

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Create(SchedulerOptions options,
                                                             std::unique_ptr<Store> store,
                                                             KeyRing keys) {
  auto allocator = placement::RecordedAllocator::Create(
      options.placement, options.only_reads ? placement::DecisionLogOptions() : options.decisions);
  if (!allocator.ok()) return allocator.status();
  auto scheduler = std::unique_ptr<Scheduler>(
      new Scheduler(std::move(options), std::move(store), std::move(keys), *std::move(allocator)));
  if (const absl::Status taken = scheduler->TakeState(); !taken.ok()) {
    MutexLock lock(&scheduler->mu_);
    return scheduler->store_->Explain(taken);
  }
  return scheduler;
}

Scheduler::~Scheduler() {
  MutexLock lock(&mu_);
  if (const absl::Status status = anchors_.WriteAll(store_.get()); !status.ok()) {
    LogError("cannot write the servers' anchors: ", status.message());
  }
}

absl::Status Scheduler::TakeState() {
  MutexLock lock(&mu_);
  const absl::Time now = Now();
  anchors_.Restore(*store_);
  for (const ServerRecord& server : store_->Servers()) {
    servers_[server.name].heard = now;
    servers_[server.name].lost_at = now;
    records_[server.name] = server;
  }
  // While there was no scheduler, leases could not be renewed. This holds whatever the clock said
  // before.
  store_->ExtendLeases(now, options_.lease_ttl);
  return TakePool(now);
}

// --- Whether what was said holds.

uint64_t Scheduler::Confirmations() {
  MutexLock lock(&mu_);
  return store_->confirmations();
}

absl::Status Scheduler::ConfirmSince(uint64_t mark) {
  MutexLock lock(&mu_);
  return store_->ConfirmSince(mark);
}

uint64_t Scheduler::Epoch() {
  MutexLock lock(&mu_);
  return store_->epoch();
}

// --- Credentials of the caller.

absl::StatusOr<TenantRecord> Scheduler::TenantOf(const absl::StatusOr<Caller>& caller, bool local) {
  const auto tenants = store_->Tenants();
  auto tenant = caller.ok() ? callers_.TenantOf(tenants, *caller, local) : caller.status();
  if (!absl::IsPermissionDenied(tenant.status())) return tenant;
  ++counts_.rejected;
  return absl::UnauthenticatedError(tenant.status().message());
}

absl::Status Scheduler::CheckOperator(const std::string& credential) const {
  if (EqualSecrets(credential, options_.operator_credential)) return absl::OkStatus();
  if (!options_.operator_hash.empty() &&
      EqualSecrets(HashCredential(credential), options_.operator_hash)) {
    return absl::OkStatus();
  }
  return absl::UnauthenticatedError(
      "this is for the scheduler's operator: set WARPLINE_OPERATOR_CREDENTIAL_FILE to "
      "operator.credential in the scheduler's state folder");
}

// --- Leases.

TenantRecord Scheduler::TenantNamed(const std::string& name) {
  for (const TenantRecord& known : store_->Tenants()) {
    if (known.name == name) return known;
  }
  return TenantRecord();
}

LeaseToken Scheduler::TokenFor(const LeaseRecord& lease, const TenantRecord& tenant,
                               const CertificateHolder& holder) {
  LeaseToken token;
  token.holder = holder;
  token.lease = lease.id;
  token.tenant = lease.tenant;
  token.server = lease.server;
  token.devices = lease.devices;
  token.slice = TokenSliceOf(lease, tenant);
  token.max_sessions = std::min(lease.max_sessions, tenant.max_lease_sessions);
  token.rights = tenant.rights;
  token.tiers = tenant.tiers;
  token.epoch = store_->epoch();
  token.expires = lease.expires;
  token.ends = lease.ends;
  return token;
}

absl::StatusOr<LeaseReply> Scheduler::ReplyFor(const LeaseRecord& lease, const TenantRecord& tenant,
                                               const CertificateHolder& holder) {
  LeaseToken token = TokenFor(lease, tenant, holder);
  if (const LeaseNotice* const notice = pool_.NoticeFor(lease.id); notice != nullptr) {
    // The server ends it by itself then.
    token.ends = std::min(token.ends, notice->deadline);
    token.expires = std::min(token.expires, notice->deadline);
  }
  auto text = SignToken(keys_.SignerAt(Now()), token);
  if (!text.ok()) return text.status();
  LeaseReply reply;
  reply.set_lease(lease.id);
  reply.set_endpoint(records_[lease.server].endpoint);
  reply.set_token(*std::move(text));
  reply.set_server(lease.server);
  reply.set_device(FormatDeviceNames(token.devices));
  reply.set_tenant(lease.tenant);
  reply.set_memory_bytes(lease.memory_bytes);
  reply.set_max_sessions(token.max_sessions);
  reply.set_rights(token.rights);
  reply.set_tier(static_cast<uint32_t>(tenant.tier));
  reply.set_slice(lease.slice.name);
  for (const auto& device : servers_[lease.server].report.devices()) {
    if (device.uuid() == lease.devices.front()) reply.set_driver_version(device.driver_version());
  }
  if (const LeaseNotice* const notice = pool_.NoticeFor(lease.id); notice != nullptr) {
    reply.set_ends_in_ms(static_cast<uint32_t>(std::max<int64_t>(
        absl::ToInt64Milliseconds(std::min(notice->deadline - Now(), absl::Hours(24 * 30))), 1)));
    reply.set_ends_reason(ReasonForHolder(notice->reason));
  }
  reply.set_renew_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.lease_ttl / 3)));
  return reply;
}

absl::StatusOr<LeaseReply> Scheduler::Acquire(const AcquireRequest& request, bool by_sessions,
                                              bool local, const CertificateHolder& holder,
                                              const std::string& peer) {
  if (request.program().size() > kMaxText || request.slice().size() > kMaxText ||
      request.device().size() > kMaxDevicesText || request.memory_bytes() >= (1ull << 50) ||
      request.ticket().size() > kMaxTicket || request.gang().size() > kMaxTicket) {
    return absl::InvalidArgumentError("a malformed request for a lease");
  }
  const auto caller = callers_.Identify(request.credential(), peer);
  MutexLock lock(&mu_);
  const auto tenant = TenantOf(caller, local);
  if (!tenant.ok()) return tenant.status();
  const absl::Status counted = CountCall(tenant->name);
  warpline_placement::Decision decision;
  auto chosen = counted.ok() ? ChooseOfSlice(request, *tenant, by_sessions, &decision) : counted;
  TellNotices(Now());
  if (!chosen.ok()) {
    ++counts_.refused;
    if (const LogPermit permit = log_.Ask(TenantKey(tenant->name), kRefusedLine)) {
      permit.Info("refused a lease tenant=", tenant->name, " program=", Quoted(request.program()),
                  " memory_bytes=", request.memory_bytes(),
                  " reason=", Quoted(chosen.status().message()));
    }
    return chosen.status();
  }
  if (!chosen->has_value()) return WaitingReply(request, tenant->name, decision);
  std::optional<LeaseRecord>& lease = *chosen;
  lease->holder = holder;
  if (auto status = store_->AddLease(*lease); !status.ok()) {
    pool_.Release(lease->id, Now());
    return status;
  }
  ++counts_.granted;
  if (const LogPermit permit = log_.Ask(TenantKey(lease->tenant), kGrantedLine)) {
    permit.Info("granted lease=", lease->id, " tenant=", lease->tenant, " server=", lease->server,
                " device=", FormatDeviceNames(lease->devices),
                " memory_bytes=", lease->memory_bytes, " max_sessions=", lease->max_sessions,
                lease->slice.name.empty() ? "" : absl::StrCat(" slice=", lease->slice.name),
                " program=", Quoted(lease->program), caller->WhoForLog());
  }
  return ReplyFor(*lease, *tenant, holder);
}

absl::Status Scheduler::CountCall(const std::string& tenant) {
  if (rates_.Take(tenant, Now())) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("tenant ", tenant, " calls more often than ",
                                                   options_.tenant_calls_per_second,
                                                   " times a second; try again"));
}

absl::StatusOr<LeaseToken> Scheduler::OpenTokenOfOurs(const std::string& token,
                                                      const CertificateHolder& by) {
  auto opened = OpenToken(token, keys_.VerifyKeys());
  if (opened.ok() && !opened->moved_from.empty()) {
    opened = absl::UnauthenticatedError("the token moves a lease, and neither renews nor ends it");
  }
  if (opened.ok()) {
    if (auto status = RenewHolder(by, &*opened); !status.ok()) opened = status;
  }
  if (!opened.ok()) ++counts_.rejected;
  return opened;
}

absl::StatusOr<LeaseRecord> Scheduler::FindLease(const std::string& id) {
  auto lease = store_->FindLease(id);
  if (!lease.has_value()) return absl::NotFoundError("the lease is over");
  return *std::move(lease);
}

absl::StatusOr<LeaseReply> Scheduler::Renew(const std::string& token, const CertificateHolder& by) {
  MutexLock lock(&mu_);
  const auto opened = OpenTokenOfOurs(token, by);
  if (!opened.ok()) return opened.status();
  if (auto status = CountCall(opened->tenant); !status.ok()) return status;
  const absl::Time now = Now();
  const std::string& certificate = opened->holder.certificate;
  if (const auto* recent = renewals_.Find(opened->lease, certificate, now)) return *recent;
  auto lease = FindLease(opened->lease);
  if (!lease.ok()) return lease.status();
  if (lease->state != LeaseState::kActive) {
    return absl::FailedPreconditionError(
        absl::StrCat("the lease was ended: ", ReasonForHolder(lease->reason)));
  }
  lease->expires = std::min(now + options_.lease_ttl, lease->ends);
  lease->by_sessions = false;
  lease->holder = opened->holder;
  if (auto status = store_->UpdateLease(*lease); !status.ok()) return status;
  // A renewed lease goes by the tenant's limits and rights of now.
  auto reply = ReplyFor(*lease, TenantNamed(lease->tenant), opened->holder);
  if (reply.ok()) renewals_.Put(lease->id, certificate, *reply, now);
  return reply;
}

// Not refused for the tenant's rate: it had to acquire what it releases.
absl::Status Scheduler::Release(const std::string& token, const CertificateHolder& by) {
  MutexLock lock(&mu_);
  const auto opened = OpenTokenOfOurs(token, by);
  if (!opened.ok()) return opened.status();
  auto lease = FindLease(opened->lease);
  if (!lease.ok()) return lease.status();
  if (lease->state != LeaseState::kActive) return absl::OkStatus();
  return EndLease(*std::move(lease), LeaseState::kReleased,
                  {"the program that held it has ended", EndCause::kNamesNobody});
}

absl::Status Scheduler::EndLease(LeaseRecord lease, LeaseState state, const EndReason& reason,
                                 bool by_operator) {
  lease.state = state;
  lease.reason = reason;
  lease.expires = Now() + Afterlife();
  renewals_.Forget(lease.id);
  if (auto status = store_->UpdateLease(lease); !status.ok()) return status;
  pool_.Release(lease.id, Now());
  NoteEndedMoves(Now());
  // Also where no session of it runs: its token may still be good.
  if (const auto server = servers_.find(lease.server); server != servers_.end()) {
    server->second.ended.TellAll();
  }
  // The tenant's own leases do not use up the line of what its operator does to it.
  const LogPermit permit =
      by_operator ? LogPermit(/*left_out=*/0) : log_.Ask(TenantKey(lease.tenant), kEndedLine);
  if (permit) {
    permit.Info("ended lease=", lease.id, " tenant=", lease.tenant, " server=", lease.server,
                " reason=", Quoted(reason.text));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::Revoke(const warpline_internal::RevokeRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  if (request.lease().empty() == request.tenant().empty()) {
    return absl::InvalidArgumentError("name either a lease or a tenant");
  }
  const std::string text = FitText(request.reason(), kMaxText);
  const EndReason reason = {
      text.empty() ? "the operator revoked it" : absl::StrCat("the operator revoked it: ", text),
      EndCause::kRevoked};
  MutexLock lock(&mu_);
  if (!request.tenant().empty()) return RevokeTenant(request.tenant(), reason);
  auto lease = store_->FindLease(request.lease());
  if (!lease.has_value()) return absl::NotFoundError("there is no such lease");
  if (lease->state != LeaseState::kActive) return absl::OkStatus();
  ++counts_.revoked;
  return EndLease(*std::move(lease), LeaseState::kRevoked, reason, /*by_operator=*/true);
}

absl::Status Scheduler::RevokeTenant(const std::string& name, const EndReason& reason) {
  const auto tenants = store_->Tenants();
  const bool known =
      absl::c_any_of(tenants, [&name](const TenantRecord& tenant) { return tenant.name == name; });
  if (!known) return absl::NotFoundError(absl::StrCat("there is no tenant ", name));
  // Each round adds the tenants below those that are there; tenants cannot be below themselves.
  std::set<std::string> below = {name};
  size_t before = 0;
  while (before != below.size()) {
    before = below.size();
    for (const TenantRecord& tenant : tenants) {
      if (below.contains(tenant.parent)) below.insert(tenant.name);
    }
  }
  for (LeaseRecord& lease : store_->ActiveLeases()) {
    if (!below.contains(lease.tenant)) continue;
    ++counts_.revoked;
    const absl::Status ended =
        EndLease(std::move(lease), LeaseState::kRevoked, reason, /*by_operator=*/true);
    if (!ended.ok()) return ended;
  }
  return absl::OkStatus();
}

// --- Time.

// Reports may have stayed away because this scheduler was busy or had just begun to lead. Until one
// has come after the lease expired, its sessions may be running well.
bool Scheduler::KnowsSessions(const LiveServer& server, const LeaseRecord& lease,
                              absl::Time now) const {
  return IsUp(server, now) && server.told_sessions >= lease.expires;
}

void Scheduler::HousekeepLeases(absl::Time now) {
  for (LeaseRecord& lease : store_->LeasesExpiredBy(now)) {
    absl::Status status;
    if (lease.state != LeaseState::kActive) {
      status = store_->RemoveLease(lease.id);
    } else if (now >= lease.ends) {
      ++counts_.expired;
      status =
          EndLease(std::move(lease), LeaseState::kRevoked,
                   {"it has lasted as long as its tenant's leases may", EndCause::kNamesNobody});
    } else {
      // Its sessions rest, and its server may report them or not.
      if (pool_.allocator().moves().count(lease.id) != 0) continue;
      const auto server = servers_.find(lease.server);
      if (server != servers_.end() && !KnowsSessions(server->second, lease, now)) continue;
      ++counts_.expired;
      status = EndLease(std::move(lease), LeaseState::kRevoked,
                        {"it has no sessions and nobody renewed it", EndCause::kNamesNobody});
    }
    if (status.ok()) continue;
    if (const LogPermit permit = log_.Ask("", kStoreLine)) {
      permit.Error("cannot end a lease: ", status.message());
    }
  }
}

void Scheduler::Housekeep() {
  MutexLock lock(&mu_);
  const absl::Time now = Now();
  HousekeepServers(now);
  RefreshServers(now);
  HousekeepMoves(now);
  HousekeepLeases(now);
  pool_.Advance(now);
  TellNotices(now);
  EndDueLeases();
  if (const absl::Status status = anchors_.Write(store_.get(), now); !status.ok()) {
    if (const LogPermit permit = log_.Ask("", kStoreLine)) {
      permit.Error("cannot write the servers' anchors: ", status.message());
    }
  }
  const auto rotated = keys_.RotateIfDue(now);
  if (!rotated.ok()) {
    if (const LogPermit permit = log_.Ask("", kStoreLine)) {
      permit.Error("cannot make a new key: ", rotated.status().message());
    }
  }
  if (rotated.ok() && *rotated) LogInfo("made a new key");
}

}  // namespace warpline::scheduler
