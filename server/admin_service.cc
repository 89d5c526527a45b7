#include "server/admin_service.h"

#include <algorithm>
#include <vector>

#include "server/listen_address.h"

namespace warpline {
namespace {

constexpr absl::Duration kMaxReplaceWait = absl::Minutes(1);

void Fill(const SessionSnapshot& from, warpline_internal::SessionStat* to) {
  to->set_id(from.id);
  to->set_state(from.state);
  to->set_program(from.program);
  to->set_client_pid(from.client_pid);
  to->set_peer(from.peer);
  to->set_gpu(from.device);
  to->set_worker_pid(static_cast<uint32_t>(from.worker_pid));
  to->set_age_seconds(absl::ToDoubleSeconds(absl::Now() - from.since));
  to->set_quota_bytes(from.quota_bytes);
  to->set_memory_bytes(from.memory_bytes);
  to->set_frames_received(from.frames_received);
  to->set_frames_sent(from.frames_sent);
  to->set_commands(from.commands);
  to->set_command_bytes(from.command_bytes);
  to->set_reply_bytes(from.reply_bytes);
  to->set_memory_requests(from.memory_requests);
  to->set_restarts(from.restarts);
  to->set_reason(from.reason);
}

void Fill(const DeviceSnapshot& from, warpline_internal::DeviceStat* to) {
  to->set_gpu(from.ordinal);
  to->set_name(from.name);
  to->set_uuid(from.uuid);
  to->set_backend(from.backend);
  to->set_sessions(static_cast<uint32_t>(from.sessions));
  to->set_total_bytes(from.memory.total_bytes);
  to->set_capacity_bytes(from.memory.capacity_bytes);
  to->set_granted_bytes(from.memory.pool.granted_bytes);
  to->set_pooled_bytes(from.memory.pool.pooled_bytes + from.memory.pool.dirty_bytes);
}

}  // namespace

absl::StatusOr<std::string> AnswerStat(SessionHost* host, const std::string& server_name,
                                       const std::string& peer) {
  if (!IsLocalPeer(peer)) {
    return absl::PermissionDeniedError("statistics are given to peers on the server's host only");
  }
  warpline_internal::StatReply reply;
  const HostSnapshot snapshot = host->Snapshot();
  reply.set_server(server_name);
  reply.set_draining(snapshot.draining);
  for (const DeviceSnapshot& device : snapshot.devices) Fill(device, reply.add_devices());
  for (const SessionSnapshot& session : snapshot.sessions) Fill(session, reply.add_sessions());
  const ServerCounters& counters = host->counters();
  reply.set_sessions_opened(counters.sessions_opened.value());
  reply.set_sessions_refused(counters.sessions_refused.value());
  reply.set_worker_deaths(counters.worker_deaths.value());
  reply.set_worker_replacements(counters.worker_replacements.value());
  reply.set_protocol_errors(counters.protocol_errors.value());
  return reply.SerializeAsString();
}

absl::StatusOr<std::string> AnswerReplace(SessionHost* host, const std::string& peer,
                                          const std::string& request) {
  if (!IsLocalPeer(peer)) {
    return absl::PermissionDeniedError("workers are replaced for peers on the server's host only");
  }
  warpline_internal::ReplaceRequest parsed;
  if (!parsed.ParseFromString(request)) return absl::InvalidArgumentError("malformed request");
  const absl::Duration deadline =
      std::clamp(absl::Milliseconds(parsed.deadline_ms()), absl::ZeroDuration(), kMaxReplaceWait);
  std::vector<uint64_t> ids;
  if (parsed.session() != 0) {
    ids.push_back(parsed.session());
  } else {
    for (const SessionSnapshot& session : host->Snapshot().sessions) ids.push_back(session.id);
  }
  warpline_internal::ReplaceReply reply;
  host->RenewWorkers();
  for (const uint64_t id : ids) {
    const absl::Status status = host->ReplaceWorker(id, deadline);
    if (absl::IsNotFound(status) && parsed.session() != 0) return status;
    auto* const one = reply.add_sessions();
    one->set_session(id);
    if (!status.ok()) one->set_error(std::string(status.message()));
  }
  return reply.SerializeAsString();
}

}  // namespace warpline
