#include "server/gpu_server/admin/admin_service.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/serving/listen_address.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "lease/entitlement.h"
#include "lease/token.h"
#include "proto/page.h"
#include "server/hostlink/handover/session_usage.h"

namespace warpline::server {
namespace {

constexpr size_t kMaxText = 256;
constexpr absl::Duration kMaxReplaceWait = absl::Minutes(1);
// With an error each has some hundred bytes.
constexpr size_t kMostReplacedInAnswer = 1000;

// Rows of the same name in `warpline stat` become one.
void FillUsage(const SessionUsage& from, warpline_internal::SessionStat* to) {
  std::map<std::string_view, warpline_internal::UsageStat*> known;
  for (const UsageInfo& row : kUsageTable) {
    warpline_internal::UsageStat*& stat = known[row.stat];
    if (stat == nullptr) stat = to->add_usage();
    stat->set_name(row.stat);
    stat->set_bytes(row.kind == UsageKind::kHeldBytes);
    stat->set_value(stat->value() + from[row.usage]);
  }
  to->set_commands_in_flight(from[Usage::kCommandsInFlight]);
  to->set_handles(from[Usage::kHandles]);
  to->set_module_bytes(from[Usage::kModuleBytes]);
  to->set_staging_bytes(from[Usage::kStagingBytes]);
  to->set_limits_reached(known["limits_reached"]->value());
}

void AddUsage(const char* name, uint64_t value, bool bytes, warpline_internal::SessionStat* to) {
  auto* const stat = to->add_usage();
  stat->set_name(name);
  stat->set_value(value);
  stat->set_bytes(bytes);
}

// What the session has had of its devices' engines.
void FillEngines(const dispatch::DispatchUsage& engines, warpline_internal::SessionStat* to) {
  static constexpr const char* kBusy[] = {"compute_us", "copy_in_us", "copy_out_us"};
  for (size_t i = 0; i < engines.size(); ++i) {
    AddUsage(kBusy[i], static_cast<uint64_t>(engines[i].busy_ns) / 1000, false, to);
  }
  AddUsage("copied_in", engines[1].bytes, true, to);
  AddUsage("copied_out", engines[2].bytes, true, to);
}

}  // namespace

// Program, peer and reason may hold what a tenant wrote, cut anywhere.
void FillSessionStat(const SessionSnapshot& from, warpline_internal::SessionStat* to) {
  to->set_id(from.id);
  to->set_state(from.state);
  to->set_program(FitText(from.client.program, kMaxText));
  to->set_client_pid(from.client.pid);
  to->set_peer(FitText(from.client.peer, 2 * kMaxText));
  to->set_transport(from.client.transport);
  to->set_tier(from.tier);
  to->set_gpu(from.devices.empty() ? -1 : from.devices.front().ordinal);
  for (size_t i = 1; i < from.devices.size(); ++i) to->add_more_gpus(from.devices[i].ordinal);
  to->set_worker_pid(static_cast<uint32_t>(from.worker_pid));
  to->set_age_seconds(absl::ToDoubleSeconds(SteadyNow() - from.since));
  to->set_quota_bytes(from.memory.quota_bytes);
  to->set_memory_bytes(from.memory.bytes);
  to->set_away_bytes(from.memory.away_bytes);
  to->set_host_window_bytes(from.memory.window_bytes);
  to->set_frames_received(from.traffic.frames_received);
  to->set_frames_sent(from.traffic.frames_sent);
  to->set_commands(from.traffic.commands);
  to->set_command_bytes(from.traffic.command_bytes);
  to->set_reply_bytes(from.traffic.reply_bytes);
  to->set_bulk_bytes(from.traffic.bulk_bytes);
  to->set_memory_requests(from.traffic.memory_requests);
  to->set_memory_refused(from.traffic.memory_refused);
  to->set_memory_refusal(FitText(from.memory.refusal, kMaxText));
  to->set_reason(FitText(from.reason, 2 * kMaxText));
  to->set_tenant(from.entitlement.tenant);
  to->set_lease(from.entitlement.lease);
  to->set_quota_used_bytes(from.memory.quota_used_bytes);
  to->set_resumes(from.continuity.resumes);
  to->set_transfers(from.continuity.transfers);
  to->set_frames_again(from.traffic.frames_again);
  to->set_unacknowledged_bytes(from.traffic.unacknowledged_bytes);
  to->set_restarts(from.continuity.restarts);
  FillUsage(from.usage, to);
  FillEngines(from.engines, to);
}

namespace {

void Fill(const DeviceSnapshot& from, warpline_internal::DeviceStat* to) {
  to->set_gpu(from.ordinal);
  to->set_name(from.name);
  to->set_uuid(from.uuid);
  to->set_backend(from.backend);
  to->set_sessions(static_cast<uint32_t>(from.sessions));
  to->set_total_bytes(from.memory.total_bytes);
  to->set_capacity_bytes(from.memory.capacity_bytes);
  to->set_granted_bytes(from.memory.pool.used_bytes());
  to->set_pooled_bytes(from.memory.pool.stock_bytes + from.memory.pool.leaving_bytes);
}

// The serialized reply with those of the sessions that `tells` names, and that belong to the part
// that is asked for.
absl::StatusOr<std::string> WithSessions(const HostSnapshot& snapshot,
                                         const warpline_internal::Page& page,
                                         const std::function<bool(const SessionSnapshot&)>& tells,
                                         warpline_internal::StatReply reply) {
  std::map<uint64_t, const SessionSnapshot*> in_order;
  for (const SessionSnapshot& session : snapshot.sessions) {
    if (tells(session)) in_order[session.id] = &session;
  }
  PageCut cut(page);
  for (const auto& [id, session] : in_order) {
    if (!cut.Takes(PageKey(id))) continue;
    auto* const to = reply.add_sessions();
    FillSessionStat(*session, to);
    cut.Add(*to);
  }
  const auto part = cut.Finish(std::move(reply));
  if (!part.ok()) return part.status();
  return part->SerializeAsString();
}

}  // namespace

absl::StatusOr<std::string> AnswerStat(SessionHost* host, const std::string& server_name,
                                       const std::string& request) {
  warpline_internal::StatRequest parsed;
  if (!parsed.ParseFromString(request)) return absl::InvalidArgumentError("a malformed request");
  warpline_internal::StatReply reply;
  const HostSnapshot snapshot = host->Snapshot();
  reply.set_server(server_name);
  reply.set_draining(snapshot.draining);
  if (parsed.page().after().empty()) {
    for (const DeviceSnapshot& device : snapshot.devices) Fill(device, reply.add_devices());
  }
  const ServerCounters& counters = host->counters();
  reply.set_sessions_opened(counters.sessions_opened.value());
  reply.set_sessions_refused(counters.sessions_refused.value());
  reply.set_worker_deaths(counters.worker_deaths.value());
  reply.set_worker_replacements(counters.worker_replacements.value());
  reply.set_protocol_errors(counters.protocol_errors.value());
  reply.set_resumes(counters.resumes.value());
  reply.set_transfers(counters.transfers.value());
  reply.set_resumes_refused(counters.resumes_refused.value());
  reply.set_host_memory_bytes(snapshot.host_memory_bytes);
  reply.set_host_memory_limit_bytes(snapshot.host_memory_limit_bytes);
  reply.set_swap_bytes(snapshot.swap_bytes);
  reply.set_swap_limit_bytes(snapshot.swap_limit_bytes);
  reply.set_clients_vanished(counters.clients_vanished.value());
  return WithSessions(
      snapshot, parsed.page(), [](const SessionSnapshot&) { return true; }, std::move(reply));
}

absl::StatusOr<std::string> AnswerClientStat(SessionHost* host, const LeaseBook& leases,
                                             const std::string& server_name,
                                             const std::string& peer, const std::string& request) {
  warpline_internal::StatRequest parsed;
  if (request.size() > 2 * kMaxTokenText || !parsed.ParseFromString(request)) {
    return absl::InvalidArgumentError("a malformed request");
  }
  if (parsed.token().empty()) {
    return absl::PermissionDeniedError(
        "what all sessions do is told to the server's operator only, at its admin socket; a client "
        "is told of its own lease's, whose token it shows");
  }
  const auto entitlement = leases.Show(parsed.token(), HolderOf(peer));
  if (!entitlement.ok()) return entitlement.status();
  warpline_internal::StatReply reply;
  const HostSnapshot snapshot = host->Snapshot();
  reply.set_server(server_name);
  reply.set_draining(snapshot.draining);
  const auto is_own = [&entitlement](const SessionSnapshot& session) {
    // People on their own share the name of a tenant.
    return entitlement->tenant == kLocalTenant ? session.entitlement.lease == entitlement->lease
                                               : session.entitlement.tenant == entitlement->tenant;
  };
  return WithSessions(snapshot, parsed.page(), is_own, std::move(reply));
}

namespace {

bool IsMeant(const warpline_internal::ReplaceRequest& request, const SessionSnapshot& session) {
  return (request.session() == 0 || request.session() == session.id) &&
         (request.lease().empty() || request.lease() == session.entitlement.lease) &&
         (request.tenant().empty() || request.tenant() == session.entitlement.tenant);
}

}  // namespace

absl::StatusOr<std::string> AnswerReplace(SessionHost* host, Replacements* replacements,
                                          const std::string& request) {
  warpline_internal::ReplaceRequest parsed;
  if (!parsed.ParseFromString(request)) return absl::InvalidArgumentError("malformed request");
  if (!warpline_internal::ReplaceRequest::Action_IsValid(parsed.action())) {
    return absl::InvalidArgumentError("an action that this server does not have");
  }
  uint64_t ticket = parsed.ticket();
  if (ticket == 0) {
    const absl::Duration deadline =
        std::clamp(absl::Milliseconds(parsed.deadline_ms()), absl::ZeroDuration(), kMaxReplaceWait);
    std::vector<uint64_t> ids;
    for (const SessionSnapshot& session : host->Snapshot().sessions) {
      if (IsMeant(parsed, session)) ids.push_back(session.id);
    }
    const bool names = parsed.session() != 0 || !parsed.lease().empty() || !parsed.tenant().empty();
    if (!names && parsed.action() == warpline_internal::ReplaceRequest::REVOKE) {
      return absl::InvalidArgumentError("name the session, the lease or the tenant to be revoked");
    }
    if (names && ids.empty()) {
      return absl::NotFoundError(absl::StrCat(
          "no session", parsed.session() == 0 ? "" : absl::StrCat(" ", parsed.session()),
          parsed.lease().empty() ? "" : " of that lease",
          parsed.tenant().empty() ? "" : " of that tenant"));
    }
    if (parsed.action() == warpline_internal::ReplaceRequest::REPLACE) host->RenewWorkers();
    const auto started =
        replacements->Start(parsed.action(), std::move(ids), deadline, parsed.resident_bytes(),
                            FitText(parsed.reason(), kMaxText));
    if (!started.ok()) return started.status();
    ticket = *started;
  }
  const auto reply = parsed.has_after()
                         ? replacements->Look(ticket, parsed.after(), kMostReplacedInAnswer)
                         : replacements->Look(ticket);
  if (!reply.ok()) return reply.status();
  return reply->SerializeAsString();
}

}  // namespace warpline::server
