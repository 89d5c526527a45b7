// What contexts of the CPU device that were opened together share.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_GROUP_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_GROUP_H_

#include <cstdint>

#include "server/device/cpu/memory/array_store.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/streams/stream_set.h"

namespace warpline::cpu {

// Thread-safe, as its parts are.
struct CpuGroup {
  // `devices`: that there are, of which `contexts` are open.
  CpuGroup(uint32_t contexts, int devices)
      : contexts(contexts), devices(devices), streams(contexts) {}

  const uint32_t contexts;
  const int devices;
  MemoryMap memory;
  ArrayStore arrays;
  // Last, so that it goes first: its threads use everything above.
  StreamSet streams;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_GROUP_H_
