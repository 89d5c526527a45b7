#include "server/device/cuda/shared/session_streams.h"

#include <algorithm>

#include "absl/memory/memory.h"

namespace warpline::device {

absl::StatusOr<std::unique_ptr<SessionStreams>> SessionStreams::Open(
    const DriverApi* api, const GreenContexts* contexts, SharePlanner::Session* session,
    QuietMoments* moments, std::function<void()> on_overdue) {
  std::shared_ptr<SessionStream> legacy;
  const CUresult result =
      SessionStream::Make(api, contexts, session, SessionStream::Kind::kLegacy, &legacy);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "legacy stream");
  return absl::WrapUnique(new SessionStreams(api, contexts, session, moments, std::move(on_overdue),
                                             std::move(legacy)));
}

CUresult SessionStreams::Create(uint32_t flags, StreamId* id) {
  if (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::shared_ptr<SessionStream> stream;
  const CUresult result =
      SessionStream::Make(api_, contexts_, session_,
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

std::shared_ptr<SessionStream> SessionStreams::Keep(StreamId id) {
  if (id == kLegacyStream) return order_.legacy();
  MutexLock lock(&mu_);
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second;
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
  const CUresult result = stream->Cover(stream->issued.value());
  if (result != CUDA_SUCCESS) return result;
  order_.Remove(stream);
  const SlotSet slots = stream->Slots();
  {
    MutexLock lock(&mu_);
    streams_.erase(id);
    if (stream->issued.value() > 0) departed_.push_back({stream->mark(), slots});
  }
  QueryDeparted(nullptr);  // Bounds the list.
  return CUDA_SUCCESS;
}

std::vector<std::shared_ptr<SessionStream>> SessionStreams::All() {
  std::vector<std::shared_ptr<SessionStream>> streams = {order_.legacy()};
  MutexLock lock(&mu_);
  for (const auto& [id, stream] : streams_) streams.push_back(stream);
  return streams;
}

// The order matters, here and in Busy(): a stream that is destroyed meanwhile is then found among
// the departed.
bool SessionStreams::Quiet() {
  for (const auto& stream : All()) {
    if (!stream->Quiet()) return false;
  }
  return QueryDeparted(nullptr) != CUDA_ERROR_NOT_READY;
}

SlotSet SessionStreams::Busy() {
  SlotSet busy = 0;
  for (const auto& stream : All()) {
    if (!stream->Quiet()) busy |= stream->KernelSlots();
  }
  (void)QueryDeparted(&busy);
  return busy;
}

CUresult SessionStreams::QueryIdle() {
  for (const auto& stream : All()) {
    const CUresult result = stream->Query();
    if (result != CUDA_SUCCESS) return result;
  }
  // This comes last: a stream that was destroyed meanwhile was asked above, or is among these.
  const CUresult departed = QueryDeparted(nullptr);
  // Other sessions then need not wait for the next look.
  if (departed == CUDA_SUCCESS) session_->SetBusy(0);
  return departed;
}

CUresult SessionStreams::QueryDeparted(SlotSet* busy) {
  std::vector<Departed> departed;
  {
    MutexLock lock(&mu_);
    departed = departed_;
  }
  CUresult first = CUDA_SUCCESS;
  std::vector<std::shared_ptr<StreamMark>> complete;
  for (const auto& [mark, slots] : departed) {
    const CUresult result = mark->Query();
    if (result == CUDA_SUCCESS) complete.push_back(mark);
    if (result == CUDA_ERROR_NOT_READY && busy != nullptr) *busy |= slots;
    if (first == CUDA_SUCCESS) first = result;
  }
  if (complete.empty()) return first;
  order_.Forget(complete);
  MutexLock lock(&mu_);
  std::erase_if(departed_, [&](const Departed& one) {
    return std::find(complete.begin(), complete.end(), one.mark) != complete.end();
  });
  return first;
}

}  // namespace warpline::device
