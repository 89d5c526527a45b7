#include "server/device/cuda/shared/session_streams.h"

#include <algorithm>

#include "absl/memory/memory.h"

namespace warpline::device {

CUresult SessionStreams::MakeNative(const DriverApi* api, CUgreenCtx green, CUstream* stream) {
  // Nobody goes before others who share the device.
  constexpr int kPriority = 0;
  if (green == nullptr) {
    return api->p_cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, kPriority);
  }
  return api->p_cuGreenCtxStreamCreate(stream, green, CU_STREAM_NON_BLOCKING, kPriority);
}

absl::StatusOr<std::unique_ptr<SessionStreams>> SessionStreams::Open(const DriverApi* api,
                                                                     CUgreenCtx green) {
  CUstream native = nullptr;
  std::shared_ptr<SessionStream> legacy;
  CUresult result = MakeNative(api, green, &native);
  if (result == CUDA_SUCCESS) {
    result = SessionStream::Make(api, native, SessionStream::Kind::kLegacy, &legacy);
  }
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "legacy stream");
  return absl::WrapUnique(new SessionStreams(api, green, std::move(legacy)));
}

CUresult SessionStreams::Create(uint32_t flags, StreamId* id) {
  if (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUstream native = nullptr;
  CUresult result = MakeNative(api_, green_, &native);
  if (result != CUDA_SUCCESS) return result;
  std::shared_ptr<SessionStream> stream;
  result = SessionStream::Make(api_, native,
                               flags == CU_STREAM_NON_BLOCKING ? SessionStream::Kind::kNonBlocking
                                                               : SessionStream::Kind::kBlocking,
                               &stream);
  if (result != CUDA_SUCCESS) return result;
  order_.Add(stream);
  *id = static_cast<StreamId>(reinterpret_cast<uint64_t>(stream.get()));
  MutexLock lock(&mu_);
  streams_[*id] = std::move(stream);
  return CUDA_SUCCESS;
}

CUresult SessionStreams::Destroy(StreamId id) {
  std::shared_ptr<SessionStream> stream;
  {
    MutexLock lock(&mu_);
    const auto found = streams_.find(id);
    if (found == streams_.end()) return CUDA_ERROR_INVALID_HANDLE;
    stream = found->second;
  }
  // From here on the mark stands for the stream's work.
  const CUresult result = stream->mark()->Cover(stream->native(), stream->issued.value());
  if (result != CUDA_SUCCESS) return result;
  order_.Remove(stream);
  {
    MutexLock lock(&mu_);
    streams_.erase(id);
    if (stream->issued.value() > 0) departed_.push_back(stream->mark());
  }
  QueryDeparted();  // Bounds what is kept.
  return CUDA_SUCCESS;
}

CUresult SessionStreams::QueryIdle() {
  std::vector<std::shared_ptr<SessionStream>> streams = {order_.legacy()};
  {
    MutexLock lock(&mu_);
    for (const auto& [id, stream] : streams_) streams.push_back(stream);
  }
  for (const auto& stream : streams) {
    const CUresult result = api_->p_cuStreamQuery(stream->native());
    if (result != CUDA_SUCCESS) return result;
  }
  // Last: a stream that was destroyed meanwhile was asked above, or is among these.
  return QueryDeparted();
}

CUresult SessionStreams::QueryDeparted() {
  std::vector<std::shared_ptr<StreamMark>> departed;
  {
    MutexLock lock(&mu_);
    departed = departed_;
  }
  CUresult first = CUDA_SUCCESS;
  std::vector<std::shared_ptr<StreamMark>> complete;
  for (const auto& mark : departed) {
    const CUresult result = api_->p_cuEventQuery(mark->event());
    if (result == CUDA_SUCCESS) complete.push_back(mark);
    if (first == CUDA_SUCCESS) first = result;
  }
  if (complete.empty()) return first;
  order_.Forget(complete);
  MutexLock lock(&mu_);
  std::erase_if(departed_, [&](const std::shared_ptr<StreamMark>& mark) {
    return std::find(complete.begin(), complete.end(), mark) != complete.end();
  });
  return first;
}

}  // namespace warpline::device
