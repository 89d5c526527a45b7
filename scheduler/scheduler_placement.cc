// The scheduler's use of the placement library: requests for leases, servers that are cordoned, and
// leases that have to end.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "common/log/log.h"
#include "common/text.h"
#include "lease/device_match.h"
#include "lease/entitlement.h"
#include "proto/devices.h"
#include "proto/refusal.h"
#include "scheduler/scheduler.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;
using warpline_placement::Decision;

constexpr size_t kLeaseIdBytes = 8;
// A lease that asks for no number of sessions gets the tenant's sessions divided by this.
constexpr uint32_t kSessionsShare = 4;
// Bounds the ended leases that are kept for each tenant, so that a tenant that acquires and
// releases all the time does not fill the table.
constexpr size_t kMaxEnded = 64;

// The number of sessions that a new lease gets when its tenant's leases have `held` of them.
absl::StatusOr<uint32_t> SessionsFor(const TenantRecord& tenant, uint32_t wanted, uint64_t held,
                                     bool by_sessions) {
  if (wanted > tenant.max_lease_sessions) {
    return absl::ResourceExhaustedError(absl::StrCat("a lease of tenant ", tenant.name,
                                                     " may have ", tenant.max_lease_sessions,
                                                     " sessions; ", wanted, " wanted"));
  }
  if (tenant.max_sessions == 0) return wanted == 0 ? tenant.max_lease_sessions : wanted;
  const uint64_t left = tenant.max_sessions - std::min<uint64_t>(tenant.max_sessions, held);
  if (left == 0 || wanted > left) {
    return absl::ResourceExhaustedError(absl::StrCat("tenant ", tenant.name, " may have ",
                                                     tenant.max_sessions,
                                                     " sessions and its leases hold ", held));
  }
  if (wanted != 0) return wanted;
  // A client that dialled the scheduler is one process.
  const uint32_t share = by_sessions ? 1 : std::max(1u, tenant.max_sessions / kSessionsShare);
  return static_cast<uint32_t>(std::min<uint64_t>({share, left, tenant.max_lease_sessions}));
}
constexpr size_t kMaxReason = 256;
constexpr uint32_t kMaxMembers = 1024;
constexpr absl::Duration kLongestDrain = absl::Hours(24 * 30);

// INVALID_ARGUMENT for what no session could have.
absl::StatusOr<RoomRequest> RoomFor(const AcquireRequest& request) {
  RoomRequest wanted;
  wanted.memory_bytes = request.memory_bytes();
  if (wanted.memory_bytes != 0 && wanted.memory_bytes < placement::kMemoryUnit) {
    return absl::InvalidArgumentError(
        absl::StrCat("a lease has at least ", placement::kMemoryUnit >> 20, " MiB of memory"));
  }
  wanted.gpus = std::max(1u, request.devices());
  wanted.named = ParseDeviceNames(request.device());
  if (std::max<size_t>(wanted.gpus, wanted.named.size()) > kMaxSessionDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat("a lease has at most ", kMaxSessionDevices, " devices"));
  }
  if (!wanted.named.empty() && request.devices() != 0 && wanted.gpus != wanted.named.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(wanted.gpus, " devices wanted and ", wanted.named.size(), " named"));
  }
  wanted.ticket = request.ticket();
  wanted.gang = request.gang();
  wanted.members = request.members();
  if (wanted.gang.empty() != (wanted.members == 0)) {
    return absl::InvalidArgumentError("a gang has a name and a number of members");
  }
  if (wanted.members > kMaxMembers) {
    return absl::InvalidArgumentError(absl::StrCat("a gang has at most ", kMaxMembers, " members"));
  }
  return wanted;
}

// Replaces the beginnings of UUIDs by the UUIDs, where there is one such device in the pool. Names
// of none are left as they are.
absl::Status CompleteNames(const placement::Pool& pool, std::vector<std::string>* names) {
  if (names->empty()) return absl::OkStatus();
  // Several servers may report the same device.
  std::set<std::string> reported;
  for (const placement::ServerState& server : pool.servers()) {
    for (const placement::DeviceState& device : server.devices) reported.insert(device.spec.uuid);
  }
  const std::vector<std::string> uuids(reported.begin(), reported.end());
  std::set<std::string> different;
  for (std::string& name : *names) {
    if (const auto found = FindByUuidName(uuids, name); found.has_value()) name = uuids[*found];
    if (!different.insert(name).second) {
      return absl::InvalidArgumentError("a device is named twice");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Scheduler::TakePool(absl::Time now) {
  // Who only reads decides nothing.
  if (options_.only_reads) return absl::OkStatus();
  std::map<std::string, TenantRecord> by_name;
  for (const TenantRecord& tenant : store_->Tenants()) by_name[tenant.name] = tenant;
  // Who is above comes first, so several rounds are made until nobody is left who could be put.
  std::set<std::string> put;
  for (size_t round = 0; round < placement::kMaxDepth; ++round) {
    for (const auto& [name, tenant] : by_name) {
      if (put.count(name) != 0 || (!tenant.parent.empty() && put.count(tenant.parent) == 0)) {
        continue;
      }
      put.insert(name);
      if (auto status = pool_.PutTenant(tenant, now); !status.ok()) return status;
    }
  }
  for (auto& [name, tenant] : by_name) {
    if (put.count(name) != 0) continue;
    LogWarning("tenant=", name, " is taken as one at the top: its parent=", tenant.parent,
               " is not there");
    TenantRecord at_top = tenant;
    at_top.parent.clear();
    if (auto status = pool_.PutTenant(at_top, now); !status.ok()) return status;
  }
  // Until servers report, only what was known of them is there.
  for (const auto& [name, record] : records_) {
    auto& report = servers_[name].report;
    for (const DeviceRecord& device : record.devices) {
      auto* const known = report.add_devices();
      known->set_uuid(device.uuid);
      known->set_capacity_bytes(device.capacity_bytes);
      known->set_name(device.name);
      known->set_backend(device.backend);
    }
    pool_.PutServer(name, report.devices(), /*up=*/false, now);
    report.Clear();
  }
  std::vector<LeaseRecord> in_order = store_->ActiveLeases();
  std::sort(in_order.begin(), in_order.end(), [](const LeaseRecord& a, const LeaseRecord& b) {
    return std::tie(a.created, a.id) < std::tie(b.created, b.id);
  });
  for (const LeaseRecord& lease : in_order) pool_.Restore(lease, by_name[lease.tenant], now);
  for (const CordonRecord& cordon : store_->Cordons()) pool_.PutCordon(cordon, now);
  return absl::OkStatus();
}

void Scheduler::PlaceOn(const std::string& name, LiveServer* server, absl::Time now) {
  if (options_.only_reads) return;
  server->placed_on = IsUp(*server, now) && !server->report.draining();
  pool_.PutServer(name, server->report.devices(), server->placed_on, now);
}

void Scheduler::RefreshServers(absl::Time now) {
  for (auto& [name, server] : servers_) {
    const bool up = IsUp(server, now) && !server.report.draining();
    // What never reported was put with the devices of its record.
    if (up != server.placed_on) PlaceOn(name, &server, now);
  }
}

absl::Status Scheduler::ForgetEnded(const std::string& tenant) {
  const auto ended = store_->EndedLeases(tenant);
  for (size_t i = 0; i + kMaxEnded < ended.size(); ++i) {
    if (auto status = store_->RemoveLease(ended[i]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LeaseRecord>> Scheduler::Choose(const AcquireRequest& request,
                                                             const TenantRecord& tenant,
                                                             const SliceRecord& slice,
                                                             bool by_sessions, Decision* decision) {
  const absl::Time now = Now();
  if (auto status = ForgetEnded(tenant.name); !status.ok()) return status;
  auto wanted = RoomFor(request);
  if (!wanted.ok()) return wanted.status();
  wanted->slice = slice.shape;
  wanted->slice_name = slice.name;
  const placement::Allocator& allocator = pool_.allocator();
  // Of one that waits already, or of another member of its gang, all that was seen to.
  const placement::Entry* const known =
      request.ticket().empty()
          ? nullptr
          : allocator.line().Look(tenant.name, request.ticket(), request.gang());
  if (known == nullptr && allocator.pool().allocations().size() >= options_.max_leases) {
    return absl::ResourceExhaustedError("the scheduler has as many leases as it keeps");
  }
  wanted->sessions = request.sessions();
  if (known != nullptr && request.sessions() == 0) {
    wanted->sessions = known->ask.sessions();
  } else if (known == nullptr) {
    const auto sessions = SessionsFor(
        tenant, request.sessions(), allocator.quotas().UsageOf(tenant.name).sessions, by_sessions);
    // Who waits for sessions of its tenant's other leases names how many.
    const bool may_wait = !request.ticket().empty() && request.sessions() != 0 &&
                          request.sessions() <= tenant.max_lease_sessions;
    if (!sessions.ok() && !may_wait) return sessions.status();
    if (sessions.ok()) wanted->sessions = *sessions;
  }
  RefreshServers(now);
  if (auto status = CompleteNames(allocator.pool(), &wanted->named); !status.ok()) return status;
  wanted->lease = absl::BytesToHexString(RandomBytes(kLeaseIdBytes));
  *decision = pool_.Ask(*wanted, tenant, now);
  if (decision->outcome() == warpline_placement::REFUSED) {
    if (decision->no_server()) return NoServer(decision->message());
    return absl::Status(static_cast<absl::StatusCode>(decision->code()), decision->message());
  }
  if (decision->outcome() != warpline_placement::GRANTED) return std::nullopt;
  LeaseRecord lease;
  lease.id = wanted->lease;
  lease.tenant = tenant.name;
  lease.server = decision->place().server();
  lease.devices.assign(decision->place().devices().begin(), decision->place().devices().end());
  lease.memory_bytes = decision->place().memory_bytes();
  lease.max_sessions = wanted->sessions;
  lease.program = request.program();
  lease.pid = request.pid();
  lease.created = now;
  if (tenant.max_seconds != 0) lease.ends = now + absl::Seconds(tenant.max_seconds);
  lease.expires = std::min(now + options_.lease_ttl, lease.ends);
  lease.by_sessions = by_sessions;
  return lease;
}

LeaseReply Scheduler::WaitingReply(const AcquireRequest& request, const std::string& tenant,
                                   const Decision& decision) {
  if (const LogPermit permit = log_.Ask(TenantKey(tenant), kWaitingLine)) {
    permit.Info("waits tenant=", tenant, " program=", Quoted(request.program()),
                " memory_bytes=", request.memory_bytes(), " position=", decision.position(),
                " reason=", Quoted(decision.message()));
  }
  LeaseReply reply;
  auto* const waiting = reply.mutable_waiting();
  waiting->set_position(decision.position());
  waiting->set_waiting(decision.waiting());
  waiting->set_missing_members(decision.missing());
  waiting->set_reason(decision.message());
  waiting->set_ask_again_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(absl::Nanoseconds(decision.ask_again_ns()))));
  return reply;
}

absl::Status Scheduler::Withdraw(const warpline_internal::WithdrawRequest& request, bool local,
                                 const std::string& peer) {
  if (request.ticket().size() > kMaxReason) {
    return absl::InvalidArgumentError("a malformed request");
  }
  const auto caller = callers_.Identify(request.credential(), peer);
  MutexLock lock(&mu_);
  const auto tenant = TenantOf(caller, local);
  if (!tenant.ok()) return tenant.status();
  if (auto status = CountCall(tenant->name); !status.ok()) return status;
  if (pool_.allocator().line().Look(tenant->name, request.ticket(), "") == nullptr) {
    return absl::OkStatus();
  }
  pool_.Withdraw(tenant->name, request.ticket(), Now());
  TellNotices(Now());
  return absl::OkStatus();
}

// --- Leases that have to end.

void Scheduler::TellNotices(absl::Time now) {
  NoteEndedMoves(now);
  for (const LeaseNotice& notice : pool_.TakeNotices()) {
    // Its holder is to hear of it with the next renewal.
    renewals_.Forget(notice.lease);
    const auto* const allocation = pool_.allocator().pool().Find(notice.lease);
    const std::string tenant = allocation == nullptr ? "" : allocation->tenant;
    if (const LogPermit permit = log_.Ask(TenantKey(tenant), kNoticeLine)) {
      permit.Info(
          notice.cancelled ? "stays lease=" : "ends soon lease=", notice.lease, " tenant=", tenant,
          " in_seconds=",
          absl::ToInt64Seconds(notice.cancelled ? absl::ZeroDuration() : notice.deadline - now),
          " reason=", Quoted(notice.reason.text));
    }
  }
}

void Scheduler::EndDueLeases() {
  for (const LeaseNotice& due : pool_.Due()) {
    auto lease = store_->FindLease(due.lease);
    absl::Status status;
    if (lease.has_value() && lease->state == LeaseState::kActive) {
      ++counts_.preempted;
      status = EndLease(*std::move(lease), LeaseState::kRevoked, due.reason);
    } else {
      pool_.Release(due.lease, Now());
    }
    if (status.ok()) continue;
    if (const LogPermit permit = log_.Ask("", kStoreLine)) {
      permit.Error("cannot end a lease: ", status.message());
    }
  }
  NoteEndedMoves(Now());
}

absl::Status Scheduler::CordonServer(const warpline_internal::CordonRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  const auto drained_in = absl::Milliseconds(
      static_cast<int64_t>(std::min<uint64_t>(request.drained_in_ms(), 1ull << 50)));
  if (request.has_drained_in_ms() && (drained_in > kLongestDrain || !request.cordoned())) {
    return absl::InvalidArgumentError("a server is drained within 30 days");
  }
  MutexLock lock(&mu_);
  const absl::Time now = Now();
  const auto credential = store_->ServerCredential(request.name());
  if (records_.count(request.name()) == 0 && credential.empty()) {
    return absl::NotFoundError(absl::StrCat("there is no server ", request.name()));
  }
  if (!request.cordoned()) {
    if (auto status = store_->RemoveCordon(request.name()); !status.ok()) return status;
    pool_.RemoveCordon(request.name(), now);
    LogInfo("uncordoned server=", request.name());
  } else {
    CordonRecord cordon{request.name(), FitText(request.reason(), kMaxReason)};
    if (request.has_drained_in_ms()) cordon.drained = now + drained_in;
    if (auto status = store_->PutCordon(cordon); !status.ok()) return status;
    pool_.PutCordon(cordon, now);
    LogInfo(request.has_drained_in_ms() ? "drains" : "cordoned", " server=", request.name(),
            " reason=", Quoted(cordon.reason));
  }
  TellNotices(now);
  return absl::OkStatus();
}

}  // namespace warpline::scheduler
