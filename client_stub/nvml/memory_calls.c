/* NVML's functions about memory and processes: the quota of the lease or session, and its
 * programs. */
#include <string.h>

#include "client_stub/nvml/facts.h"
#include "client_stub/nvml/processes.h"

static int Memory(nvmlDevice_t device, struct NvmlMemory* memory) {
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  NVML_TRY(WarplineNumber(device, kWarplineExact, "memory_used", &memory->used));
  NVML_TRY(WarplineNumber(device, kWarplineFixed, "memory_total", &memory->total));
  memory->free = memory->total > memory->used ? memory->total - memory->used : 0;
  return kNvmlSuccess;
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct NvmlMemory* memory) {
  NVML_TRY(WarplineNvmlCheck());
  return memory == NULL ? kNvmlInvalidArgument : Memory(device, memory);
}

int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct NvmlMemory2* memory) {
  struct NvmlMemory found;
  NVML_TRY(WarplineNvmlCheck());
  NVML_TRY_VERSION(memory, 2);
  NVML_TRY(Memory(device, &found));
  memory->total = found.total;
  memory->used = found.used;
  memory->free = found.free;
  memory->reserved = 0;
  return kNvmlSuccess;
}

int nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, struct NvmlMemory* memory) {
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (memory == NULL) return kNvmlInvalidArgument;
  NVML_TRY(WarplineNumber(device, kWarplineNow, "bar1_used", &memory->used));
  NVML_TRY(WarplineNumber(device, kWarplineFixed, "bar1_free", &memory->free));
  return WarplineNumber(device, kWarplineFixed, "bar1_total", &memory->total);
}

int WarplineListProcesses(nvmlDevice_t device, uint32_t* count, void* entries,
                          void (*put)(void* entries, uint32_t at,
                                      const struct WarplineProcess* process)) {
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (count == NULL) return kNvmlInvalidArgument;
  const uint32_t room = *count;
  if (room > 0 && entries == NULL) return kNvmlInvalidArgument;
  struct WarplineProcess process;
  uint32_t at = 0;
  int result = kNvmlSuccess;
  while ((result = WarplineProcessAt(device, at, &process)) == kNvmlSuccess) {
    if (at < room) put(entries, at, &process);
    ++at;
  }
  if (result != kNvmlNotFound) return result;
  *count = at;
  return at > room ? kNvmlInsufficientSize : kNvmlSuccess;
}

static void Put1(void* entries, uint32_t at, const struct WarplineProcess* process) {
  struct NvmlProcess1* const entry = (struct NvmlProcess1*)entries + at;
  entry->pid = process->pid;
  entry->used_memory = process->bytes;
}

static void Put2(void* entries, uint32_t at, const struct WarplineProcess* process) {
  struct NvmlProcess2* const entry = (struct NvmlProcess2*)entries + at;
  entry->pid = process->pid;
  entry->used_memory = process->bytes;
  entry->gpu_instance = entry->compute_instance = ~0u;
}

static void PutDetail(void* entries, uint32_t at, const struct WarplineProcess* process) {
  struct NvmlProcessDetail* const entry = (struct NvmlProcessDetail*)entries + at;
  memset(entry, 0, sizeof(*entry));
  entry->pid = process->pid;
  entry->used_memory = process->bytes;
  entry->gpu_instance = entry->compute_instance = ~0u;
}

int nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, uint32_t* count,
                                         struct NvmlProcess1* infos) {
  return WarplineListProcesses(device, count, infos, Put1);
}
int nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, uint32_t* count,
                                            struct NvmlProcess2* infos) {
  return WarplineListProcesses(device, count, infos, Put2);
}
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, uint32_t* count,
                                            struct NvmlProcess2* infos) {
  return WarplineListProcesses(device, count, infos, Put2);
}

int nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, struct NvmlProcessDetailList* list) {
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (list == NULL || list->mode > 3) return kNvmlInvalidArgument;
  if (list->version != NVML_VERSION(struct NvmlProcessDetailList, 1)) {
    return kNvmlArgumentVersionMismatch;
  }
  /* Modes 1 and 2 are graphics and MPS. */
  if (list->mode == 1 || list->mode == 2) {
    list->count = 0;
    return kNvmlSuccess;
  }
  return WarplineListProcesses(device, &list->count, list->processes, PutDetail);
}

#define NO_PROCESSES(function)                                      \
  int function(nvmlDevice_t device, uint32_t* count, void* infos) { \
    (void)infos;                                                    \
    NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));          \
    if (count == NULL) return kNvmlInvalidArgument;                 \
    *count = 0;                                                     \
    return kNvmlSuccess;                                            \
  }
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)
