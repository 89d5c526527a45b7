// A context's streams and events.
//
//   streams->RecordEvent(event, stream);
//   while (streams->QueryEvent(event) == CudaResult::kNotReady) ...
#ifndef WARPLINE_SERVER_DEVICE_FACETS_STREAMS_H_
#define WARPLINE_SERVER_DEVICE_FACETS_STREAMS_H_

#include <cstdint>

#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Thread-safe. No method waits for device work.
class Streams {
 public:
  static constexpr Capabilities kGives = {};

  virtual ~Streams() = default;

  // Returns whether the device itself starts kernels of streams with a higher priority first. Where
  // it does not, it ignores the priorities, and the caller orders what it issues.
  virtual bool OrdersByPriority() const = 0;
  // `flags` is CU_STREAM_DEFAULT (0) or CU_STREAM_NON_BLOCKING (1). `priority` is CUDA's,
  // where lower numbers go first; any number is taken as the nearest that the device has.
  virtual CudaResult CreateStream(uint32_t flags, int priority, StreamId* stream) = 0;
  // Destroys at once in the sense of CUDA: work that was already submitted still completes.
  virtual CudaResult DestroyStream(StreamId stream) = 0;
  // `attribute` has a CUstreamAttrID and its value. Except for the priority, it is a hint to the
  // device.
  virtual CudaResult SetStreamAttribute(StreamId stream, const LaunchAttribute& attribute) = 0;

  // `flags` is CU_EVENT_DEFAULT (0), or has CU_EVENT_DISABLE_TIMING (2) and other flags of CUDA.
  virtual CudaResult CreateEvent(uint32_t flags, EventId* event) = 0;
  virtual CudaResult DestroyEvent(EventId event) = 0;
  virtual CudaResult RecordEvent(EventId event, StreamId stream) = 0;
  virtual CudaResult WaitEvent(StreamId stream, EventId event) = 0;
  // kSuccess when it is complete, kNotReady before, or the error with which the work before it
  // ended.
  virtual CudaResult QueryEvent(EventId event) = 0;
  virtual CudaResult ElapsedMs(EventId start, EventId end, float* ms) = 0;
  // For a context of a shared device: kSuccess when nothing that was issued to its streams, those
  // included that were destroyed, is under way; kNotReady before. kNotSupported for other contexts.
  virtual CudaResult QueryIdle() = 0;
  // Where kernels that are under way run or are to run, as SharedDevice::Look() has seen it the
  // last time: another context's that want some of it may wait for them. Empty without such
  // kernels, and where nobody shares the device.
  virtual ProcessorSet BusyProcessors() = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_STREAMS_H_
