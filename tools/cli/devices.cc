#include "tools/cli/devices.h"

#include <cstdlib>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/cuda/visible_devices.h"
#include "common/process_identity.h"
#include "proto/devices.h"
#include "tools/cli/call_timeout.h"
#include "tools/cli/lease.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::DeviceStatus;
using warpline_internal::DeviceStatusReply;
using warpline_internal::DeviceStatusRequest;

// Formats a UUID as nvidia-smi prints it.
std::string UuidText(const std::string& bytes) {
  const std::string hex = absl::BytesToHexString(bytes);
  if (hex.size() != 32) return "";
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

void AddDevice(const DeviceStatus& device, std::string* out) {
  const auto line = [out](const std::string& name, const std::string& value) {
    absl::StrAppend(out, name, " ", value, "\n");
  };
  line("name", device.info().name());
  line("uuid", UuidText(device.info().uuid()));
  line("pci_bus_id", device.info().pci_bus_id());
  line("memory_total", absl::StrCat(device.quota_bytes()));
  line("memory_used", absl::StrCat(device.used_bytes()));
  for (const auto& attribute : device.info().attributes()) {
    line(absl::StrCat("attribute_", attribute.id()), absl::StrCat(attribute.value()));
  }
  // A protobuf map has no order.
  for (const auto& [name, value] :
       std::map<std::string, uint64_t>(device.numbers().begin(), device.numbers().end())) {
    line(name, absl::StrCat(value));
  }
  for (const auto& [name, text] :
       std::map<std::string, std::string>(device.texts().begin(), device.texts().end())) {
    line(name, text);
  }
  for (const auto& process : device.processes()) {
    line("process",
         absl::StrCat(process.pid(), " ", process.memory_bytes(), " ", process.program()));
  }
}

}  // namespace

absl::StatusOr<DeviceStatusReply> AskForDevices(const std::string& endpoint, uint32_t pid) {
  const VisibleDevices visible =
      ParseVisibleDevices(getenv("CUDA_VISIBLE_DEVICES"), kMaxSessionDevices);
  const auto token = TokenOfLease(endpoint);
  if (!token.ok()) return token.status();
  DeviceStatusRequest request;
  request.set_token(*token);
  request.set_device(visible.device);
  request.set_pid(pid);
  request.set_boot_id(BootId());
  request.set_pid_namespace(PidNamespace());
  UnaryClient client(TargetOf(endpoint));
  auto reply = CallUnary<DeviceStatusReply>(&client, "/warpline_internal.Gpu/DeviceStatus", request,
                                            CallTimeout());
  if (reply.ok()) {
    if (visible.none) reply->clear_devices();
    return reply;
  }
  if (reply.status().code() == absl::StatusCode::kUnimplemented) {
    return absl::UnimplementedError(
        absl::StrCat("what answers at ", endpoint,
                     " has no devices: with a scheduler, use `warpline run`, which has a lease"));
  }
  return absl::Status(reply.status().code(),
                      absl::StrCat("no devices from ", endpoint, ": ", reply.status().message()));
}

std::string DevicesReport(DeviceStatusReply reply) {
  MakeShown(&reply);
  std::string out = absl::StrCat("driver_version ", reply.driver_version(), "\n");
  absl::StrAppend(&out, "nvml_version ", reply.nvml_version(), "\n");
  if (reply.devices_size() > 0) {
    absl::StrAppend(&out, "cuda_version ", reply.devices(0).info().driver_version(), "\n");
  }
  for (int i = 0; i < reply.devices_size(); ++i) {
    absl::StrAppend(&out, "device ", i, "\n");
    AddDevice(reply.devices(i), &out);
  }
  return out + "end\n";
}

}  // namespace warpline::cli
