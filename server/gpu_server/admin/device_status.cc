#include "server/gpu_server/admin/device_status.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/serving/listen_address.h"
#include "common/text.h"
#include "common/version.h"
#include "lease/entitlement.h"
#include "server/gpu_server/leases/placement.h"

namespace warpline::server {
namespace {

using warpline_internal::DeviceStatus;
using warpline_internal::DeviceStatusReply;
using warpline_internal::DeviceStatusRequest;

constexpr size_t kMaxRequest = 4096 + kMaxTokenText;
constexpr size_t kMaxText = 256;
constexpr int kMaxProcesses = 512;

// A session that came over loopback may have gone on over a unix socket.
bool SamePlace(const std::string& a, const std::string& b) {
  return PeerWithoutPort(a) == PeerWithoutPort(b) ||
         (PeerNames(a).empty() && PeerNames(b).empty() && IsLocalPeer(a) && IsLocalPeer(b));
}

// The sessions that the asker may know of.
std::vector<const SessionSnapshot*> SessionsOf(const HostSnapshot& snapshot,
                                               const DeviceStatusRequest& request,
                                               const std::string& lease, const std::string& peer) {
  std::vector<const SessionSnapshot*> found;
  for (const SessionSnapshot& session : snapshot.sessions) {
    const bool same_process = request.pid() != 0 && session.client.pid == request.pid() &&
                              session.client.boot_id == request.boot_id() &&
                              session.client.pid_namespace == request.pid_namespace() &&
                              SamePlace(session.client.peer, peer);
    if (session.entitlement.lease == lease && (!lease.empty() || same_process)) {
      found.push_back(&session);
    }
  }
  return found;
}

// The devices to tell of: all of a lease that names some, else those that the sessions use, else
// what `wanted` gives a session.
absl::StatusOr<std::vector<size_t>> DevicesOf(const HostSnapshot& snapshot,
                                              const std::vector<const SessionSnapshot*>& sessions,
                                              const DeviceNames& of_lease,
                                              const DeviceNames& wanted) {
  std::vector<PlacementCandidate> candidates;
  for (const DeviceSnapshot& device : snapshot.devices) {
    candidates.push_back({device.info.uuid(), device.sessions});
  }
  if (!of_lease.empty()) return PlaceSession(candidates, of_lease);
  std::vector<size_t> used;
  for (const SessionSnapshot* session : sessions) {
    for (const SessionDeviceSnapshot& own : session->devices) {
      const auto ordinal = static_cast<size_t>(own.ordinal);
      if (std::find(used.begin(), used.end(), ordinal) == used.end()) used.push_back(ordinal);
    }
  }
  if (!used.empty()) return used;
  return PlaceSession(candidates, wanted);
}

void AddSessions(const std::vector<const SessionSnapshot*>& sessions, int ordinal,
                 DeviceStatus* status) {
  uint64_t used = 0;
  for (const SessionSnapshot* session : sessions) {
    for (const SessionDeviceSnapshot& own : session->devices) {
      if (own.ordinal != ordinal) continue;
      // Shared by all sessions of a lease; without one each session has its own.
      used = session->entitlement.leased() ? own.quota_used_bytes : used + own.quota_used_bytes;
      status->set_quota_bytes(own.quota_bytes);
      if (status->processes_size() == kMaxProcesses) continue;
      auto* const process = status->add_processes();
      process->set_pid(session->client.pid);
      process->set_program(FitText(session->client.program, kMaxText));
      process->set_memory_bytes(own.memory_bytes);
    }
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

// Between the devices that are told of, by their places in the reply.
void AddPairs(const nvml::Sample& sample, DeviceStatusReply* reply) {
  for (int i = 0; i < reply->devices_size(); ++i) {
    for (int j = 0; j < reply->devices_size(); ++j) {
      const auto found = sample.pairs.find(
          {reply->devices(i).info().pci_bus_id(), reply->devices(j).info().pci_bus_id()});
      if (found == sample.pairs.end()) continue;
      for (const auto& [name, value] : found->second) {
        (*reply->mutable_devices(i)->mutable_numbers())[absl::StrCat("peer_", j, "_", name)] =
            value;
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::string> AnswerDeviceStatus(const HostSnapshot& snapshot,
                                               const LeaseBook& leases, nvml::Sampler* sampler,
                                               const std::string& peer, const std::string& bytes) {
  DeviceStatusRequest request;
  if (bytes.size() > kMaxRequest || !request.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("a malformed request");
  }
  const auto entitlement = leases.Show(request.token(), HolderOf(peer));
  if (!entitlement.ok()) return entitlement.status();
  const auto sessions = SessionsOf(snapshot, request, entitlement->lease, peer);
  const auto devices =
      DevicesOf(snapshot, sessions, entitlement->devices, ParseDeviceNames(request.device()));
  if (!devices.ok()) return devices.status();

  DeviceStatusReply reply;
  const auto sample = sampler == nullptr ? nullptr : sampler->Get();
  if (sample != nullptr) {
    reply.set_driver_version(sample->driver_version);
    reply.set_nvml_version(sample->nvml_version);
  }
  for (const size_t index : *devices) {
    const DeviceSnapshot& device = snapshot.devices[index];
    DeviceStatus* const status = reply.add_devices();
    *status->mutable_info() = device.info;
    status->set_quota_bytes(entitlement->MemoryOn(device.memory.capacity_bytes));
    AddSessions(sessions, device.ordinal, status);
    if (sample != nullptr) AddReadings(*sample, status);
  }
  if (sample != nullptr) AddPairs(*sample, &reply);
  if (reply.driver_version().empty()) reply.set_driver_version(kVersion);
  return reply.SerializeAsString();
}

}  // namespace warpline::server
