/* nvidia-smi asks for a private table of functions before anything else, and gives up without one.
 * It works with functions that return "not supported", and then uses public ones. Only its list of
 * processes comes from the table alone: from three functions, for processes that compute, draw and
 * use MPS. One more says whether `nvidia-smi dmon` and `pmon` may watch the device. Found by trial
 * with nvidia-smi 535 and 580. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "client_stub/nvml/facts.h"
#include "client_stub/nvml/processes.h"

enum {
  kEntries = 512,
  kMayBeWatched = 72,
  kComputeProcesses = 213,
  kGraphicsProcesses = 214,
  kMpsProcesses = 215
};

struct PrivateProcess {
  struct NvmlProcess2 process;
  uint64_t unknown;
  char name[4096];
};

static int NotSupported(void) { return kNvmlNotSupported; }

static void Put(void* entries, uint32_t at, const struct WarplineProcess* process) {
  struct PrivateProcess* const entry = (struct PrivateProcess*)entries + at;
  entry->process.pid = process->pid;
  entry->process.used_memory = process->bytes;
  entry->process.gpu_instance = entry->process.compute_instance = ~0u;
  entry->unknown = 0;
  snprintf(entry->name, sizeof(entry->name), "%s", process->name);
}

static int ComputeProcesses(nvmlDevice_t device, uint32_t* count, void* entries) {
  return WarplineListProcesses(device, count, entries, Put);
}

static int NoProcesses(nvmlDevice_t device, uint32_t* count, void* entries) {
  (void)entries;
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (count == NULL) return kNvmlInvalidArgument;
  *count = 0;
  return kNvmlSuccess;
}

static int MayBeWatched(nvmlDevice_t device, uint32_t* answer) {
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (answer == NULL) return kNvmlInvalidArgument;
  *answer = 1;
  return kNvmlSuccess;
}

static void* EntryAt(size_t index) {
  switch (index) {
    case 0: /* The table's size in bytes. */
      return (void*)(kEntries * sizeof(void*));
    case kMayBeWatched:
      return (void*)MayBeWatched;
    case kComputeProcesses:
      return (void*)ComputeProcesses;
    case kGraphicsProcesses:
    case kMpsProcesses:
      return (void*)NoProcesses;
    default:
      return (void*)NotSupported;
  }
}

int nvmlInternalGetExportTable(const void** table, const unsigned char* id) {
  static const unsigned char kKnown[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                           0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
  static void* entries[kEntries];
  if (table == NULL || id == NULL) return kNvmlInvalidArgument;
  *table = NULL;
  if (memcmp(id, kKnown, sizeof(kKnown)) != 0) return kNvmlNotFound;
  /* Every thread writes the same values. */
  for (size_t i = 0; i < kEntries; ++i) {
    __atomic_store_n(&entries[i], EntryAt(i), __ATOMIC_RELEASE);
  }
  *table = (const void*)entries;
  return kNvmlSuccess;
}
