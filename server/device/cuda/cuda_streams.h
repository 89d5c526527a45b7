// A GPU's streams and events.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_STREAMS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_STREAMS_H_

#include <cstdint>

#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/cuda/shared/live_set.h"
#include "server/device/facets/streams.h"

namespace warpline::device {

// Thread-safe, as the driver is.
class CudaStreams : public virtual Streams, protected CudaPart {
 public:
  explicit CudaStreams(CudaMember* member) : CudaPart(*member), events_(is_shared()) {}
  ~CudaStreams() override;

  bool OrdersByPriority() const override { return !is_shared(); }
  CudaResult CreateStream(uint32_t flags, int priority, StreamId* stream) override;
  CudaResult DestroyStream(StreamId stream) override;
  CudaResult SetStreamAttribute(StreamId stream, const LaunchAttribute& attribute) override;
  CudaResult CreateEvent(uint32_t flags, EventId* event) override;
  CudaResult DestroyEvent(EventId event) override;
  CudaResult RecordEvent(EventId event, StreamId stream) override;
  CudaResult WaitEvent(StreamId stream, EventId event) override;
  CudaResult QueryEvent(EventId event) override;
  CudaResult ElapsedMs(EventId start, EventId end, float* ms) override;
  CudaResult QueryIdle() override;
  ProcessorSet BusyProcessors() override;

 private:
  LiveSet<EventId> events_;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_STREAMS_H_
