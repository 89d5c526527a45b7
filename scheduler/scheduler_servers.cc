// The scheduler's side of its servers: their credentials, their reports, and what it knows of them.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "common/given_name.h"
#include "common/log/log.h"
#include "common/text.h"
#include "scheduler/scheduler.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::ReportReply;
using warpline_internal::ServerReply;
using warpline_internal::ServerReport;
using warpline_internal::ServerRequest;

constexpr size_t kMaxText = 256;
constexpr int kMaxDevices = 64;
constexpr int kMaxSessions = 8192;
constexpr size_t kMaxName = 128;

absl::Status CheckNewServer(const std::string& name) {
  return CheckGivenName("server", name, kMaxName, "-_.:");
}

absl::Status CheckReport(const ServerReport& report) {
  bool fits = IsPlainName(report.name(), kMaxName, "-_.:") && !report.endpoint().empty() &&
              report.endpoint().size() <= kMaxText && report.version().size() <= kMaxText &&
              report.devices_size() <= kMaxDevices && report.sessions_size() <= kMaxSessions &&
              report.leases_size() <= kMaxSessions && report.idle_leases_size() <= kMaxSessions &&
              report.audit_head().size() <= kMaxText;
  std::set<std::string> uuids;
  for (const auto& device : report.devices()) {
    // Commas separate devices, so an id must not contain one.
    fits = fits && uuids.insert(device.uuid()).second && absl::StartsWith(device.uuid(), "GPU-") &&
           device.uuid().size() <= kMaxText && !absl::StrContains(device.uuid(), ',') &&
           device.name().size() <= kMaxText && device.backend().size() <= kMaxText &&
           device.capacity_bytes() < (1ull << 50);
  }
  for (const auto& session : report.sessions()) {
    fits = fits && session.program().size() <= kMaxText &&
           session.reason().size() <= 4 * kMaxText && session.memory_refusal().size() <= kMaxText &&
           session.more_gpus_size() <= kMaxDevices;
  }
  return fits ? absl::OkStatus() : absl::InvalidArgumentError("a malformed report");
}

void SetCordon(const CordonRecord& cordon, absl::Time now, warpline_internal::Server* to) {
  to->set_cordoned(true);
  to->set_cordon_reason(cordon.reason);
  if (cordon.drained == absl::InfiniteFuture()) return;
  to->set_drained_in_seconds(std::max(absl::ToDoubleSeconds(cordon.drained - now), 0.001));
}

}  // namespace

bool Scheduler::IsUp(const LiveServer& server, absl::Time now) const {
  return server.report.devices_size() > 0 && now - server.heard < options_.lost_after;
}

// --- Credentials.

absl::Status Scheduler::CheckServer(const ServerReport& report, bool local) {
  const auto hash = store_->ServerCredential(report.name());
  if (!hash.ok()) return hash.status();
  if (!hash->empty() && EqualSecrets(*hash, HashCredential(report.credential()))) {
    return absl::OkStatus();
  }
  if (hash->empty() && local && report.credential().empty()) {
    const auto tenants = store_->Tenants();
    if (!tenants.ok()) return tenants.status();
    const auto servers = store_->ServersWithCredential();
    if (!servers.ok()) return servers.status();
    if (tenants->empty() && servers->empty()) return absl::OkStatus();
  }
  ++counts_.rejected;
  return absl::UnauthenticatedError(absl::StrCat(
      "the scheduler does not take a server by the name of ", report.name(),
      " with this credential: `warpline servers add NAME` prints one for --name=NAME and the file "
      "of --scheduler_credential_file"));
}

absl::StatusOr<ServerReply> Scheduler::PutServer(const ServerRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto known = store_->ServersWithCredential();
  if (!known.ok()) return known.status();
  if (absl::c_find(*known, request.name()) == known->end()) {
    if (auto status = CheckNewServer(request.name()); !status.ok()) return status;
  }
  if (request.create() && known->size() >= options_.max_servers) {
    return absl::ResourceExhaustedError("the scheduler has as many servers as it keeps");
  }
  ServerReply reply;
  reply.set_credential(NewCredential());
  const std::string hash = HashCredential(reply.credential());
  const absl::Status status = request.create()
                                  ? store_->AddServerCredential(request.name(), hash)
                                  : store_->UpdateServerCredential(request.name(), hash);
  if (!status.ok()) return status;
  // Who gives a server another credential trusts it anew.
  if (!request.create()) {
    anchors_.AcceptLoss(request.name());
    if (auto written = anchors_.Write(store_.get(), Now()); !written.ok()) return written;
  }
  LogInfo(request.create() ? "added" : "changed credential of", " server=", request.name());
  return reply;
}

absl::Status Scheduler::RemoveServer(const ServerRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto status = store_->RemoveServer(
      request.name(), {"its server was removed from the pool", Now() + Afterlife()});
  if (!status.ok()) return status;
  renewals_.ForgetAll();
  pool_.ReleaseOfServer(request.name(), Now());
  pool_.RemoveServer(request.name(), Now());
  TellNotices(Now());
  LogInfo("removed server=", request.name());
  records_.erase(request.name());
  servers_.erase(request.name());
  anchors_.Forget(request.name());
  return absl::OkStatus();
}

// --- Reports.

absl::Status Scheduler::CheckInstance(const ServerReport& report, absl::Time now) {
  const auto server = servers_.find(report.name());
  if (server == servers_.end()) return absl::OkStatus();
  const ServerInstance& instance = server->second.instance;
  if (instance.Takes(report.instance(), report.endpoint(), now, options_.lost_after)) {
    return absl::OkStatus();
  }
  ++counts_.duplicates;
  if (const LogPermit permit = log_.Ask(ServerKey(report.name()), kDuplicateLine)) {
    permit.Warning("refused another server=", report.name(),
                   " endpoint=", Quoted(report.endpoint()),
                   " while one reports from endpoint=", Quoted(instance.endpoint()));
  }
  return absl::AlreadyExistsError(absl::StrCat(
      "another server reports by the name of ", report.name(), ", from ", instance.endpoint(),
      ": give this one another --name and what `warpline servers add` prints for that, or end the "
      "other one, in whose place it is taken when nothing was heard of that for ",
      absl::FormatDuration(options_.lost_after)));
}

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
  if (known == records_.end()) {
    if (auto status = CheckNewServer(record.name); !status.ok()) return status;
  }
  if (known == records_.end() && records_.size() >= options_.max_servers) {
    return absl::ResourceExhaustedError("the scheduler has as many servers as it keeps");
  }
  if (known != records_.end() && known->second == record) return absl::OkStatus();
  if (auto status = store_->PutServer(record); !status.ok()) return status;
  renewals_.ForgetAll();
  if (const LogPermit permit = log_.Ask(ServerKey(record.name), kServerLine)) {
    permit.Info(known == records_.end() ? "registered" : "changed", " server=", record.name,
                " endpoint=", record.endpoint, " devices=", record.devices.size());
  }
  records_[record.name] = std::move(record);
  return absl::OkStatus();
}

absl::Status Scheduler::TellEnded(const std::string& server, ReportReply* reply) {
  const auto leases = store_->EndedLeasesOn(server);
  if (!leases.ok()) return leases.status();
  for (const LeaseRecord& lease : *leases) {
    auto* const ended = reply->add_ended();
    ended->set_lease(lease.id);
    ended->set_reason(lease.reason);
  }
  return absl::OkStatus();
}

absl::Status Scheduler::NoteAuditHead(const ServerReport& report, absl::Time now) {
  const auto had = anchors_.Note(report.name(), report.audit_head());
  if (!had.has_value()) return absl::OkStatus();
  if (const LogPermit permit = log_.Ask(ServerKey(report.name()), kServerLine)) {
    permit.Warning("the audit of server=", report.name(), " lost records: it had anchor=", *had,
                   " now=", FitText(report.audit_head(), kMaxText));
  }
  return anchors_.Write(store_.get(), now);
}

absl::StatusOr<ReportReply> Scheduler::Report(const ServerReport& report, bool local) {
  if (auto status = CheckReport(report); !status.ok()) return status;
  MutexLock lock(&mu_);
  if (auto status = CheckServer(report, local); !status.ok()) return status;
  const absl::Time now = Now();
  if (auto status = CheckInstance(report, now); !status.ok()) return status;
  if (auto status = NoteServer(report); !status.ok()) return status;
  LiveServer& live = servers_[report.name()];
  if (live.lost) {
    if (const LogPermit permit = log_.Ask(ServerKey(report.name()), kServerLine)) {
      permit.Info("up server=", report.name());
    }
  }
  live.lost = false;
  live.heard = now;
  live.instance.Note(report.instance(), report.endpoint(), report.goodbye(), now);
  if (auto status = NoteAuditHead(report, now); !status.ok()) return status;
  const bool same_devices =
      std::equal(report.devices().begin(), report.devices().end(), live.report.devices().begin(),
                 live.report.devices().end(), [](const auto& a, const auto& b) {
                   return a.uuid() == b.uuid() && a.capacity_bytes() == b.capacity_bytes() &&
                          a.nvlink_group() == b.nvlink_group() && a.numa_group() == b.numa_group();
                 });
  live.report = report;
  live.report.clear_credential();
  const bool takes_leases = IsUp(live, now) && !report.draining();
  if (!same_devices || live.placed_on != takes_leases) PlaceOn(report.name(), &live, now);
  ReportReply reply;
  for (const VerifyKey& key : keys_.VerifyKeys()) {
    auto* added = reply.add_keys();
    added->set_id(key.id);
    added->set_key(key.public_key);
  }
  reply.set_interval_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.report_interval)));
  reply.set_now_unix_ms(absl::ToUnixMillis(now));
  reply.set_epoch(store_->epoch());
  if (live.tell_ended || !report.heard()) {
    if (auto status = TellEnded(report.name(), &reply); !status.ok()) return status;
    live.tell_ended = false;
    live.told_ended.clear();
    for (const auto& ended : reply.ended()) live.told_ended.insert(ended.lease());
  }
  std::set<std::string> told;
  for (const auto& ended : reply.ended()) told.insert(ended.lease());
  std::set<std::string> in_use;
  for (const auto& reported : report.leases()) {
    in_use.insert(reported.lease());
    if (told.count(reported.lease()) != 0) continue;
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
  // Not before: a lease with sessions whose new time could not be written would end for having
  // none.
  live.told_sessions = now;
  for (const std::string& id : report.idle_leases()) {
    // A session has joined since the lease fell idle, as when a client opens again what broke.
    if (in_use.count(id) > 0) continue;
    auto lease = store_->FindLease(id);
    if (!lease.ok()) return lease.status();
    if (!lease->has_value() || (*lease)->server != report.name()) continue;
    if (!(*lease)->by_sessions && (*lease)->state == LeaseState::kActive) continue;
    // This answer may be lost, and then the next one has to tell it again.
    if (told.count(id) > 0) continue;
    if ((*lease)->state != LeaseState::kActive && live.told_ended.count(id) == 0) {
      // It has ended by a change whose outcome was not known, so nobody had the server told. Its
      // token may still be good.
      live.tell_ended = true;
      continue;
    }
    if (auto status = store_->RemoveLease(id); !status.ok()) return status;
    renewals_.Forget(id);
    pool_.Release(id, now);
    if (const LogPermit permit = log_.Ask(TenantKey((*lease)->tenant), kOverLine)) {
      permit.Info("over lease=", id, " tenant=", (*lease)->tenant, " server=", report.name());
    }
  }
  for (const auto& reported : report.leases()) {
    const LeaseNotice* const notice = pool_.NoticeFor(reported.lease());
    if (notice == nullptr) continue;
    auto* const ending = reply.add_ending();
    ending->set_lease(reported.lease());
    ending->set_reason(notice->reason);
    ending->set_ends_in_ms(static_cast<uint32_t>(std::clamp<int64_t>(
        absl::ToInt64Milliseconds(notice->deadline - now), 1, int64_t{1} << 31)));
  }
  return reply;
}

void Scheduler::HousekeepServers(absl::Time now) {
  for (auto server = servers_.begin(); server != servers_.end();) {
    auto& [name, live] = *server;
    if (!live.lost && !IsUp(live, now)) {
      live.lost = true;
      live.lost_at = now;
      if (const LogPermit permit = log_.Ask(ServerKey(name), kServerLine)) {
        permit.Warning("lost server=", name,
                       " silent_seconds=", absl::ToInt64Seconds(now - live.heard));
      }
    }
    // Counts from when the loss was noticed: after a jump of the clock, or a pause of this machine,
    // servers get their chance to report.
    if (!live.lost || now - live.lost_at < options_.forget_after) {
      ++server;
      continue;
    }
    if (auto status = store_->ForgetServer(name); !status.ok()) {
      if (const LogPermit permit = log_.Ask("", kStoreLine)) {
        permit.Error("cannot forget a server: ", status.message());
      }
      ++server;
      continue;
    }
    if (const LogPermit permit = log_.Ask(ServerKey(name), kServerLine)) {
      permit.Info("forgot server=", name);
    }
    // Whoever stops a server for a while is not rid of its anchor. One without a credential may
    // come back by any name.
    const auto credential = store_->ServerCredential(name);
    if (credential.ok() && credential->empty()) anchors_.Forget(name);
    records_.erase(name);
    pool_.RemoveServer(name, now);
    server = servers_.erase(server);
  }
}

absl::StatusOr<warpline_internal::ServerList> Scheduler::Servers(const std::string& credential) {
  if (auto status = CheckOperator(credential); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto leases = store_->Leases();
  if (!leases.ok()) return leases.status();
  const auto credentials = store_->ServersWithCredential();
  if (!credentials.ok()) return credentials.status();
  const auto cordons = store_->Cordons();
  if (!cordons.ok()) return cordons.status();
  std::map<std::string, CordonRecord> cordoned;
  for (const CordonRecord& cordon : *cordons) cordoned[cordon.server] = cordon;
  const absl::Time now = Now();
  warpline_internal::ServerList list;
  list.set_from_follower(options_.only_reads);
  for (const auto& [name, record] : records_) {
    const LiveServer& live = servers_[name];
    const bool up = IsUp(live, now);
    auto* to = list.add_servers();
    to->set_name(name);
    to->set_endpoint(record.endpoint);
    to->set_version(record.version);
    to->set_state(options_.only_reads      ? "unknown"
                  : !up                    ? "lost"
                  : live.report.draining() ? "draining"
                                           : "up");
    if (const auto cordon = cordoned.find(name); cordon != cordoned.end()) {
      if (up && !options_.only_reads) {
        to->set_state(cordon->second.drained == absl::InfiniteFuture() ? "cordoned" : "draining");
      }
      SetCordon(cordon->second, now, to);
    }
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
    to->set_audit_head(anchors_.HeadOf(name));
    to->set_audit_lost(anchors_.LostOf(name));
    to->set_sessions(static_cast<uint32_t>(live.report.sessions_size()));
    for (const LeaseRecord& lease : *leases) {
      if (lease.server != name || lease.state != LeaseState::kActive) continue;
      to->set_leases(to->leases() + 1);
      to->set_leased_bytes(to->leased_bytes() + lease.total_bytes());
    }
  }
  for (const std::string& name : *credentials) {
    const auto known = std::find_if(list.mutable_servers()->begin(), list.mutable_servers()->end(),
                                    [&](const auto& server) { return server.name() == name; });
    if (known != list.mutable_servers()->end()) {
      known->set_has_credential(true);
      continue;
    }
    auto* to = list.add_servers();
    to->set_name(name);
    to->set_state("added");
    if (const auto cordon = cordoned.find(name); cordon != cordoned.end()) {
      SetCordon(cordon->second, now, to);
    }
    to->set_audit_head(anchors_.HeadOf(name));
    to->set_audit_lost(anchors_.LostOf(name));
    to->set_has_credential(true);
  }
  return list;
}

}  // namespace warpline::scheduler
