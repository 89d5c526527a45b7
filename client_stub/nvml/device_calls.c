/* NVML's functions about a device: its identity and its numbers. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "client_stub/nvml/facts.h"

/* ---- Handles */

int nvmlDeviceGetCount_v2(uint32_t* count) { return WarplineDeviceCount(count); }
int nvmlDeviceGetCount(uint32_t* count) { return WarplineDeviceCount(count); }
int nvmlDeviceGetHandleByIndex_v2(uint32_t index, nvmlDevice_t* device) {
  return WarplineDeviceAt(index, device);
}
int nvmlDeviceGetHandleByIndex(uint32_t index, nvmlDevice_t* device) {
  return WarplineDeviceAt(index, device);
}
int nvmlDeviceGetIndex(nvmlDevice_t device, uint32_t* index) {
  return WarplineDeviceIndex(device, index);
}
int nvmlDeviceGetMinorNumber(nvmlDevice_t device, uint32_t* number) {
  return WarplineDeviceIndex(device, number);
}

int nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  uint32_t count = 0;
  NVML_TRY(WarplineDeviceCount(&count));
  if (uuid == NULL || device == NULL) return kNvmlInvalidArgument;
  for (uint32_t i = 0; i < count; ++i) {
    char text[96];
    NVML_TRY(WarplineDeviceAt(i, device));
    NVML_TRY(WarplineText(*device, "uuid", text, sizeof(text)));
    if (strcasecmp(text, uuid) == 0) return kNvmlSuccess;
  }
  return kNvmlNotFound;
}

int nvmlDeviceGetHandleByUUIDV(const struct NvmlUuid* uuid, nvmlDevice_t* device) {
  NVML_TRY(WarplineNvmlCheck());
  NVML_TRY_VERSION(uuid, 1);
  char text[sizeof(uuid->value) + 1] = "GPU-";
  if (uuid->type == 1) {
    memcpy(text, uuid->value, sizeof(uuid->value));
    text[sizeof(uuid->value)] = '\0';
  } else if (uuid->type == 2) {
    for (int i = 0, at = 4; i < 16; ++i) {
      at +=
          snprintf(text + at, sizeof(text) - (size_t)at, "%s%02x",
                   i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid->value[i]);
    }
  } else {
    return kNvmlInvalidArgument;
  }
  return nvmlDeviceGetHandleByUUID(text, device);
}

/* ---- PCI */

struct PciAddress {
  uint32_t domain, bus, device;
};

static int ParsePci(const char* text, struct PciAddress* address) {
  unsigned function = 0;
  if (sscanf(text, "%x:%x:%x.%x", &address->domain, &address->bus, &address->device, &function) >=
      3) {
    return 1;
  }
  address->domain = 0;
  return sscanf(text, "%x:%x.%x", &address->bus, &address->device, &function) >= 2;
}

static int PciOf(nvmlDevice_t device, struct PciAddress* address) {
  char text[64];
  NVML_TRY(WarplineText(device, "pci_bus_id", text, sizeof(text)));
  return ParsePci(text, address) ? kNvmlSuccess : kNvmlNotSupported;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  uint32_t count = 0;
  struct PciAddress wanted, found;
  NVML_TRY(WarplineDeviceCount(&count));
  if (bus_id == NULL || device == NULL) return kNvmlInvalidArgument;
  if (!ParsePci(bus_id, &wanted)) return kNvmlInvalidArgument;
  for (uint32_t i = 0; i < count; ++i) {
    NVML_TRY(WarplineDeviceAt(i, device));
    if (PciOf(*device, &found) == kNvmlSuccess && found.domain == wanted.domain &&
        found.bus == wanted.bus && found.device == wanted.device) {
      return kNvmlSuccess;
    }
  }
  return kNvmlNotFound;
}
int nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

static uint32_t NumberOr(nvmlDevice_t device, const char* name, uint32_t otherwise) {
  uint64_t value = 0;
  const int result = WarplineNumber(device, kWarplineFixed, name, &value);
  return result == kNvmlSuccess ? (uint32_t)value : otherwise;
}

static int FillPci(nvmlDevice_t device, struct NvmlPciInfo* pci) {
  struct PciAddress address;
  NVML_TRY(PciOf(device, &address));
  memset(pci, 0, sizeof(*pci));
  pci->domain = address.domain;
  pci->bus = address.bus;
  pci->device = address.device;
  pci->device_id = NumberOr(device, "pci_device_id", 0);
  pci->subsystem_id = NumberOr(device, "pci_subsystem_id", 0);
  snprintf(pci->legacy_bus_id, sizeof(pci->legacy_bus_id), "%04X:%02X:%02X.0",
           address.domain & 0xffff, address.bus & 0xff, address.device & 0xff);
  snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.0", address.domain, address.bus & 0xff,
           address.device & 0xff);
  return kNvmlSuccess;
}

int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct NvmlPciInfo* pci) {
  NVML_TRY(WarplineNvmlCheck());
  return pci == NULL ? kNvmlInvalidArgument : FillPci(device, pci);
}

/* Before the third form the structure ended after its reserved fields. */
int nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, struct NvmlPciInfo* pci) {
  struct NvmlPciInfo full;
  NVML_TRY(WarplineNvmlCheck());
  if (pci == NULL) return kNvmlInvalidArgument;
  NVML_TRY(FillPci(device, &full));
  memcpy(pci, &full, offsetof(struct NvmlPciInfo, bus_id));
  return kNvmlSuccess;
}
int nvmlDeviceGetPciInfo(nvmlDevice_t device, struct NvmlPciInfo* pci) {
  return nvmlDeviceGetPciInfo_v2(device, pci);
}

int nvmlDeviceGetPciInfoExt(nvmlDevice_t device, struct NvmlPciInfoExt* pci) {
  struct NvmlPciInfo full;
  NVML_TRY(WarplineNvmlCheck());
  NVML_TRY_VERSION(pci, 1);
  NVML_TRY(FillPci(device, &full));
  pci->domain = full.domain;
  pci->bus = full.bus;
  pci->device = full.device;
  pci->device_id = full.device_id;
  pci->subsystem_id = full.subsystem_id;
  pci->base_class = 3; /* A display controller that is a 3D controller, as data centre GPUs are. */
  pci->sub_class = 2;
  memcpy(pci->bus_id, full.bus_id, sizeof(pci->bus_id));
  return kNvmlSuccess;
}

int nvmlDeviceGetBoardId(nvmlDevice_t device, uint32_t* id) {
  struct PciAddress address;
  if (id == NULL) return kNvmlInvalidArgument;
  NVML_TRY(PciOf(device, &address));
  *id = address.domain << 16 | address.bus << 8 | address.device;
  return kNvmlSuccess;
}

/* ---- Texts */

#define TEXT(function, name)                                     \
  int function(nvmlDevice_t device, char* text, uint32_t size) { \
    NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));       \
    return WarplineText(device, name, text, size);               \
  }
TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetVbiosVersion, "vbios_version")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom_image_version")
TEXT(nvmlDeviceGetBoardPartNumber, "board_part_number")

/* ---- Numbers */

static int Number(nvmlDevice_t device, enum WarplineAge age, const char* name, uint32_t* value) {
  uint64_t wide = 0;
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (value == NULL) return kNvmlInvalidArgument;
  NVML_TRY(WarplineNumber(device, age, name, &wide));
  *value = (uint32_t)wide;
  return kNvmlSuccess;
}

/* Gives the number whose name is `name` followed by `argument`, which must be below `bound`. */
static int NumberOf(nvmlDevice_t device, enum WarplineAge age, const char* name, uint32_t argument,
                    uint32_t bound, uint32_t* value) {
  char full[64];
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (argument >= bound) return kNvmlInvalidArgument;
  snprintf(full, sizeof(full), "%s%u", name, argument);
  return Number(device, age, full, value);
}

static int Wide(nvmlDevice_t device, enum WarplineAge age, const char* name, uint64_t* value) {
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  return value == NULL ? kNvmlInvalidArgument : WarplineNumber(device, age, name, value);
}

#define NUMBER(function, age, name) \
  int function(nvmlDevice_t device, uint32_t* value) { return Number(device, age, name, value); }
#define TWO_NUMBERS(function, age, first_name, second_name)              \
  int function(nvmlDevice_t device, uint32_t* first, uint32_t* second) { \
    NVML_TRY(Number(device, age, first_name, first));                    \
    return Number(device, kWarplineFixed, second_name, second);          \
  }
#define NUMBER_OF(function, age, name, bound)                             \
  int function(nvmlDevice_t device, uint32_t argument, uint32_t* value) { \
    return NumberOf(device, age, name, argument, bound, value);           \
  }
#define WIDE(function, age, name) \
  int function(nvmlDevice_t device, uint64_t* value) { return Wide(device, age, name, value); }

NUMBER(nvmlDeviceGetPowerUsage, kWarplineNow, "power_mw")
NUMBER(nvmlDeviceGetPowerManagementMode, kWarplineFixed, "power_management")
NUMBER(nvmlDeviceGetPowerManagementLimit, kWarplineNow, "power_limit_mw")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, kWarplineFixed, "power_default_mw")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, kWarplineNow, "power_enforced_mw")
NUMBER(nvmlDeviceGetPerformanceState, kWarplineNow, "performance_state")
NUMBER(nvmlDeviceGetPowerState, kWarplineNow, "performance_state")
NUMBER(nvmlDeviceGetFanSpeed, kWarplineNow, "fan_speed")
NUMBER(nvmlDeviceGetPersistenceMode, kWarplineFixed, "persistence_mode")
NUMBER(nvmlDeviceGetDisplayActive, kWarplineFixed, "display_active")
NUMBER(nvmlDeviceGetDisplayMode, kWarplineFixed, "display_mode")
NUMBER(nvmlDeviceGetBrand, kWarplineFixed, "brand")
NUMBER(nvmlDeviceGetArchitecture, kWarplineFixed, "architecture")
NUMBER(nvmlDeviceGetMultiGpuBoard, kWarplineFixed, "multi_gpu_board")
NUMBER(nvmlDeviceGetNumGpuCores, kWarplineFixed, "gpu_cores")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, kWarplineNow, "pcie_generation")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, kWarplineNow, "pcie_width")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, kWarplineFixed, "pcie_max_generation")
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, kWarplineFixed, "pcie_gpu_max_generation")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, kWarplineFixed, "pcie_max_width")
NUMBER(nvmlDeviceGetPcieSpeed, kWarplineNow, "pcie_speed")
NUMBER(nvmlDeviceGetPcieReplayCounter, kWarplineNow, "field_94")
NUMBER(nvmlDeviceGetModuleId, kWarplineFixed, "module_id")
TWO_NUMBERS(nvmlDeviceGetPowerManagementLimitConstraints, kWarplineFixed, "power_min_mw",
            "power_max_mw")
TWO_NUMBERS(nvmlDeviceGetEncoderUtilization, kWarplineNow, "encoder_utilization", "encoder_period")
TWO_NUMBERS(nvmlDeviceGetDecoderUtilization, kWarplineNow, "decoder_utilization", "decoder_period")
TWO_NUMBERS(nvmlDeviceGetJpgUtilization, kWarplineNow, "jpg_utilization", "jpg_period")
TWO_NUMBERS(nvmlDeviceGetOfaUtilization, kWarplineNow, "ofa_utilization", "ofa_period")
TWO_NUMBERS(nvmlDeviceGetEccMode, kWarplineFixed, "ecc_mode", "ecc_mode_pending")
TWO_NUMBERS(nvmlDeviceGetMigMode, kWarplineFixed, "mig_mode", "mig_mode_pending")
NUMBER_OF(nvmlDeviceGetTemperature, kWarplineNow, "temperature_", 1)
NUMBER_OF(nvmlDeviceGetTemperatureThreshold, kWarplineFixed, "temperature_threshold_", 8)
NUMBER_OF(nvmlDeviceGetClockInfo, kWarplineNow, "clock_", 4)
NUMBER_OF(nvmlDeviceGetMaxClockInfo, kWarplineFixed, "max_clock_", 4)
NUMBER_OF(nvmlDeviceGetApplicationsClock, kWarplineFixed, "application_clock_", 4)
NUMBER_OF(nvmlDeviceGetDefaultApplicationsClock, kWarplineFixed, "default_clock_", 4)
WIDE(nvmlDeviceGetTotalEnergyConsumption, kWarplineNow, "energy_mj")
WIDE(nvmlDeviceGetCurrentClocksThrottleReasons, kWarplineNow, "throttle_reasons")
WIDE(nvmlDeviceGetCurrentClocksEventReasons, kWarplineNow, "throttle_reasons")
WIDE(nvmlDeviceGetSupportedClocksThrottleReasons, kWarplineFixed, "throttle_reasons_supported")
WIDE(nvmlDeviceGetSupportedClocksEventReasons, kWarplineFixed, "throttle_reasons_supported")

/* Where the server has no NVML, the CUDA device knows these too. */
int nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, uint32_t* bits) {
  const int result = Number(device, kWarplineFixed, "memory_bus_width", bits);
  return result == kNvmlNotSupported ? Number(device, kWarplineFixed, "attribute_37", bits)
                                     : result;
}

int nvmlDeviceGetComputeMode(nvmlDevice_t device, uint32_t* mode) {
  const int result = Number(device, kWarplineFixed, "compute_mode", mode);
  return result == kNvmlNotSupported ? Number(device, kWarplineFixed, "attribute_20", mode)
                                     : result;
}

int nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  if (major == NULL || minor == NULL) return kNvmlInvalidArgument;
  NVML_TRY(Number(device, kWarplineFixed, "attribute_75", (uint32_t*)major));
  return Number(device, kWarplineFixed, "attribute_76", (uint32_t*)minor);
}

int nvmlDeviceGetTemperatureV(nvmlDevice_t device, struct NvmlTemperature* temperature) {
  uint32_t degrees = 0;
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  NVML_TRY_VERSION(temperature, 1);
  NVML_TRY(nvmlDeviceGetTemperature(device, temperature->sensor, &degrees));
  temperature->temperature = (int32_t)degrees;
  return kNvmlSuccess;
}

int nvmlDeviceGetMarginTemperature(nvmlDevice_t device, struct NvmlMarginTemperature* margin) {
  uint32_t degrees = 0;
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  NVML_TRY_VERSION(margin, 1);
  NVML_TRY(Number(device, kWarplineNow, "temperature_margin", &degrees));
  margin->degrees = (int32_t)degrees;
  return kNvmlSuccess;
}

int nvmlDeviceGetRemappedRows(nvmlDevice_t device, uint32_t* correctable, uint32_t* uncorrectable,
                              uint32_t* pending, uint32_t* failed) {
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (correctable == NULL || uncorrectable == NULL || pending == NULL || failed == NULL) {
    return kNvmlInvalidArgument;
  }
  NVML_TRY(Number(device, kWarplineNow, "field_142", correctable));
  NVML_TRY(Number(device, kWarplineFixed, "field_143", uncorrectable));
  NVML_TRY(Number(device, kWarplineFixed, "field_144", pending));
  return Number(device, kWarplineFixed, "field_145", failed);
}

int nvmlDeviceGetClock(nvmlDevice_t device, uint32_t type, uint32_t id, uint32_t* mhz) {
  static const char* const kNames[] = {"clock_", "application_clock_", "default_clock_",
                                       "max_clock_"};
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (id >= sizeof(kNames) / sizeof(kNames[0])) return kNvmlInvalidArgument;
  return NumberOf(device, kWarplineNow, kNames[id], type, 4, mhz);
}

int nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, uint32_t type, uint32_t counter,
                                uint64_t* count) {
  char name[64];
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (type > 1 || counter > 1) return kNvmlInvalidArgument;
  snprintf(name, sizeof(name), "ecc_errors_%u_%u", type, counter);
  return Wide(device, kWarplineNow, name, count);
}

int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct NvmlUtilization* rates) {
  if (rates == NULL) return kNvmlInvalidArgument;
  NVML_TRY(Number(device, kWarplineNow, "utilization", &rates->gpu));
  return Number(device, kWarplineFixed, "utilization_memory", &rates->memory);
}

int nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct NvmlFieldValue* values) {
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (count < 0 || values == NULL) return kNvmlInvalidArgument;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  for (int i = 0; i < count; ++i) {
    struct NvmlFieldValue* const value = &values[i];
    char name[64];
    char type_name[80];
    uint64_t type = 0;
    if (value->scope == 0) {
      snprintf(name, sizeof(name), "field_%u", value->field);
    } else {
      snprintf(name, sizeof(name), "field_%u_%u", value->field, value->scope);
    }
    snprintf(type_name, sizeof(type_name), "%s_type", name);
    value->timestamp_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    value->latency_us = 0;
    value->result = WarplineNumber(device, kWarplineNow, name, &value->value);
    if (value->result != kNvmlSuccess) continue;
    if (WarplineNumber(device, kWarplineFixed, type_name, &type) == kNvmlSuccess) {
      value->type = (uint32_t)type;
    }
  }
  return kNvmlSuccess;
}

/* NVML keeps some seconds of samples. Here there is one sample, of the time of the call. */
int nvmlDeviceGetSamples(nvmlDevice_t device, uint32_t type, uint64_t last_seen_us,
                         uint32_t* value_type, uint32_t* count, struct NvmlSample* samples) {
  enum { kUnsignedInt = 1 };
  static const char* const kNames[] = {
      "power_mw", "utilization", "utilization_memory", "encoder_utilization", "decoder_utilization",
      "clock_1",  "clock_2"};
  uint32_t value = 0;
  (void)last_seen_us;
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (value_type == NULL || count == NULL) return kNvmlInvalidArgument;
  if (type >= sizeof(kNames) / sizeof(kNames[0])) return kNvmlNotSupported;
  NVML_TRY(Number(device, kWarplineNow, kNames[type], &value));
  *value_type = kUnsignedInt;
  if (samples != NULL) {
    if (*count == 0) return kNvmlInvalidArgument;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    samples[0].timestamp_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    samples[0].value = value;
  }
  *count = 1;
  return kNvmlSuccess;
}

/* ---- Counters that are always zero for a slice */

#define ZERO(function)                                     \
  int function(nvmlDevice_t device, uint32_t* value) {     \
    NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0})); \
    if (value == NULL) return kNvmlInvalidArgument;        \
    *value = 0;                                            \
    return kNvmlSuccess;                                   \
  }
ZERO(nvmlDeviceIsMigDeviceHandle)
ZERO(nvmlDeviceGetMaxMigDeviceCount)
ZERO(nvmlDeviceGetVirtualizationMode)
