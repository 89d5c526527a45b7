/* The part of NVML's binary interface that is served, as NVIDIA documents it (NVML API Reference).
 * The toolkits that this builds with do not contain nvml.h. C. */
#ifndef WARPLINE_CLIENT_STUB_NVML_NVML_ABI_H_
#define WARPLINE_CLIENT_STUB_NVML_NVML_ABI_H_

#include <stdint.h>

enum NvmlReturn {
  kNvmlSuccess = 0,
  kNvmlUninitialized = 1,
  kNvmlInvalidArgument = 2,
  kNvmlNotSupported = 3,
  kNvmlNotFound = 6,
  kNvmlInsufficientSize = 7,
  kNvmlDriverNotLoaded = 9,
  kNvmlTimeout = 10,
  kNvmlGpuIsLost = 15,
  kNvmlMemory = 20,
  kNvmlArgumentVersionMismatch = 25,
};

typedef struct NvmlDevice* nvmlDevice_t;

/* The `version` of a structure: its size and the number of its form. */
#define NVML_VERSION(type, number) ((uint32_t)(sizeof(type) | ((number) << 24)))

struct NvmlPciInfo {
  char legacy_bus_id[16];
  uint32_t domain, bus, device, device_id, subsystem_id;
  char bus_id[32]; /* Since the third form. */
};

struct NvmlPciInfoExt {
  uint32_t version;
  uint32_t domain, bus, device, device_id, subsystem_id, base_class, sub_class;
  char bus_id[32];
};

struct NvmlMemory {
  uint64_t total, free, used;
};

struct NvmlMemory2 {
  uint32_t version;
  uint64_t total, reserved, free, used;
};

struct NvmlUtilization {
  uint32_t gpu, memory;
};

struct NvmlProcess1 {
  uint32_t pid;
  uint64_t used_memory;
};

struct NvmlProcess2 {
  uint32_t pid;
  uint64_t used_memory;
  uint32_t gpu_instance, compute_instance; /* ~0 where there are none. */
};

struct NvmlProcessDetail {
  uint32_t pid;
  uint64_t used_memory;
  uint32_t gpu_instance, compute_instance;
  uint64_t protected_memory;
};

struct NvmlProcessDetailList {
  uint32_t version, mode, count;
  struct NvmlProcessDetail* processes;
};

struct NvmlTemperature {
  uint32_t version, sensor;
  int32_t temperature;
};

struct NvmlMarginTemperature {
  uint32_t version;
  int32_t degrees;
};

struct NvmlUuid {
  uint32_t version, type; /* Type 1: text, 2: bytes. */
  char value[41];
};

struct NvmlFieldValue {
  uint32_t field, scope;
  int64_t timestamp_us, latency_us;
  uint32_t type;
  int32_t result;
  uint64_t value;
};

struct NvmlSample {
  uint64_t timestamp_us;
  uint64_t value;
};

struct NvmlConfComputeState {
  uint32_t environment, feature, tools;
};

struct NvmlConfComputeSettings {
  uint32_t version, environment, feature, tools, multi_gpu;
};

/* nvmlSystemEventSetCreateRequest_t and nvmlSystemEventSetFreeRequest_t. */
struct NvmlSystemEventSetRequest {
  uint32_t version;
  void* set;
};

struct NvmlSystemRegisterEventRequest {
  uint32_t version;
  uint64_t types;
  void* set;
};

struct NvmlSystemEventSetWaitRequest {
  uint32_t version, timeout_ms;
  void* set;
  void* data;
  uint32_t room, count;
};

#endif /* WARPLINE_CLIENT_STUB_NVML_NVML_ABI_H_ */
