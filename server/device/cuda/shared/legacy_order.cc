#include "server/device/cuda/shared/legacy_order.h"

#include <algorithm>

namespace warpline::device {

void LegacyOrder::Add(const std::shared_ptr<SessionStream>& stream) {
  if (stream->kind() != SessionStream::Kind::kBlocking) return;
  MutexLock lock(&mu_);
  blocking_.insert(stream);
}

void LegacyOrder::Remove(const std::shared_ptr<SessionStream>& stream) {
  MutexLock lock(&mu_);
  if (blocking_.erase(stream) == 0) return;
  if (stream->issued.value() > stream->awaited.value()) departed_.push_back(stream->mark());
}

void LegacyOrder::Forget(const std::vector<std::shared_ptr<StreamMark>>& marks) {
  if (marks.empty()) return;
  MutexLock lock(&mu_);
  std::erase_if(departed_, [&](const std::shared_ptr<StreamMark>& mark) {
    return std::find(marks.begin(), marks.end(), mark) != marks.end();
  });
}

CUresult LegacyOrder::Begin(SessionStream* stream, CUstream native) {
  switch (stream->kind()) {
    case SessionStream::Kind::kLegacy:
      return ComeAfterBlocking(native);
    case SessionStream::Kind::kBlocking:
      return ComeAfterLegacy(stream, native);
    case SessionStream::Kind::kNonBlocking:
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_HANDLE;
}

// Raises the stream's own number first: a thread that sees new operations must find their stream.
void LegacyOrder::End(SessionStream* stream) {
  stream->issued.Increment();
  if (stream->kind() == SessionStream::Kind::kBlocking) blocking_issued_.Increment();
}

CUresult LegacyOrder::ComeAfterLegacy(SessionStream* stream, CUstream native) {
  const uint64_t operations = legacy_->issued.value();
  if (stream->awaits.value() >= operations) return CUDA_SUCCESS;
  CUresult result = legacy_->Cover(operations);
  if (result != CUDA_SUCCESS) return result;
  result = api_->p_cuStreamWaitEvent(native, legacy_->mark()->event(), 0);
  // Raised only now: another thread that sees the new value issues without waiting.
  if (result == CUDA_SUCCESS) stream->awaits.Raise(operations);
  return result;
}

CUresult LegacyOrder::ComeAfterBlocking(CUstream legacy) {
  const uint64_t operations = blocking_issued_.value();
  if (blocking_awaited_.value() >= operations) return CUDA_SUCCESS;
  std::vector<std::shared_ptr<SessionStream>> streams;
  std::vector<std::shared_ptr<StreamMark>> departed;
  {
    MutexLock lock(&mu_);
    for (const auto& stream : blocking_) {
      if (stream->issued.value() > stream->awaited.value()) streams.push_back(stream);
    }
    departed = departed_;
  }
  for (const auto& stream : streams) {
    const uint64_t upto = stream->issued.value();
    CUresult result = stream->Cover(upto);
    if (result != CUDA_SUCCESS) return result;
    result = api_->p_cuStreamWaitEvent(legacy, stream->mark()->event(), 0);
    if (result != CUDA_SUCCESS) return result;
    stream->awaited.Raise(upto);
  }
  for (const auto& mark : departed) {
    const CUresult result = api_->p_cuStreamWaitEvent(legacy, mark->event(), 0);
    if (result != CUDA_SUCCESS) return result;
  }
  Forget(departed);
  blocking_awaited_.Raise(operations);
  return CUDA_SUCCESS;
}

}  // namespace warpline::device
