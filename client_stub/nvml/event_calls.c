/* NVML's events: they can be registered and waited for, and none comes (event_sets.h). Codes and
 * their order are those of NVML 13.580 where a call is defined there; elsewhere a wrong set is
 * kNvmlInvalidArgument. */
#include <stddef.h>

#include "client_stub/nvml/event_sets.h"
#include "client_stub/nvml/facts.h"

static const enum WarplineEventSetKind kDevice = kWarplineDeviceEvents;
static const enum WarplineEventSetKind kSystem = kWarplineSystemEvents;

/* Every type that nvml.h knows, and the lower bits that it once knew. */
static const uint64_t kEventTypes = 0xffff;

/* ---- Events of devices */

int nvmlEventSetCreate(void** set) {
  NVML_TRY(WarplineNvmlCheck());
  if (set == NULL) return kNvmlInvalidArgument;
  void* const created = WarplineEventSetCreate(kDevice);
  if (created == NULL) return kNvmlMemory;
  *set = created;
  return kNvmlSuccess;
}

int nvmlEventSetFree(void* set) {
  NVML_TRY(WarplineNvmlCheck());
  return WarplineEventSetFree(set, kDevice) ? kNvmlSuccess : kNvmlInvalidArgument;
}

/* Programs that find no type go on without events, and register none of them. */
int nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, uint64_t* types) {
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (types == NULL) return kNvmlInvalidArgument;
  *types = 0;
  return kNvmlSuccess;
}

/* Programs that do not ask first would take a refusal for a broken device. NVML, too, accepts types
 * that the device lacks. */
int nvmlDeviceRegisterEvents(nvmlDevice_t device, uint64_t types, void* set) {
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (!WarplineEventSetIsOne(set, kDevice)) return kNvmlInvalidArgument;
  return (types & ~kEventTypes) == 0 ? kNvmlSuccess : kNvmlNotSupported;
}

int nvmlEventSetWait_v2(void* set, void* data, uint32_t timeout_ms) {
  NVML_TRY(WarplineNvmlCheck());
  if (!WarplineEventSetIsOne(set, kDevice) || data == NULL) return kNvmlInvalidArgument;
  WarplineEventSetWait(set, kDevice, timeout_ms);
  return kNvmlTimeout;
}
int nvmlEventSetWait(void* set, void* data, uint32_t timeout_ms) {
  return nvmlEventSetWait_v2(set, data, timeout_ms);
}

/* ---- Events of the system: drivers that are bound to GPUs and leave them */

int nvmlSystemEventSetCreate(struct NvmlSystemEventSetRequest* request) {
  NVML_TRY(WarplineNvmlCheck());
  NVML_TRY_VERSION(request, 1);
  void* const created = WarplineEventSetCreate(kSystem);
  if (created == NULL) return kNvmlMemory;
  request->set = created;
  return kNvmlSuccess;
}

int nvmlSystemEventSetFree(struct NvmlSystemEventSetRequest* request) {
  NVML_TRY(WarplineNvmlCheck());
  NVML_TRY_VERSION(request, 1);
  if (request->set == NULL) return kNvmlSuccess;
  return WarplineEventSetFree(request->set, kSystem) ? kNvmlSuccess : kNvmlInvalidArgument;
}

int nvmlSystemRegisterEvents(struct NvmlSystemRegisterEventRequest* request) {
  NVML_TRY(WarplineNvmlCheck());
  NVML_TRY_VERSION(request, 1);
  const int known = WarplineEventSetIsOne(request->set, kSystem);
  return known && request->types != 0 ? kNvmlSuccess : kNvmlInvalidArgument;
}

int nvmlSystemEventSetWait(struct NvmlSystemEventSetWaitRequest* request) {
  NVML_TRY(WarplineNvmlCheck());
  NVML_TRY_VERSION(request, 1);
  if (!WarplineEventSetIsOne(request->set, kSystem) || request->data == NULL ||
      request->room == 0) {
    return kNvmlInvalidArgument;
  }
  if (request->timeout_ms == 0) {
    /* Asks only for events that have come already. */
    request->count = 0;
    return kNvmlSuccess;
  }
  WarplineEventSetWait(request->set, kSystem, request->timeout_ms);
  return kNvmlTimeout;
}
