#include "server/device_status.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "common/text.h"
#include "common/version.h"
#include "server/placement.h"

namespace warpline {
namespace {

using warpline_internal::DeviceStatus;
using warpline_internal::DeviceStatusReply;
using warpline_internal::DeviceStatusRequest;

constexpr size_t kMaxRequest = 4096 + kMaxTokenText;
constexpr size_t kMaxText = 256;
constexpr int kMaxProcesses = 512;

// The sessions that the asker may know of.
std::vector<const SessionSnapshot*> SessionsOf(const HostSnapshot& snapshot,
                                               const DeviceStatusRequest& request,
                                               const std::string& lease) {
  std::vector<const SessionSnapshot*> found;
  for (const SessionSnapshot& session : snapshot.sessions) {
    const bool same_process = request.pid() != 0 && session.client_pid == request.pid() &&
                              session.client_boot_id == request.boot_id() &&
                              session.client_pid_namespace == request.pid_namespace();
    if (session.lease == lease && (!lease.empty() || same_process) && session.device >= 0) {
      found.push_back(&session);
    }
  }
  return found;
}

absl::StatusOr<size_t> DeviceOf(const HostSnapshot& snapshot,
                                const std::vector<const SessionSnapshot*>& sessions,
                                const std::string& wanted) {
  if (!sessions.empty()) {
    for (size_t i = 0; i < snapshot.devices.size(); ++i) {
      if (snapshot.devices[i].ordinal == sessions.front()->device) return i;
    }
  }
  std::vector<PlacementCandidate> candidates;
  for (const DeviceSnapshot& device : snapshot.devices) {
    candidates.push_back({device.info.uuid(), device.sessions});
  }
  return PlaceSession(candidates, wanted);
}

void AddSessions(const std::vector<const SessionSnapshot*>& sessions, DeviceStatus* status) {
  uint64_t used = 0;
  for (const SessionSnapshot* session : sessions) {
    // Shared by all sessions of a lease; without one each session has its own.
    used = session->lease.empty() ? used + session->quota_used_bytes : session->quota_used_bytes;
    status->set_quota_bytes(session->quota_bytes);
    if (status->processes_size() == kMaxProcesses) continue;
    auto* const process = status->add_processes();
    process->set_pid(session->client_pid);
    process->set_program(FitText(session->program, kMaxText));
    process->set_memory_bytes(session->memory_bytes);
  }
  status->set_used_bytes(used);
}

void AddReadings(const nvml::Sample& sample, DeviceStatus* status) {
  const auto found = sample.devices.find(status->info().pci_bus_id());
  if (found == sample.devices.end()) return;
  status->mutable_numbers()->insert(found->second.numbers.begin(), found->second.numbers.end());
  for (const auto& [name, text] : found->second.texts) {
    (*status->mutable_texts())[name] = FitText(text, kMaxText);
  }
}

}  // namespace

absl::StatusOr<std::string> AnswerDeviceStatus(const HostSnapshot& snapshot,
                                               const LeaseBook& leases, nvml::Sampler* sampler,
                                               uint64_t session_quota_bytes,
                                               const std::string& bytes) {
  DeviceStatusRequest request;
  if (bytes.size() > kMaxRequest || !request.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("a malformed request");
  }
  LeaseToken token;
  if (!request.token().empty() || leases.options().required) {
    auto shown = leases.Show(request.token());
    if (!shown.ok()) return shown.status();
    token = *std::move(shown);
  }
  const auto sessions = SessionsOf(snapshot, request, token.lease);
  const std::string& wanted = token.device.empty() ? request.device() : token.device;
  const auto index = DeviceOf(snapshot, sessions, wanted);
  if (!index.ok()) return index.status();
  const DeviceSnapshot& device = snapshot.devices[*index];

  DeviceStatusReply reply;
  DeviceStatus* const status = reply.add_devices();
  *status->mutable_info() = device.info;
  const uint64_t capacity = device.memory.capacity_bytes;
  status->set_quota_bytes(leases.QuotaBytes(token, capacity, session_quota_bytes));
  AddSessions(sessions, status);
  if (sampler != nullptr) {
    const auto sample = sampler->Get();
    reply.set_driver_version(sample->driver_version);
    reply.set_nvml_version(sample->nvml_version);
    AddReadings(*sample, status);
  }
  if (reply.driver_version().empty()) reply.set_driver_version(kVersion);
  return reply.SerializeAsString();
}

}  // namespace warpline
