/* Lists of processes, for entries of any form. C. */
#ifndef WARPLINE_CLIENT_STUB_NVML_PROCESSES_H_
#define WARPLINE_CLIENT_STUB_NVML_PROCESSES_H_

#include "client_stub/nvml/facts.h"

/* Calls `put` for each process of the device that *count leaves room for, and sets *count to the
 * number of processes. kNvmlInsufficientSize when there are more than the room; otherwise the codes
 * of facts.h. Thread-safe. */
int WarplineListProcesses(nvmlDevice_t device, uint32_t* count, void* entries,
                          void (*put)(void* entries, uint32_t at,
                                      const struct WarplineProcess* process));

#endif /* WARPLINE_CLIENT_STUB_NVML_PROCESSES_H_ */
