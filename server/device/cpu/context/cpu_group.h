// What contexts of the CPU device share that were opened together.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_GROUP_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_GROUP_H_

#include <cstdint>

#include "server/device/cpu/memory/array_store.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/streams/stream_set.h"
#include "server/device/gate/address_gate.h"

namespace warpline::cpu {

// Thread-safe, because its parts are.
struct CpuGroup {
  // `devices` is the number of devices that exist, of which `contexts` are open.
  CpuGroup(uint32_t contexts, int devices)
      : contexts(contexts), devices(devices), streams(contexts) {}

  const uint32_t contexts;
  const int devices;
  MemoryMap memory;
  // Every address that a command names passes it. Work that had to wait asks the memory again when
  // it runs: what was mapped may be gone.
  device::AddressGate gate{&memory};
  ArrayStore arrays;
  // The last member, so that it is destroyed first: its threads use everything above.
  StreamSet streams;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_GROUP_H_
