#include "server/device/cuda/shared/session_stream.h"

#include "absl/memory/memory.h"

namespace warpline::device {

CUresult StreamMark::Cover(CUstream stream, uint64_t operations) {
  if (covered_.value() >= operations) return CUDA_SUCCESS;
  const CUresult result = api_->p_cuEventRecord(event_, stream);
  // Only now: who sees the new value may wait for the event without recording it.
  if (result == CUDA_SUCCESS) covered_.Raise(operations);
  return result;
}

CUresult SessionStream::Make(const DriverApi* api, CUstream native, Kind kind,
                             std::shared_ptr<SessionStream>* stream) {
  CUevent mark = nullptr;
  const CUresult result = api->p_cuEventCreate(&mark, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) {
    api->p_cuStreamDestroy(native);
    return result;
  }
  *stream = absl::WrapUnique(new SessionStream(api, native, kind, mark));
  return CUDA_SUCCESS;
}

}  // namespace warpline::device
