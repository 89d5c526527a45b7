#include "server/device/cuda/cuda_streams.h"

#include <cstring>

#include "server/device/cuda/native.h"

namespace warpline::device {

CudaStreams::~CudaStreams() {
  for (const EventId event : events_.TakeAll()) {
    Enter();
    api_->p_cuEventDestroy(Native(event));
  }
}

CudaResult CudaStreams::CreateStream(uint32_t flags, int priority, StreamId* stream) {
  Enter();
  if (is_shared()) return ToResult(share_->streams->Create(flags, stream));
  CUstream native = nullptr;
  const CUresult result = api_->p_cuStreamCreateWithPriority(&native, flags, priority);
  *stream = ToId<StreamId>(native);
  return ToResult(result);
}

CudaResult CudaStreams::DestroyStream(StreamId stream) {
  Enter();
  return ToResult(is_shared() ? share_->streams->Destroy(stream)
                              : api_->p_cuStreamDestroy(Native(stream)));
}

CudaResult CudaStreams::SetStreamAttribute(StreamId stream, const LaunchAttribute& attribute) {
  Enter();
  // A hint about memory that is not the session's says nothing.
  if (!gate().AdmitsAttribute(attribute)) return CudaResult::kSuccess;
  CUstreamAttrValue value;
  static_assert(sizeof(value) == sizeof(attribute.value));
  std::memcpy(&value, attribute.value.data(), sizeof(value));
  const auto id = static_cast<CUstreamAttrID>(attribute.id);
  return ToResult(is_shared() ? share_->streams->Of(stream)->SetAttribute(id, value)
                              : api_->p_cuStreamSetAttribute(Native(stream), id, &value));
}

CudaResult CudaStreams::CreateEvent(uint32_t flags, EventId* event) {
  Enter();
  CUevent native = nullptr;
  const CUresult result = api_->p_cuEventCreate(&native, flags);
  *event = ToId<EventId>(native);
  if (result == CUDA_SUCCESS) events_.Add(*event);
  return ToResult(result);
}

CudaResult CudaStreams::DestroyEvent(EventId event) {
  Enter();
  if (!events_.Remove(event)) return CudaResult::kInvalidHandle;
  return ToResult(api_->p_cuEventDestroy(Native(event)));
}

CudaResult CudaStreams::RecordEvent(EventId event, StreamId stream) {
  Enter();
  return IssueTo(stream, [&](CUstream to) { return api_->p_cuEventRecord(Native(event), to); });
}

CudaResult CudaStreams::WaitEvent(StreamId stream, EventId event) {
  Enter();
  return IssueTo(stream,
                 [&](CUstream to) { return api_->p_cuStreamWaitEvent(to, Native(event), 0); });
}

CudaResult CudaStreams::QueryEvent(EventId event) {
  Enter();
  return ToResult(api_->p_cuEventQuery(Native(event)));
}

CudaResult CudaStreams::ElapsedMs(EventId start, EventId end, float* ms) {
  Enter();
  return ToResult(api_->p_cuEventElapsedTime(ms, Native(start), Native(end)));
}

CudaResult CudaStreams::QueryIdle() {
  Enter();
  return is_shared() ? ToResult(share_->streams->QueryIdle()) : CudaResult::kNotSupported;
}

// As SharedDevice::Look() has seen it, so that nobody waits here for a call of the driver.
ProcessorSet CudaStreams::BusyProcessors() {
  if (!is_shared()) return {};
  return {share_->session->busy()};
}

}  // namespace warpline::device
