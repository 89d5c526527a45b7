#include "server/gpu_server/nvml/testing/fake_nvml.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "server/gpu_server/nvml/invoke.h"

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

  static int Count(uint32_t* count) {
    MutexLock lock(&the_fake.load()->mu_);
    *count = static_cast<uint32_t>(the_fake.load()->devices_.size());
    return kSuccess;
  }
  static int ByIndex(uint32_t index, void** handle) {
    MutexLock lock(&the_fake.load()->mu_);
    auto& devices = the_fake.load()->devices_;
    if (index >= devices.size()) return kNotFound;
    *handle = &*std::next(devices.begin(), index);
    return kSuccess;
  }
  struct PciInfo {
    char legacy_bus_id[16];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
  };
  static int Pci(void* device, PciInfo* info) {
    std::snprintf(info->bus_id, sizeof(info->bus_id), "%s",
                  static_cast<Device*>(device)->pci_bus_id.c_str());
    return kSuccess;
  }
  static int Minor(void* device, uint32_t* minor) {
    *minor = static_cast<Device*>(device)->minor;
    return kSuccess;
  }
  static int MigMode(void* device, uint32_t* mode, uint32_t* pending) {
    *mode = *pending = static_cast<Device*>(device)->mig ? 1 : 0;
    return kSuccess;
  }
  static int MostInstances(void* device, uint32_t* count) {
    *count = static_cast<uint32_t>(static_cast<Device*>(device)->instances.size());
    return kSuccess;
  }
  static int InstanceByIndex(void* device, uint32_t index, void** handle) {
    const auto& instances = static_cast<Device*>(device)->instances;
    if (index >= instances.size() || instances[index] == nullptr) return kNotFound;
    *handle = const_cast<Instance*>(instances[index]);
    return kSuccess;
  }
  // Instances and devices are told apart by who they are.
  static const Instance* AsInstance(void* handle) {
    for (const Device& device : the_fake.load()->devices_) {
      for (const Instance* instance : device.instances) {
        if (instance == handle) return instance;
      }
    }
    return nullptr;
  }
  static int Uuid(void* handle, char* text, uint32_t size) {
    MutexLock lock(&the_fake.load()->mu_);
    const Instance* const instance = AsInstance(handle);
    std::snprintf(
        text, size, "%s",
        (instance == nullptr ? static_cast<Device*>(handle)->uuid : instance->uuid).c_str());
    return kSuccess;
  }
  static int GpuInstance(void* handle, uint32_t* id) {
    *id = static_cast<Instance*>(handle)->gpu_instance;
    return kSuccess;
  }
  static int ComputeInstance(void* handle, uint32_t* id) {
    *id = static_cast<Instance*>(handle)->compute_instance;
    return kSuccess;
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
      {"nvmlDeviceGetCount_v2", reinterpret_cast<void*>(&Functions::Count)},
      {"nvmlDeviceGetHandleByIndex_v2", reinterpret_cast<void*>(&Functions::ByIndex)},
      {"nvmlDeviceGetPciInfo_v3", reinterpret_cast<void*>(&Functions::Pci)},
      {"nvmlDeviceGetMinorNumber", reinterpret_cast<void*>(&Functions::Minor)},
      {"nvmlDeviceGetMigMode", reinterpret_cast<void*>(&Functions::MigMode)},
      {"nvmlDeviceGetMaxMigDeviceCount", reinterpret_cast<void*>(&Functions::MostInstances)},
      {"nvmlDeviceGetMigDeviceHandleByIndex", reinterpret_cast<void*>(&Functions::InstanceByIndex)},
      {"nvmlDeviceGetUUID", reinterpret_cast<void*>(&Functions::Uuid)},
      {"nvmlDeviceGetGpuInstanceId", reinterpret_cast<void*>(&Functions::GpuInstance)},
      {"nvmlDeviceGetComputeInstanceId", reinterpret_cast<void*>(&Functions::ComputeInstance)},
  };
  return [](const char* name) -> void* {
    const auto found = kFunctions.find(name);
    return found == kFunctions.end() ? nullptr : found->second;
  };
}

}  // namespace warpline::nvml
