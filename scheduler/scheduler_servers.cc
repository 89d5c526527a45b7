// The scheduler's side of its servers: their credentials, their reports, and what it knows of them.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "common/given_name.h"
#include "common/log/log.h"
#include "common/text.h"
#include "proto/page.h"
#include "proto/report_limits.h"
#include "scheduler/scheduler.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::ReportReply;
using warpline_internal::ServerReply;
using warpline_internal::ServerReport;
using warpline_internal::ServerRequest;
using warpline_internal::SessionsReport;

constexpr size_t kMaxText = 256;
constexpr int kMaxDevices = 64;
constexpr size_t kMaxName = 128;
// The time until the next report where the answer had no room for all that is to be told.
constexpr absl::Duration kTellOnInterval = absl::Milliseconds(50);

absl::Status CheckNewServer(const std::string& name) {
  return CheckGivenName("server", name, kMaxName, "-_.:");
}

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("a malformed report: ", what));
}

// Servers make these texts themselves, and operators' terminals show them.
bool IsShortText(absl::string_view text) {
  return text.size() <= kMaxText && absl::c_all_of(text, absl::ascii_isprint);
}

absl::Status CheckDevice(const warpline_internal::ReportedDevice& device) {
  // Commas separate devices, so an id must not contain one.
  if (!absl::StartsWith(device.uuid(), "GPU-") || !IsShortText(device.uuid()) ||
      absl::StrContains(device.uuid(), ',')) {
    return Malformed(absl::StrCat("a device's UUID is ", Quoted(FitText(device.uuid(), kMaxText))));
  }
  if (!IsShortText(device.name()) || !IsShortText(device.backend())) {
    return Malformed("a device's name or backend is no short text of ASCII");
  }
  if (device.capacity_bytes() >= (1ull << 50)) {
    return Malformed("a device has 1024 TiB of memory, or more");
  }
  return absl::OkStatus();
}

absl::Status CheckReport(const ServerReport& report) {
  if (!IsPlainName(report.name(), kMaxName, "-_.:")) {
    return Malformed("the server's name is no name");
  }
  if (report.endpoint().empty() || !IsShortText(report.endpoint()) ||
      !IsShortText(report.version()) || !IsShortText(report.audit_head())) {
    return Malformed("endpoint, version or audit_head is no short text of ASCII");
  }
  if (report.devices_size() > kMaxDevices) {
    return Malformed(absl::StrCat("it has more than ", kMaxDevices, " devices"));
  }
  if (std::max(report.leases_size(), report.idle_leases_size()) > kMostReportedSessions) {
    return Malformed(absl::StrCat("it has more than ", kMostReportedSessions, " leases"));
  }
  std::set<std::string> uuids;
  for (const auto& device : report.devices()) {
    if (auto status = CheckDevice(device); !status.ok()) return status;
    if (!uuids.insert(device.uuid()).second) return Malformed("two devices have one UUID");
  }
  return CheckSessions(report.sessions());
}

void SetCordon(const CordonRecord& cordon, absl::Time now, warpline_internal::Server* to) {
  to->set_cordoned(true);
  to->set_cordon_reason(cordon.reason);
  if (cordon.drained == absl::InfiniteFuture()) return;
  to->set_drained_in_seconds(std::max(absl::ToDoubleSeconds(cordon.drained - now), 0.001));
}

// Returns true if the server has had the answer to `last`, the report before. A report that comes
// twice, because the server's client sent it again, says nothing of its first answer.
bool HeardLastAnswer(const ServerReport& report, const ServerReport& last) {
  if (!report.heard()) return false;
  // Servers of former versions do not count.
  return report.number() == 0 ||
         (report.number() == last.number() + 1 && report.instance() == last.instance());
}

}  // namespace

bool Scheduler::IsUp(const LiveServer& server, absl::Time now) const {
  return server.report.devices_size() > 0 && now - server.heard < options_.lost_after;
}

// --- Credentials.

absl::Status Scheduler::CheckServer(const std::string& name, const std::string& credential,
                                    bool local) {
  const auto hash = store_->ServerCredential(name);
  if (!hash.empty() && EqualSecrets(hash, HashCredential(credential))) {
    return absl::OkStatus();
  }
  if (hash.empty() && local && credential.empty()) {
    if (store_->Tenants().empty() && store_->ServersWithCredential().empty()) {
      return absl::OkStatus();
    }
  }
  ++counts_.rejected;
  return absl::UnauthenticatedError(absl::StrCat(
      "the scheduler does not take a server by the name of ", name,
      " with this credential: `warpline servers add NAME` prints one for --name=NAME and the file "
      "of --scheduler_credential_file"));
}

absl::StatusOr<ServerReply> Scheduler::PutServer(const ServerRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto known = store_->ServersWithCredential();
  if (absl::c_find(known, request.name()) == known.end()) {
    if (auto status = CheckNewServer(request.name()); !status.ok()) return status;
  }
  if (request.create() && known.size() >= options_.max_servers) {
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
      request.name(),
      {{"its server was removed from the pool", EndCause::kNamesNobody}, Now() + Afterlife()});
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
  if (auto status = CheckServer(report.name(), report.credential(), local); !status.ok()) {
    return status;
  }
  const absl::Time now = Now();
  if (auto status = CheckInstance(report, now); !status.ok()) return status;
  if (auto status = NoteServer(report); !status.ok()) return status;
  LiveServer& live = servers_[report.name()];
  const bool heard = HeardLastAnswer(report, live.report);
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
                          a.name() == b.name() && a.backend() == b.backend() &&
                          a.nvlink_group() == b.nvlink_group() && a.numa_group() == b.numa_group();
                 });
  live.report = report;
  live.report.clear_credential();
  live.report.clear_sessions();
  live.sessions.Begin(report);
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
  ReportAnswer answer(&reply);
  live.ended.NextAnswer(heard);
  if (live.ended.telling()) {
    live.ended.Tell(store_->EndedLeasesOn(report.name()), &answer);
  }
  if (auto status = KeepLeases(report, now, &answer); !status.ok()) return status;
  // Not before: a lease with sessions whose new time could not be written would end for having
  // none.
  live.told_sessions = now;
  if (auto status = EndIdleLeases(report, now, &live, answer); !status.ok()) return status;
  TellEnding(report, now, &answer);
  reply.set_leases_to_move(MoveAway(report, now, &live));
  TellMoves(report.name(), now, &answer);
  if (live.ended.telling()) {
    reply.set_interval_ms(static_cast<uint32_t>(
        absl::ToInt64Milliseconds(std::min(options_.report_interval, kTellOnInterval))));
  }
  return reply;
}

absl::Status Scheduler::KeepLeases(const ServerReport& report, absl::Time now,
                                   ReportAnswer* answer) {
  for (const auto& reported : report.leases()) {
    if (answer->Tells(reported.lease())) continue;
    auto lease = store_->FindLease(reported.lease());
    const bool ours = lease.has_value() && lease->server == report.name();
    if (!ours && lease.has_value() && MayStillReport(report, *lease, now)) continue;
    if (!ours || lease->state != LeaseState::kActive) {
      // Where it has no room, the server reports it again.
      answer->AddEnded(reported.lease(),
                       ours ? lease->reason
                            : EndReason{lease.has_value() && lease->moved.from == report.name()
                                            ? "it has moved to another server"
                                            : "the scheduler does not know it",
                                        EndCause::kNamesNobody});
      continue;
    }
    // Sessions that run keep their lease.
    if (lease->expires - now > options_.lease_ttl / 2) continue;
    lease->expires = std::min(now + options_.lease_ttl, lease->ends);
    if (auto status = store_->UpdateLease(*lease); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Scheduler::EndIdleLeases(const ServerReport& report, absl::Time now, LiveServer* live,
                                      const ReportAnswer& answer) {
  std::set<std::string> in_use;
  for (const auto& reported : report.leases()) in_use.insert(reported.lease());
  for (const std::string& id : report.idle_leases()) {
    // A session has joined since the lease fell idle, as when a client opens again what broke.
    if (in_use.count(id) > 0) continue;
    auto lease = store_->FindLease(id);
    if (!lease.has_value() || lease->server != report.name()) continue;
    if (!lease->by_sessions && lease->state == LeaseState::kActive) continue;
    // This answer may be lost, and then the next one has to tell it again.
    if (answer.Tells(id)) continue;
    if (lease->state != LeaseState::kActive && !live->ended.WasTold(id)) {
      // The server has not been told yet, and the lease's token may still be good.
      live->ended.TellAll();
      continue;
    }
    if (auto status = store_->RemoveLease(id); !status.ok()) return status;
    renewals_.Forget(id);
    pool_.Release(id, now);
    if (const LogPermit permit = log_.Ask(TenantKey(lease->tenant), kOverLine)) {
      permit.Info("over lease=", id, " tenant=", lease->tenant, " server=", report.name());
    }
  }
  NoteEndedMoves(now);
  return absl::OkStatus();
}

void Scheduler::TellEnding(const ServerReport& report, absl::Time now, ReportAnswer* answer) {
  for (const auto& reported : report.leases()) {
    const LeaseNotice* const notice = pool_.NoticeFor(reported.lease());
    if (notice == nullptr) continue;
    const int64_t ms = absl::ToInt64Milliseconds(notice->deadline - now);
    const auto ends_in_ms = static_cast<uint32_t>(std::clamp<int64_t>(ms, 1, int64_t{1} << 31));
    if (!answer->AddEnding(reported.lease(), notice->reason, ends_in_ms)) return;
  }
}

absl::Status Scheduler::ReportSessions(const SessionsReport& more, bool local) {
  if (auto status = CheckSessions(more.sessions()); !status.ok()) return status;
  MutexLock lock(&mu_);
  if (auto status = CheckServer(more.name(), more.credential(), local); !status.ok()) return status;
  const auto server = servers_.find(more.name());
  if (server == servers_.end()) {
    return absl::FailedPreconditionError(absl::StrCat("server ", more.name(), " has not reported"));
  }
  return server->second.sessions.Add(more);
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
    if (store_->ServerCredential(name).empty()) anchors_.Forget(name);
    records_.erase(name);
    pool_.RemoveServer(name, now);
    server = servers_.erase(server);
  }
}

warpline_internal::Server Scheduler::ListedServer(const ServerRecord& record, absl::Time now) {
  const LiveServer& live = servers_[record.name];
  warpline_internal::Server to;
  to.set_name(record.name);
  to.set_endpoint(record.endpoint);
  to.set_version(record.version);
  to.set_state(options_.only_reads      ? "unknown"
               : !IsUp(live, now)       ? "lost"
               : live.report.draining() ? "draining"
                                        : "up");
  to.set_heard_seconds_ago(absl::ToDoubleSeconds(now - live.heard));
  for (const DeviceRecord& device : record.devices) {
    auto* added = to.add_devices();
    added->set_uuid(device.uuid);
    added->set_name(device.name);
    added->set_backend(device.backend);
    added->set_capacity_bytes(device.capacity_bytes);
    for (const auto& reported : live.report.devices()) {
      if (reported.uuid() == device.uuid) added->set_granted_bytes(reported.granted_bytes());
    }
  }
  to.set_sessions(static_cast<uint32_t>(live.sessions.all().size()));
  return to;
}

absl::StatusOr<warpline_internal::ServerList> Scheduler::Servers(
    const std::string& credential, const warpline_internal::Page& page) {
  if (auto status = CheckOperator(credential); !status.ok()) return status;
  MutexLock lock(&mu_);
  const auto leases = store_->ActiveLeases();
  const auto credentials = store_->ServersWithCredential();
  std::map<std::string, CordonRecord> cordoned;
  for (const CordonRecord& cordon : store_->Cordons()) cordoned[cordon.server] = cordon;
  std::map<std::string, LeaseTotals> totals;
  for (const LeaseRecord& lease : leases) totals[lease.server].Add(lease);
  const std::set<std::string> with_credential(credentials.begin(), credentials.end());
  std::set<std::string> names = with_credential;
  for (const auto& [name, record] : records_) names.insert(name);
  const absl::Time now = Now();
  PageCut cut(page);
  warpline_internal::ServerList list;
  list.set_from_follower(options_.only_reads);
  for (const std::string& name : names) {
    if (!cut.Takes(name)) continue;
    auto* const to = list.add_servers();
    const auto record = records_.find(name);
    if (record != records_.end()) {
      *to = ListedServer(record->second, now);
    } else {
      to->set_name(name);
      to->set_state("added");
    }
    if (const auto cordon = cordoned.find(name); cordon != cordoned.end()) {
      if (to->state() == "up" || to->state() == "draining") {
        to->set_state(cordon->second.drained == absl::InfiniteFuture() ? "cordoned" : "draining");
      }
      SetCordon(cordon->second, now, to);
    }
    to->set_audit_head(anchors_.HeadOf(name));
    to->set_audit_lost(anchors_.LostOf(name));
    to->set_has_credential(with_credential.count(name) > 0);
    const LeaseTotals& leased = totals[name];
    to->set_leases(leased.leases);
    to->set_leased_bytes(leased.bytes);
    cut.Add(*to);
  }
  return cut.Finish(std::move(list));
}

}  // namespace warpline::scheduler
