// What a session shows of itself, in logs and reports.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/session/session.h"

namespace warpline {

std::string Session::Keys() const {
  const std::string gpus =
      absl::StrJoin(placed_, ",", [](std::string* out, const DeviceMemory* device) {
        absl::StrAppend(out, device->ordinal());
      });
  return absl::StrCat("session=", id_, " gpu=", gpus.empty() ? "-1" : gpus, " pid=", worker_pid_);
}

LogPermit Session::AskForLine(ServerLine line) const {
  return context_.log->Ask(LogKey(entitlement().tenant, peer_), line);
}

SessionSnapshot Session::Snapshot() {
  static constexpr const char* kNames[] = {"waiting", "opening", "open", "replacing",
                                           "faulted", "ending",  "ended"};
  const TrafficCounters& traffic = port_->traffic();
  SessionSnapshot snapshot;
  snapshot.id = id_;
  snapshot.state = absence_.under_way() ? "detached" : kNames[static_cast<int>(state_)];
  snapshot.program = hello_.program();
  snapshot.client_pid = hello_.pid();
  snapshot.client_boot_id = hello_.boot_id();
  snapshot.client_pid_namespace = hello_.pid_namespace();
  snapshot.peer = peer_;
  snapshot.worker_pid = worker_pid_;
  snapshot.since = since_;
  snapshot.entitlement = entitlement();
  snapshot.reason = reason_;
  for (size_t i = 0; i < devices_.size(); ++i) {
    const SessionDeviceSnapshot device = {
        devices_.device(i).ordinal(), devices_.quota(i).limit_bytes(),
        devices_.quota(i).used_bytes(), devices_.memory(i).backed_bytes()};
    snapshot.devices.push_back(device);
    snapshot.quota_bytes += device.quota_bytes;
    snapshot.quota_used_bytes += device.quota_used_bytes;
    snapshot.memory_bytes += device.memory_bytes;
    snapshot.kept_bytes += devices_.memory(i).kept_bytes();
  }
  snapshot.frames_received = traffic.frames_received.value();
  snapshot.frames_sent = traffic.frames_sent.value();
  snapshot.commands = traffic.commands.value();
  snapshot.command_bytes = traffic.command_bytes.value();
  snapshot.reply_bytes = traffic.reply_bytes.value();
  snapshot.memory_requests = traffic.memory_requests.value();
  snapshot.memory_refused = traffic.memory_refused.value();
  snapshot.memory_refusal = memory_refusal_;
  snapshot.resumes = resumes_;
  snapshot.transfers = transfers_;
  snapshot.frames_again = traffic.frames_again.value();
  snapshot.unacknowledged_bytes = port_->link().kept_bytes();
  snapshot.restarts = restarts_;
  if (journal_ != nullptr) snapshot.usage = journal_->usage();
  return snapshot;
}

}  // namespace warpline
