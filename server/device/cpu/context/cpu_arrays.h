// The arrays of the CPU device, which lie in memory as boxes do.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_ARRAYS_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_ARRAYS_H_

#include <cstdint>
#include <memory>

#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cpu/context/cpu_shared.h"
#include "server/device/cpu/memory/array_store.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/streams/stream_set.h"
#include "server/device/facets/arrays.h"
#include "server/device/gate/address_gate.h"

namespace warpline::cpu {

// Thread-safe.
class CpuArrays : public virtual device::Arrays {
 public:
  explicit CpuArrays(CpuShared* shared)
      : shared_(shared),
        memory_(shared->memory()),
        gate_(shared->gate()),
        streams_(shared->streams()),
        arrays_(shared->group().arrays) {}

  CudaResult CreateArray(device::ArrayShape* shape, device::ArrayId* array) override;
  CudaResult DestroyArray(device::ArrayId array) override;
  CudaResult ArrayLevel(device::ArrayId array, uint32_t level, device::ArrayShape* shape,
                        device::ArrayId* part) override;
  CudaResult ArrayPlane(device::ArrayId array, uint32_t plane, device::ArrayShape* shape,
                        device::ArrayId* part) override;
  CudaResult CopyArray(const device::ArrayEnd& to, const device::ArrayEnd& from,
                       const BoxExtent& extent, device::StreamId stream) override;

 private:
  // One end of a copy with arrays, and what keeps it alive.
  struct FoundEnd {
    std::shared_ptr<CpuArray> array;
    uint64_t bytes = 0;  // Of the session's memory from the place on; 0 for other memory.
    BoxPlace place;
  };
  // Returns false for an end that a command may not name.
  bool FindEnd(const device::ArrayEnd& end, const BoxExtent& extent, device::MemoryUse use,
               FoundEnd* found);

  CpuShared* const shared_;
  MemoryMap& memory_;
  const device::AddressGate& gate_;
  StreamSet& streams_;
  ArrayStore& arrays_;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_ARRAYS_H_
