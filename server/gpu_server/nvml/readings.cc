#include "server/gpu_server/nvml/readings.h"

#include <dlfcn.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/gpu_server/nvml/invoke.h"

namespace warpline::nvml {
namespace {

// What a function takes after the handle, and what it gives.
enum class Shape {
  kOne,     // (uint32* first)
  kOneOf,   // (uint32 argument, uint32* first)
  kTwo,     // (uint32* first, uint32* second)
  kPair,    // (struct of two uint32*)
  kWide,    // (uint64* first)
  kErrors,  // (argument & 0xff, argument >> 8, uint64* first)
  kSigned,  // (struct of uint32 version, int32 first), of the structure's first version
  kText,    // (char* text, uint32 size)
};

struct Source {
  const char* function;
  Shape shape;
  uint32_t argument;
  const char* first;
  const char* second;
};

// The readings that may change while a device is used, and below those that do not.
// client_stub/nvml looks for these names.
constexpr Source kLive[] = {
    {"nvmlDeviceGetTemperature", Shape::kOneOf, 0, "temperature_0", nullptr},
    {"nvmlDeviceGetMarginTemperature", Shape::kSigned, 0, "temperature_margin", nullptr},
    {"nvmlDeviceGetPowerUsage", Shape::kOne, 0, "power_mw", nullptr},
    {"nvmlDeviceGetPowerManagementLimit", Shape::kOne, 0, "power_limit_mw", nullptr},
    {"nvmlDeviceGetEnforcedPowerLimit", Shape::kOne, 0, "power_enforced_mw", nullptr},
    {"nvmlDeviceGetTotalEnergyConsumption", Shape::kWide, 0, "energy_mj", nullptr},
    {"nvmlDeviceGetUtilizationRates", Shape::kPair, 0, "utilization", "utilization_memory"},
    {"nvmlDeviceGetEncoderUtilization", Shape::kTwo, 0, "encoder_utilization", "encoder_period"},
    {"nvmlDeviceGetDecoderUtilization", Shape::kTwo, 0, "decoder_utilization", "decoder_period"},
    {"nvmlDeviceGetJpgUtilization", Shape::kTwo, 0, "jpg_utilization", "jpg_period"},
    {"nvmlDeviceGetOfaUtilization", Shape::kTwo, 0, "ofa_utilization", "ofa_period"},
    {"nvmlDeviceGetClockInfo", Shape::kOneOf, 0, "clock_0", nullptr},
    {"nvmlDeviceGetClockInfo", Shape::kOneOf, 1, "clock_1", nullptr},
    {"nvmlDeviceGetClockInfo", Shape::kOneOf, 2, "clock_2", nullptr},
    {"nvmlDeviceGetClockInfo", Shape::kOneOf, 3, "clock_3", nullptr},
    {"nvmlDeviceGetApplicationsClock", Shape::kOneOf, 0, "application_clock_0", nullptr},
    {"nvmlDeviceGetApplicationsClock", Shape::kOneOf, 2, "application_clock_2", nullptr},
    {"nvmlDeviceGetCurrentClocksThrottleReasons", Shape::kWide, 0, "throttle_reasons", nullptr},
    {"nvmlDeviceGetPerformanceState", Shape::kOne, 0, "performance_state", nullptr},
    {"nvmlDeviceGetFanSpeed", Shape::kOne, 0, "fan_speed", nullptr},
    {"nvmlDeviceGetTotalEccErrors", Shape::kErrors, 0x000, "ecc_errors_0_0", nullptr},
    {"nvmlDeviceGetTotalEccErrors", Shape::kErrors, 0x001, "ecc_errors_1_0", nullptr},
    {"nvmlDeviceGetTotalEccErrors", Shape::kErrors, 0x100, "ecc_errors_0_1", nullptr},
    {"nvmlDeviceGetTotalEccErrors", Shape::kErrors, 0x101, "ecc_errors_1_1", nullptr},
    {"nvmlDeviceGetCurrPcieLinkGeneration", Shape::kOne, 0, "pcie_generation", nullptr},
    {"nvmlDeviceGetCurrPcieLinkWidth", Shape::kOne, 0, "pcie_width", nullptr},
    {"nvmlDeviceGetPcieSpeed", Shape::kOne, 0, "pcie_speed", nullptr},
};
constexpr Source kFixed[] = {
    {"nvmlDeviceGetTemperatureThreshold", Shape::kOneOf, 0, "temperature_threshold_0", nullptr},
    {"nvmlDeviceGetTemperatureThreshold", Shape::kOneOf, 1, "temperature_threshold_1", nullptr},
    {"nvmlDeviceGetTemperatureThreshold", Shape::kOneOf, 2, "temperature_threshold_2", nullptr},
    {"nvmlDeviceGetTemperatureThreshold", Shape::kOneOf, 3, "temperature_threshold_3", nullptr},
    {"nvmlDeviceGetPowerManagementMode", Shape::kOne, 0, "power_management", nullptr},
    {"nvmlDeviceGetPowerManagementDefaultLimit", Shape::kOne, 0, "power_default_mw", nullptr},
    {"nvmlDeviceGetPowerManagementLimitConstraints", Shape::kTwo, 0, "power_min_mw",
     "power_max_mw"},
    {"nvmlDeviceGetMaxClockInfo", Shape::kOneOf, 0, "max_clock_0", nullptr},
    {"nvmlDeviceGetMaxClockInfo", Shape::kOneOf, 1, "max_clock_1", nullptr},
    {"nvmlDeviceGetMaxClockInfo", Shape::kOneOf, 2, "max_clock_2", nullptr},
    {"nvmlDeviceGetMaxClockInfo", Shape::kOneOf, 3, "max_clock_3", nullptr},
    {"nvmlDeviceGetDefaultApplicationsClock", Shape::kOneOf, 0, "default_clock_0", nullptr},
    {"nvmlDeviceGetDefaultApplicationsClock", Shape::kOneOf, 2, "default_clock_2", nullptr},
    {"nvmlDeviceGetSupportedClocksThrottleReasons", Shape::kWide, 0, "throttle_reasons_supported",
     nullptr},
    {"nvmlDeviceGetEccMode", Shape::kTwo, 0, "ecc_mode", "ecc_mode_pending"},
    {"nvmlDeviceGetMigMode", Shape::kTwo, 0, "mig_mode", "mig_mode_pending"},
    {"nvmlDeviceGetPersistenceMode", Shape::kOne, 0, "persistence_mode", nullptr},
    {"nvmlDeviceGetComputeMode", Shape::kOne, 0, "compute_mode", nullptr},
    {"nvmlDeviceGetDisplayActive", Shape::kOne, 0, "display_active", nullptr},
    {"nvmlDeviceGetDisplayMode", Shape::kOne, 0, "display_mode", nullptr},
    {"nvmlDeviceGetBrand", Shape::kOne, 0, "brand", nullptr},
    {"nvmlDeviceGetArchitecture", Shape::kOne, 0, "architecture", nullptr},
    {"nvmlDeviceGetMultiGpuBoard", Shape::kOne, 0, "multi_gpu_board", nullptr},
    {"nvmlDeviceGetNumGpuCores", Shape::kOne, 0, "gpu_cores", nullptr},
    {"nvmlDeviceGetModuleId", Shape::kOne, 0, "module_id", nullptr},
    {"nvmlDeviceGetMemoryBusWidth", Shape::kOne, 0, "memory_bus_width", nullptr},
    {"nvmlDeviceGetMaxPcieLinkGeneration", Shape::kOne, 0, "pcie_max_generation", nullptr},
    {"nvmlDeviceGetGpuMaxPcieLinkGeneration", Shape::kOne, 0, "pcie_gpu_max_generation", nullptr},
    {"nvmlDeviceGetMaxPcieLinkWidth", Shape::kOne, 0, "pcie_max_width", nullptr},
    {"nvmlDeviceGetVbiosVersion", Shape::kText, 0, "vbios_version", nullptr},
    {"nvmlDeviceGetInforomImageVersion", Shape::kText, 0, "inforom_image_version", nullptr},
    {"nvmlDeviceGetBoardPartNumber", Shape::kText, 0, "board_part_number", nullptr},
};

constexpr uint32_t kTextBytes = 96;
constexpr uint32_t kLinks = 36;  // NVML_NVLINK_MAX_LINKS of CUDA 13.
constexpr uint32_t kLinkCapabilities = 6;
constexpr uint32_t kPeerCapabilities = 6;

// The layout of nvmlPciInfo_t.
struct PciInfo {
  char legacy_bus_id[16];
  uint32_t domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

// The layout of nvmlBAR1Memory_t.
struct Bar1 {
  uint64_t total, free, used;
};

// The layout of nvmlFieldValue_t.
struct FieldValue {
  uint32_t id = 0;
  uint32_t scope = 0;
  int64_t time = 0;
  int64_t latency = 0;
  uint32_t type = 0;
  int result = 0;
  uint64_t value = 0;
};

// The fields, by number, that NCCL, nvidia-smi or monitors ask for: how long each reason reduced
// the clocks, the memory's temperature, energy, PCIe's replays, remapped rows, averaged and instant
// power, and the power's limits.
constexpr uint32_t kLiveFields[] = {74,  75,  76,  77,  78,  79,  82,  83,  94,  95, 142,
                                    143, 144, 145, 185, 186, 190, 192, 269, 270, 271};
// The averaged power of the memory alone.
constexpr uint32_t kPowerField = 185;
constexpr uint32_t kMemoryScope = 2;
// The fields that do not change: NVLink's count and speed, power's limits, and the temperatures at
// which something happens, as distances; for each link its speed, state and version follow.
constexpr uint32_t kFixedFields[] = {90, 91, 187, 188, 189, 193, 194, 195, 196};
constexpr uint32_t kLinkFields[] = {164, 165, 166};
constexpr uint32_t kFieldLinks = 18;

void ReadText(const Lookup& lookup, const Source& source, Handle device, Readings* out) {
  char text[kTextBytes + 1] = "";
  if (Invoke(lookup, source.function, device, static_cast<char*>(text), kTextBytes) == kSuccess) {
    out->texts[source.first] = text;
  }
}

void ReadNumbers(const Lookup& lookup, const Source& source, Handle device, Readings* out) {
  uint32_t narrow[2] = {};
  unsigned long long wide = 0;
  int result = -1;
  switch (source.shape) {
    case Shape::kOne:
      result = Invoke(lookup, source.function, device, &narrow[0]);
      break;
    case Shape::kOneOf:
      result = Invoke(lookup, source.function, device, source.argument, &narrow[0]);
      break;
    case Shape::kTwo:
      result = Invoke(lookup, source.function, device, &narrow[0], &narrow[1]);
      break;
    case Shape::kPair:
      result = Invoke(lookup, source.function, device, static_cast<void*>(narrow));
      break;
    case Shape::kWide:
      result = Invoke(lookup, source.function, device, &wide);
      break;
    case Shape::kSigned:
      // The value comes after the version.
      narrow[0] = sizeof(narrow) | 1u << 24;
      result = Invoke(lookup, source.function, device, static_cast<void*>(narrow));
      narrow[0] = narrow[1];
      break;
    case Shape::kErrors:
      result = Invoke(lookup, source.function, device, source.argument & 0xff, source.argument >> 8,
                      &wide);
      break;
    case Shape::kText:
      return ReadText(lookup, source, device, out);
  }
  if (result != kSuccess) {
    // It may stand there from an earlier reading.
    out->numbers.erase(source.first);
    return;
  }
  const bool is_wide = source.shape == Shape::kWide || source.shape == Shape::kErrors;
  out->numbers[source.first] = is_wide ? wide : narrow[0];
  if (source.second != nullptr) out->numbers[source.second] = narrow[1];
}

void ReadPci(const Lookup& lookup, Handle device, Readings* out) {
  PciInfo pci = {};
  if (Invoke(lookup, "nvmlDeviceGetPciInfo_v3", device, &pci) == kSuccess) {
    out->numbers["pci_device_id"] = pci.device_id;
    out->numbers["pci_subsystem_id"] = pci.subsystem_id;
  }
  Bar1 bar1 = {};
  if (Invoke(lookup, "nvmlDeviceGetBAR1MemoryInfo", device, &bar1) == kSuccess) {
    out->numbers["bar1_total"] = bar1.total;
    out->numbers["bar1_free"] = bar1.free;
    out->numbers["bar1_used"] = bar1.used;
  }
}

void ReadLinks(const Lookup& lookup, Handle device, Readings* out) {
  for (uint32_t link = 0; link < kLinks; ++link) {
    uint32_t active = 0;
    if (Invoke(lookup, "nvmlDeviceGetNvLinkState", device, link, &active) != kSuccess) continue;
    const std::string name = absl::StrCat("nvlink_", link);
    out->numbers[name] = active;
    if (active == 0) continue;
    uint32_t value = 0;
    if (Invoke(lookup, "nvmlDeviceGetNvLinkVersion", device, link, &value) == kSuccess) {
      out->numbers[name + "_version"] = value;
    }
    for (uint32_t capability = 0; capability < kLinkCapabilities; ++capability) {
      if (Invoke(lookup, "nvmlDeviceGetNvLinkCapability", device, link, capability, &value) ==
          kSuccess) {
        out->numbers[absl::StrCat(name, "_capability_", capability)] = value;
      }
    }
    if (Invoke(lookup, "nvmlDeviceGetNvLinkRemoteDeviceType", device, link, &value) == kSuccess) {
      out->numbers[name + "_remote_type"] = value;
    }
    PciInfo remote = {};
    if (Invoke(lookup, "nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, &remote) == kSuccess) {
      remote.bus_id[sizeof(remote.bus_id) - 1] = '\0';
      out->texts[name + "_remote"] = remote.bus_id;
      out->numbers[name + "_remote_id"] = remote.device_id;
    }
  }
}

// The bits of the value that belong to its type (nvmlValueType_t). NVML leaves other data in the
// bits above them.
uint64_t Meant(const FieldValue& field) {
  enum : uint32_t { kUnsignedInt = 1, kSignedInt = 5, kUnsignedShort = 6 };
  if (field.type == kUnsignedShort) return field.value & 0xffff;
  const bool narrow = field.type == kUnsignedInt || field.type == kSignedInt;
  return narrow ? field.value & 0xffffffff : field.value;
}

void ReadFields(const Lookup& lookup, Handle device, bool fixed, Readings* out) {
  std::vector<FieldValue> fields;
  for (const uint32_t id : kLiveFields) fields.push_back({.id = id});
  fields.push_back({.id = kPowerField, .scope = kMemoryScope});
  if (fixed) {
    for (const uint32_t id : kFixedFields) fields.push_back({.id = id});
    for (uint32_t link = 0; link < kFieldLinks; ++link) {
      for (const uint32_t id : kLinkFields) fields.push_back({.id = id, .scope = link});
    }
  }
  if (Invoke(lookup, "nvmlDeviceGetFieldValues", device, static_cast<int>(fields.size()),
             fields.data()) != kSuccess) {
    return;
  }
  for (const FieldValue& field : fields) {
    if (field.result != kSuccess) continue;
    std::string name = absl::StrCat("field_", field.id);
    if (field.scope != 0) absl::StrAppend(&name, "_", field.scope);
    out->numbers[name] = Meant(field);
    out->numbers[name + "_type"] = field.type;
  }
}

std::string SystemText(const Lookup& lookup, const char* function) {
  char text[kTextBytes + 1] = "";
  const int result = Invoke(lookup, function, static_cast<char*>(text), kTextBytes);
  return result == kSuccess ? text : "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Library>> Library::Load() {
  void* const handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::UnavailableError(dlerror());
  return Start([handle](const char* name) { return dlsym(handle, name); });
}

absl::StatusOr<std::unique_ptr<Library>> Library::Start(Lookup lookup) {
  const int result = Invoke(lookup, "nvmlInit_v2");
  if (result != kSuccess) {
    return absl::UnavailableError(absl::StrCat("nvmlInit failed with ", result));
  }
  std::unique_ptr<Library> library(new Library(std::move(lookup)));
  library->driver_version_ = SystemText(library->lookup_, "nvmlSystemGetDriverVersion");
  library->nvml_version_ = SystemText(library->lookup_, "nvmlSystemGetNVMLVersion");
  return library;
}

Readings Library::Read(const std::string& pci_bus_id, const Readings& former) const {
  const bool fixed = former.numbers.empty();
  Readings readings = former;
  Handle device = nullptr;
  if (Invoke(lookup_, "nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &device) !=
      kSuccess) {
    return {};
  }
  for (const Source& source : kLive) ReadNumbers(lookup_, source, device, &readings);
  if (fixed) {
    for (const Source& source : kFixed) ReadNumbers(lookup_, source, device, &readings);
    ReadPci(lookup_, device, &readings);
    ReadLinks(lookup_, device, &readings);
  }
  ReadFields(lookup_, device, fixed, &readings);
  return readings;
}

std::map<std::string, uint64_t> Library::ReadPair(const std::string& pci_bus_id,
                                                  const std::string& other_bus_id) const {
  std::map<std::string, uint64_t> numbers;
  Handle one = nullptr;
  Handle other = nullptr;
  constexpr char kHandle[] = "nvmlDeviceGetHandleByPciBusId_v2";
  if (Invoke(lookup_, kHandle, pci_bus_id.c_str(), &one) != kSuccess ||
      Invoke(lookup_, kHandle, other_bus_id.c_str(), &other) != kSuccess) {
    return numbers;
  }
  uint32_t value = 0;
  for (uint32_t capability = 0; capability < kPeerCapabilities; ++capability) {
    if (Invoke(lookup_, "nvmlDeviceGetP2PStatus", one, other, capability, &value) == kSuccess) {
      numbers[absl::StrCat("p2p_", capability)] = value;
    }
  }
  if (Invoke(lookup_, "nvmlDeviceGetTopologyCommonAncestor", one, other, &value) == kSuccess) {
    numbers["topology"] = value;
  }
  int same = 0;
  if (Invoke(lookup_, "nvmlDeviceOnSameBoard", one, other, &same) == kSuccess) {
    numbers["same_board"] = same != 0 ? 1 : 0;
  }
  return numbers;
}

}  // namespace warpline::nvml
