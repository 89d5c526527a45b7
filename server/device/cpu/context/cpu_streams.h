// The streams and events of the CPU device.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_STREAMS_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_STREAMS_H_

#include <cstdint>

#include "common/cuda/cuda_result.h"
#include "server/device/cpu/context/cpu_shared.h"
#include "server/device/cpu/streams/stream_set.h"
#include "server/device/facets/streams.h"

namespace warpline::cpu {

// Thread-safe.
class CpuStreams : public virtual device::Streams {
 public:
  explicit CpuStreams(CpuShared* shared) : shared_(shared), streams_(shared->streams()) {}

  bool OrdersByPriority() const override { return false; }
  CudaResult CreateStream(uint32_t flags, int priority, device::StreamId* stream) override;
  CudaResult DestroyStream(device::StreamId stream) override;
  // Does nothing, because all attributes are hints.
  CudaResult SetStreamAttribute(device::StreamId, const device::LaunchAttribute&) override {
    return CudaResult::kSuccess;
  }
  CudaResult CreateEvent(uint32_t flags, device::EventId* event) override;
  CudaResult DestroyEvent(device::EventId event) override;
  CudaResult RecordEvent(device::EventId event, device::StreamId stream) override;
  CudaResult WaitEvent(device::StreamId stream, device::EventId event) override;
  CudaResult QueryEvent(device::EventId event) override;
  CudaResult ElapsedMs(device::EventId start, device::EventId end, float* ms) override;
  CudaResult QueryIdle() override;
  device::ProcessorSet BusyProcessors() override;

 private:
  CpuShared* const shared_;
  StreamSet& streams_;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_STREAMS_H_
