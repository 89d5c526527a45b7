#include "server/gpu_server/nvml/driver_samples.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/gpu_server/nvml/invoke.h"

namespace warpline::nvml {
namespace {

// The layout of nvmlProcessUtilizationSample_t.
struct Sample {
  uint32_t pid;
  unsigned long long time_us;
  uint32_t sm, memory, encoder, decoder;
};
static_assert(sizeof(Sample) == 32);

// No device has more processes; the driver's word is not taken for what to allocate.
constexpr uint32_t kMostSamples = 4096;

constexpr char kByBusId[] = "nvmlDeviceGetHandleByPciBusId_v2";

absl::Status ErrorOf(const char* what, int result) {
  const std::string message = absl::StrCat(what, " failed with ", result);
  const bool never =
      result == kNotSupported || result == kNoPermission || result == kFunctionNotFound;
  return never ? absl::UnimplementedError(message) : absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<std::vector<ProcessUse>> ReadProcessUse(const Library& library,
                                                       const std::string& pci_bus_id,
                                                       int64_t since_us) {
  constexpr char kUtilization[] = "nvmlDeviceGetProcessUtilization";
  Handle device = nullptr;
  int result = Invoke(library.lookup(), kByBusId, pci_bus_id.c_str(), &device);
  if (result != kSuccess) return ErrorOf("finding the device", result);
  std::vector<Sample> samples;
  result = kInsufficientSize;
  // Processes may come between the question of how many there are and the next.
  for (int attempt = 0; attempt < 4 && result == kInsufficientSize; ++attempt) {
    auto count = static_cast<uint32_t>(samples.size());
    result = Invoke(library.lookup(), kUtilization, device,
                    samples.empty() ? static_cast<Sample*>(nullptr) : samples.data(), &count,
                    static_cast<unsigned long long>(std::max<int64_t>(since_us, 0)));
    if (result == kSuccess && samples.empty() && count > 0) result = kInsufficientSize;
    if (result != kSuccess && result != kInsufficientSize) break;
    if (result == kSuccess) count = std::min(count, static_cast<uint32_t>(samples.size()));
    samples.resize(std::min(count, kMostSamples));
  }
  // Nobody had any.
  if (result == kNotFound) return std::vector<ProcessUse>();
  if (result != kSuccess) return ErrorOf(kUtilization, result);
  std::vector<ProcessUse> uses;
  for (const Sample& sample : samples) {
    const auto time_us = static_cast<int64_t>(sample.time_us);
    // NVML leaves places empty.
    if (sample.pid == 0 || time_us <= since_us) continue;
    uses.push_back({static_cast<pid_t>(sample.pid), time_us, std::min(sample.sm, 100u)});
  }
  return uses;
}

PowerReading ReadPower(const Library& library, const std::string& pci_bus_id) {
  PowerReading reading;
  Handle device = nullptr;
  const Lookup& lookup = library.lookup();
  if (Invoke(lookup, kByBusId, pci_bus_id.c_str(), &device) != kSuccess) return reading;
  uint32_t value = 0;
  if (Invoke(lookup, "nvmlDeviceGetPowerUsage", device, &value) == kSuccess) {
    reading.power_mw = value;
  }
  if (Invoke(lookup, "nvmlDeviceGetEnforcedPowerLimit", device, &value) == kSuccess) {
    reading.limit_mw = value;
  }
  if (Invoke(lookup, "nvmlDeviceGetTemperature", device, 0u, &value) == kSuccess) {
    reading.temperature_c = static_cast<int32_t>(value);
  }
  return reading;
}

}  // namespace warpline::nvml
