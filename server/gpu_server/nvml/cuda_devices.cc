#include "server/gpu_server/nvml/cuda_devices.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "server/gpu_server/nvml/invoke.h"

namespace warpline::nvml {
namespace {

constexpr uint32_t kTextBytes = 96;
// More than any machine has, and any GPU instances of.
constexpr uint32_t kMostGpus = 64;
constexpr uint32_t kMostInstances = 64;

std::string UuidOf(const Lookup& lookup, Handle device) {
  char text[kTextBytes + 1] = "";
  const int result =
      Invoke(lookup, "nvmlDeviceGetUUID", device, static_cast<char*>(text), kTextBytes);
  return result == kSuccess ? text : "";
}

absl::Status Unsaid(absl::string_view what, uint32_t gpu, int result) {
  return absl::UnavailableError(
      absl::StrCat("NVML does not say ", what, " of GPU ", gpu, ": ", result));
}

absl::Status AddInstances(const Lookup& lookup, Handle gpu, const CudaDevice& whole,
                          std::vector<CudaDevice>* devices) {
  uint32_t most = 0;
  int result = Invoke(lookup, "nvmlDeviceGetMaxMigDeviceCount", gpu, &most);
  if (result != kSuccess) return Unsaid("the instances", whole.minor, result);
  for (uint32_t i = 0; i < std::min(most, kMostInstances); ++i) {
    Handle instance = nullptr;
    result = Invoke(lookup, "nvmlDeviceGetMigDeviceHandleByIndex", gpu, i, &instance);
    // There need not be as many as there may be, and those that are not need not be the last.
    if (result == kNotFound) continue;
    if (result != kSuccess) return Unsaid("an instance", whole.minor, result);
    CudaDevice device = whole;
    device.is_instance = true;
    device.uuid = UuidOf(lookup, instance);
    for (const auto& [function, id] :
         {std::pair{"nvmlDeviceGetGpuInstanceId", &device.gpu_instance},
          std::pair{"nvmlDeviceGetComputeInstanceId", &device.compute_instance}}) {
      result = Invoke(lookup, function, instance, id);
      if (result != kSuccess) return Unsaid("an instance's number", whole.minor, result);
    }
    if (device.UuidBytes().empty()) return Unsaid("an instance's UUID", whole.minor, result);
    devices->push_back(std::move(device));
  }
  return absl::OkStatus();
}

}  // namespace

std::string CudaDevice::UuidBytes() const {
  absl::string_view text = uuid;
  if (text.size() < 4 || text[3] != '-') return "";
  const std::string hex = absl::StrReplaceAll(text.substr(4), {{"-", ""}});
  const bool whole = hex.size() == 32 && std::all_of(hex.begin(), hex.end(), [](char c) {
                       return absl::ascii_isxdigit(static_cast<unsigned char>(c));
                     });
  return whole ? absl::HexStringToBytes(hex) : "";
}

absl::StatusOr<std::vector<CudaDevice>> ReadCudaDevices(const Library& library) {
  // The layout of nvmlPciInfo_t.
  struct PciInfo {
    char legacy_bus_id[16];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
  };
  const Lookup& lookup = library.lookup();
  uint32_t count = 0;
  const int counted = Invoke(lookup, "nvmlDeviceGetCount_v2", &count);
  if (counted != kSuccess) {
    return absl::UnavailableError(absl::StrCat("NVML counts no GPUs: ", counted));
  }
  std::vector<CudaDevice> devices;
  for (uint32_t i = 0; i < std::min(count, kMostGpus); ++i) {
    Handle gpu = nullptr;
    int result = Invoke(lookup, "nvmlDeviceGetHandleByIndex_v2", i, &gpu);
    // Such as one that this process may not use.
    if (result != kSuccess) continue;
    CudaDevice whole;
    PciInfo pci = {};
    result = Invoke(lookup, "nvmlDeviceGetPciInfo_v3", gpu, &pci);
    if (result != kSuccess) return Unsaid("the address", i, result);
    pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
    whole.pci_bus_id = pci.bus_id;
    result = Invoke(lookup, "nvmlDeviceGetMinorNumber", gpu, &whole.minor);
    if (result != kSuccess) return Unsaid("the file", i, result);
    whole.uuid = UuidOf(lookup, gpu);
    uint32_t mode = 0;
    uint32_t pending = 0;
    result = Invoke(lookup, "nvmlDeviceGetMigMode", gpu, &mode, &pending);
    if (result != kSuccess || mode == 0) {
      devices.push_back(std::move(whole));
      continue;
    }
    const absl::Status added = AddInstances(lookup, gpu, whole, &devices);
    if (!added.ok()) return added;
  }
  return devices;
}

bool HasInstances(const std::vector<CudaDevice>& devices) {
  return std::any_of(devices.begin(), devices.end(),
                     [](const CudaDevice& device) { return device.is_instance; });
}

}  // namespace warpline::nvml
