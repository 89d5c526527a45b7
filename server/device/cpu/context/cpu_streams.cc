#include "server/device/cpu/context/cpu_streams.h"

namespace warpline::cpu {
namespace {

using device::EventId;
using device::StreamId;

uint64_t Number(EventId id) { return static_cast<uint64_t>(id); }

}  // namespace

CudaResult CpuStreams::CreateStream(uint32_t flags, int, StreamId* stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  uint64_t id = 0;
  const CudaResult result = streams_.CreateStream(shared_->place(), flags, &id);
  *stream = StreamId{id};
  return result;
}

CudaResult CpuStreams::DestroyStream(StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return streams_.DestroyStream(shared_->NumberOf(stream));
}

CudaResult CpuStreams::CreateEvent(uint32_t flags, EventId* event) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  uint64_t id = 0;
  const CudaResult result = streams_.CreateEvent(flags, &id);
  *event = EventId{id};
  return result;
}

CudaResult CpuStreams::DestroyEvent(EventId event) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return streams_.DestroyEvent(Number(event));
}

CudaResult CpuStreams::RecordEvent(EventId event, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return streams_.RecordEvent(Number(event), shared_->NumberOf(stream));
}

CudaResult CpuStreams::WaitEvent(StreamId stream, EventId event) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return streams_.WaitEvent(shared_->NumberOf(stream), Number(event));
}

CudaResult CpuStreams::QueryEvent(EventId event) { return streams_.QueryEvent(Number(event)); }
CudaResult CpuStreams::ElapsedMs(EventId start, EventId end, float* ms) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return streams_.ElapsedMs(Number(start), Number(end), ms);
}

CudaResult CpuStreams::QueryIdle() {
  if (!shared_->is_shared()) return CudaResult::kNotSupported;
  return streams_.IsIdle() ? streams_.error() : CudaResult::kNotReady;
}

// All kernels have the same processors.
device::ProcessorSet CpuStreams::BusyProcessors() {
  if (!shared_->is_shared() || streams_.IsIdle()) return {};
  return {1};
}

}  // namespace warpline::cpu
