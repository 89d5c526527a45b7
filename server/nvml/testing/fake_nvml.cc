#include "server/nvml/testing/fake_nvml.h"

#include <atomic>
#include <cstdlib>
#include <utility>

#include "server/nvml/invoke.h"

namespace warpline::nvml {
namespace {

std::atomic<FakeNvml*> the_fake{nullptr};

// The layout of nvmlProcessUtilizationSample_t.
struct Sample {
  uint32_t pid;
  unsigned long long time_us;
  uint32_t sm, memory, encoder, decoder;
};

}  // namespace

struct FakeNvml::Functions {
  static int Init() { return kSuccess; }

  static int ByBusId(const char* id, void** handle) {
    FakeNvml& fake = *the_fake;
    MutexLock lock(&fake.mu_);
    for (Device& device : fake.devices_) {
      if (device.pci_bus_id != id) continue;
      *handle = &device;
      return kSuccess;
    }
    return kNotFound;
  }

  static int Give(uint32_t what, uint32_t* value) {
    *value = what;
    return what == 0 ? kNotSupported : kSuccess;
  }
  static int Power(void* device, uint32_t* value) {
    MutexLock lock(&the_fake.load()->mu_);
    return Give(static_cast<Device*>(device)->power_mw, value);
  }
  static int Limit(void* device, uint32_t* value) {
    MutexLock lock(&the_fake.load()->mu_);
    return Give(static_cast<Device*>(device)->limit_mw, value);
  }
  static int Temperature(void* device, uint32_t /*sensor*/, uint32_t* value) {
    MutexLock lock(&the_fake.load()->mu_);
    return Give(static_cast<Device*>(device)->temperature_c, value);
  }

  static int Utilization(void* handle, Sample* samples, uint32_t* count, unsigned long long since) {
    FakeNvml& fake = *the_fake;
    MutexLock lock(&fake.mu_);
    ++fake.asked_;
    const Device& device = *static_cast<Device*>(handle);
    if (device.uses_error != 0) return device.uses_error;
    const uint32_t room = samples == nullptr ? 0 : *count;
    *count = static_cast<uint32_t>(device.uses.size());
    if (device.uses.empty()) return kNotFound;
    if (room < device.uses.size()) return kInsufficientSize;
    bool newer = false;
    for (const Use& use : device.uses) {
      newer |= use.time_us > since;
      *samples++ = {use.pid, use.time_us, use.percent, 0, 0, 0};
    }
    return newer ? kSuccess : kNotFound;
  }
};

FakeNvml::FakeNvml() {
  FakeNvml* none = nullptr;
  if (!the_fake.compare_exchange_strong(none, this)) std::abort();
}

FakeNvml::~FakeNvml() { the_fake = nullptr; }

FakeNvml::Device& FakeNvml::AddDevice(const std::string& pci_bus_id) {
  MutexLock lock(&mu_);
  Device& device = devices_.emplace_back();
  device.pci_bus_id = pci_bus_id;
  return device;
}

void FakeNvml::SetUses(Device* device, std::vector<Use> uses) {
  MutexLock lock(&mu_);
  device->uses = std::move(uses);
}

void FakeNvml::SetPower(Device* device, uint32_t power_mw) {
  MutexLock lock(&mu_);
  device->power_mw = power_mw;
}

int FakeNvml::asked() const {
  MutexLock lock(&mu_);
  return asked_;
}

Lookup FakeNvml::lookup() const {
  static const std::map<std::string, void*> kFunctions = {
      {"nvmlInit_v2", reinterpret_cast<void*>(&Functions::Init)},
      {"nvmlDeviceGetHandleByPciBusId_v2", reinterpret_cast<void*>(&Functions::ByBusId)},
      {"nvmlDeviceGetPowerUsage", reinterpret_cast<void*>(&Functions::Power)},
      {"nvmlDeviceGetEnforcedPowerLimit", reinterpret_cast<void*>(&Functions::Limit)},
      {"nvmlDeviceGetTemperature", reinterpret_cast<void*>(&Functions::Temperature)},
      {"nvmlDeviceGetProcessUtilization", reinterpret_cast<void*>(&Functions::Utilization)},
  };
  return [](const char* name) -> void* {
    const auto found = kFunctions.find(name);
    return found == kFunctions.end() ? nullptr : found->second;
  };
}

}  // namespace warpline::nvml
