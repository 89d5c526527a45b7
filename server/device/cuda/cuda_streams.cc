#include "server/device/cuda/cuda_streams.h"

#include <cstring>

#include "server/device/cuda/native.h"

namespace warpline::device {

CudaResult CudaStreams::CreateStream(uint32_t flags, int priority, StreamId* stream) {
  Enter();
  CUstream native = nullptr;
  const CUresult result = api_->p_cuStreamCreateWithPriority(&native, flags, priority);
  *stream = ToId<StreamId>(native);
  return ToResult(result);
}

CudaResult CudaStreams::DestroyStream(StreamId stream) {
  Enter();
  return ToResult(api_->p_cuStreamDestroy(Native(stream)));
}

CudaResult CudaStreams::SetStreamAttribute(StreamId stream, const LaunchAttribute& attribute) {
  Enter();
  // A hint about memory that is not the session's says nothing.
  if (!gate().AdmitsAttribute(attribute)) return CudaResult::kSuccess;
  CUstreamAttrValue value;
  static_assert(sizeof(value) == sizeof(attribute.value));
  std::memcpy(&value, attribute.value.data(), sizeof(value));
  return ToResult(api_->p_cuStreamSetAttribute(Native(stream),
                                               static_cast<CUstreamAttrID>(attribute.id), &value));
}

CudaResult CudaStreams::CreateEvent(uint32_t flags, EventId* event) {
  Enter();
  CUevent native = nullptr;
  const CUresult result = api_->p_cuEventCreate(&native, flags);
  *event = ToId<EventId>(native);
  return ToResult(result);
}

CudaResult CudaStreams::DestroyEvent(EventId event) {
  Enter();
  return ToResult(api_->p_cuEventDestroy(Native(event)));
}

CudaResult CudaStreams::RecordEvent(EventId event, StreamId stream) {
  Enter();
  return ToResult(api_->p_cuEventRecord(Native(event), Native(stream)));
}

CudaResult CudaStreams::WaitEvent(StreamId stream, EventId event) {
  Enter();
  return ToResult(api_->p_cuStreamWaitEvent(Native(stream), Native(event), 0));
}

CudaResult CudaStreams::QueryEvent(EventId event) {
  Enter();
  return ToResult(api_->p_cuEventQuery(Native(event)));
}

CudaResult CudaStreams::ElapsedMs(EventId start, EventId end, float* ms) {
  Enter();
  return ToResult(api_->p_cuEventElapsedTime(ms, Native(start), Native(end)));
}

}  // namespace warpline::device
