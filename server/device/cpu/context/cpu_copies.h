// Copies, fills and operations on words of the CPU device.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_COPIES_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cpu/context/cpu_shared.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/streams/stream_set.h"
#include "server/device/facets/copies.h"
#include "server/device/gate/address_gate.h"

namespace warpline::cpu {

// Thread-safe.
class CpuCopies : public virtual device::Copies {
 public:
  explicit CpuCopies(CpuShared* shared)
      : shared_(shared),
        memory_(shared->memory()),
        gate_(shared->gate()),
        streams_(shared->streams()) {}

  CudaResult CopyToDevice(uint64_t dst, const void* src, size_t bytes,
                          device::StreamId stream) override;
  CudaResult CopyFromDevice(void* dst, uint64_t src, size_t bytes,
                            device::StreamId stream) override;
  CudaResult CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes,
                          device::StreamId stream) override;
  CudaResult Memset(uint64_t dst, uint32_t value, int width, size_t count,
                    device::StreamId stream) override;
  CudaResult MemsetRows(uint64_t dst, uint64_t pitch, uint32_t value, int width, size_t columns,
                        size_t rows, device::StreamId stream) override;
  CudaResult CopyBoxToDevice(const BoxPlace& dst, const void* src, const BoxExtent& extent,
                             device::StreamId stream) override;
  CudaResult CopyBoxFromDevice(void* dst, const BoxPlace& src, const BoxExtent& extent,
                               device::StreamId stream) override;
  CudaResult CopyBoxOnDevice(const BoxPlace& dst, const BoxPlace& src, const BoxExtent& extent,
                             device::StreamId stream) override;
  CudaResult MemOps(absl::Span<const device::MemOp> operations, device::StreamId stream) override;

 private:
  // One end of a copy of boxes, which is the session's memory unless it is the host's.
  struct BoxEnd {
    BoxPlace place;
    uint64_t bytes = 0;
    bool on_host = false;
  };
  // Return nothing for what is no box, or one that a command may not name.
  static std::optional<BoxEnd> OnHost(const void* at, const BoxExtent& extent);
  std::optional<BoxEnd> OnDevice(const BoxPlace& place, const BoxExtent& extent,
                                 device::MemoryUse use) const;
  CudaResult CopyBox(const std::optional<BoxEnd>& dst, const std::optional<BoxEnd>& src,
                     const BoxExtent& extent, device::StreamId stream);
  // Returns when a wait is over, or when its end cannot come any more.
  CudaResult RunMemOp(const device::MemOp& op);

  CpuShared* const shared_;
  MemoryMap& memory_;
  const device::AddressGate& gate_;
  StreamSet& streams_;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_COPIES_H_
