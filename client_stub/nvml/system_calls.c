/* NVML's functions that concern no device: initialization, versions, and features that do not exist
 * here. */
#include <stdio.h>
#include <string.h>

#include "client_stub/nvml/facts.h"

int nvmlInitWithFlags(uint32_t flags) {
  (void)flags; /* They say that there may be no GPU, and that GPUs need not be attached to. */
  return WarplineNvmlOpen();
}
int nvmlInit_v2(void) { return WarplineNvmlOpen(); }
int nvmlInit(void) { return WarplineNvmlOpen(); }
int nvmlShutdown(void) { return WarplineNvmlClose(); }

const char* nvmlErrorString(int result) {
  static const char* const kTexts[] = {
      "Success",
      "Uninitialized",
      "Invalid Argument",
      "Not Supported",
      "Insufficient Permissions",
      "Already Initialized",
      "Not Found",
      "Insufficient Size",
      "Insufficient External Power",
      "Driver Not Loaded",
      "Timeout",
      "Interrupt Request Issue",
      "NVML Shared Library Not Found",
      "Function Not Found",
      "Corrupted infoROM",
      "GPU is lost",
      "GPU requires reset",
      "The operating system has blocked the request",
      "Driver/library version mismatch",
      "In use by another client",
      "Insufficient Memory",
      "No data",
      "The requested vGPU operation is not available on target device, because ECC is enabled",
      "Insufficient resources",
      "Frequency not supported",
      "Argument version mismatch",
      "The requested functionality has been deprecated",
      "System is not ready for the request",
      "No GPUs were found",
      "Resource not in correct state to perform requested operation",
      "Reset type not supported",
  };
  const int known = result >= 0 && (size_t)result < sizeof(kTexts) / sizeof(kTexts[0]);
  return known ? kTexts[result] : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char* version, uint32_t size) {
  NVML_TRY(WarplineNvmlCheck());
  return WarplineText(NULL, "driver_version", version, size);
}

int nvmlSystemGetCudaDriverVersion(int* version) {
  uint64_t value = 0;
  if (version == NULL) return kNvmlInvalidArgument;
  NVML_TRY(WarplineNumber(NULL, kWarplineFixed, "cuda_version", &value));
  *version = (int)value;
  return kNvmlSuccess;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

int nvmlSystemGetNVMLVersion(char* version, uint32_t size) {
  NVML_TRY(WarplineNvmlCheck());
  const int result = WarplineText(NULL, "nvml_version", version, size);
  if (result != kNvmlSuccess || version[0] != '\0') return result;
  /* A server without NVML: made as NVIDIA makes it, of the CUDA major version and the driver's. */
  char driver[80] = "";
  uint64_t cuda = 0;
  NVML_TRY(WarplineText(NULL, "driver_version", driver, sizeof(driver)));
  NVML_TRY(WarplineNumber(NULL, kWarplineFixed, "cuda_version", &cuda));
  const int length = snprintf(version, size, "%d.%s", (int)(cuda / 1000), driver);
  return length >= 0 && (uint32_t)length < size ? kNvmlSuccess : kNvmlInsufficientSize;
}

int nvmlSystemGetProcessName(uint32_t pid, char* name, uint32_t size) {
  uint32_t count = 0;
  if (name == NULL || size == 0) return kNvmlInvalidArgument;
  NVML_TRY(WarplineDeviceCount(&count));
  for (uint32_t i = 0; i < count; ++i) {
    nvmlDevice_t device = NULL;
    NVML_TRY(WarplineDeviceAt(i, &device));
    struct WarplineProcess process;
    for (uint32_t at = 0; WarplineProcessAt(device, at, &process) == kNvmlSuccess; ++at) {
      if (process.pid != pid) continue;
      /* NVML cuts a name that is too long. */
      snprintf(name, size, "%s", process.name);
      return kNvmlSuccess;
    }
  }
  return kNvmlNotFound;
}

static int None(uint32_t* count) {
  NVML_TRY(WarplineNvmlCheck());
  if (count == NULL) return kNvmlInvalidArgument;
  *count = 0;
  return kNvmlSuccess;
}
int nvmlUnitGetCount(uint32_t* count) { return None(count); }
int nvmlGetExcludedDeviceCount(uint32_t* count) { return None(count); }
int nvmlGetBlacklistDeviceCount(uint32_t* count) { return None(count); }
int nvmlSystemGetHicVersion(uint32_t* count, void* entries) {
  (void)entries;
  return None(count);
}

/* NCCL asks, and must be told that there is none. */
int nvmlSystemGetConfComputeState(struct NvmlConfComputeState* state) {
  NVML_TRY(WarplineNvmlCheck());
  if (state == NULL) return kNvmlInvalidArgument;
  memset(state, 0, sizeof(*state));
  return kNvmlSuccess;
}

int nvmlSystemGetConfComputeSettings(struct NvmlConfComputeSettings* settings) {
  NVML_TRY(WarplineNvmlCheck());
  NVML_TRY_VERSION(settings, 1);
  const uint32_t version = settings->version;
  memset(settings, 0, sizeof(*settings));
  settings->version = version;
  return kNvmlSuccess;
}
