/* Warpline's latest answers about this program's devices, and whether NVML is initialized. C.
 *
 * All functions are thread-safe and work in the child of a fork. They return NVML's codes:
 * kNvmlUninitialized before nvmlInit, kNvmlInvalidArgument for an invalid handle or pointer,
 * kNvmlNotSupported for a fact that Warpline did not report, kNvmlGpuIsLost when it no longer
 * answers. */
#ifndef WARPLINE_CLIENT_STUB_NVML_FACTS_H_
#define WARPLINE_CLIENT_STUB_NVML_FACTS_H_

#include <stddef.h>
#include <stdint.h>

#include "client_stub/nvml/nvml_abi.h"

/* How old a fact may be: as old as nvmlInit, a fifth of a second, or no older than the call. */
enum WarplineAge { kWarplineFixed, kWarplineNow, kWarplineExact };

/* nvmlInit and nvmlShutdown, which are counted. kNvmlDriverNotLoaded when Warpline does not
 * answer. */
int WarplineNvmlOpen(void);
int WarplineNvmlClose(void);
/* Returns kNvmlSuccess while NVML is initialized. */
int WarplineNvmlCheck(void);

int WarplineDeviceCount(uint32_t* count);
int WarplineDeviceAt(uint32_t index, nvmlDevice_t* device);
int WarplineDeviceIndex(nvmlDevice_t device, uint32_t* index);

/* Gives a fact about a device, or about the driver if `device` is NULL. */
int WarplineNumber(nvmlDevice_t device, enum WarplineAge age, const char* name, uint64_t* value);
/* Gives a fact as text. kNvmlInsufficientSize when the text with its final 0 is longer than
 * `size`. */
int WarplineText(nvmlDevice_t device, const char* name, char* text, size_t size);

struct WarplineProcess {
  uint32_t pid;
  uint64_t bytes;
  char name[256];
};
/* Gives the process number `index` of the device; kNvmlNotFound when there are no more. */
int WarplineProcessAt(nvmlDevice_t device, uint32_t index, struct WarplineProcess* process);

/* Returns the value of `expression` from the calling function unless it is kNvmlSuccess. */
#define NVML_TRY(expression)                           \
  do {                                                 \
    const int try_result = (expression);               \
    if (try_result != kNvmlSuccess) return try_result; \
  } while (0)

/* Checks that a structure that begins with its version is there and has the expected version. Reads
 * nothing behind the version. */
static inline int WarplineCheckVersion(const uint32_t* version, uint32_t expected) {
  if (version == NULL) return kNvmlInvalidArgument;
  return *version == expected ? kNvmlSuccess : kNvmlArgumentVersionMismatch;
}
#define NVML_TRY_VERSION(structure, number) \
  NVML_TRY(WarplineCheckVersion((const uint32_t*)(structure), NVML_VERSION(*(structure), number)))

#endif /* WARPLINE_CLIENT_STUB_NVML_FACTS_H_ */
