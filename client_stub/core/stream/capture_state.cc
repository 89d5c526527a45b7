#include "client_stub/core/stream/capture_state.h"

#include <algorithm>

#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/captures.h"

namespace warpline::stub {
namespace {

// Whether `sequence` has a stream that the device's legacy stream would have to wait for.
bool HoldsLegacy(const CaptureSequence& sequence, const Device* device) {
  return std::any_of(sequence.fronts.begin(), sequence.fronts.end(), [device](const auto& entry) {
    return entry.first->blocking() && entry.first->device == device;
  });
}

}  // namespace

CUresult CheckLegacyStream(const Device* device, bool invalidate) {
  CUresult result = CUDA_SUCCESS;
  ForEachCapture([&](CaptureSequence* sequence) {
    if (!HoldsLegacy(*sequence, device)) return;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (invalidate) InvalidateCapture(sequence);
  });
  return result;
}

CUresult CaptureEventRecord(Stream* stream, Event* event) {
  MutexLock lock(&GraphMutex());
  CaptureSequence* sequence;
  WARPLINE_TRY(ValidCapture(*stream, &sequence));
  sequence->events[event->wire] = sequence->fronts[stream].edges;
  event->capture.store(sequence->id, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult CaptureEventWait(Stream* stream, const Event* event) {
  MutexLock lock(&GraphMutex());
  CaptureSequence* const recorded = FindCapture(event->capture.load(std::memory_order_relaxed));
  CaptureSequence* const own = CaptureOf(*stream);
  if (own != nullptr && !own->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (recorded == nullptr) {
    // The event was recorded in a capture that has ended, or in none.
    if (own == nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    InvalidateCapture(own);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!recorded->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (own != nullptr && own != recorded) {
    InvalidateCapture(own);
    InvalidateCapture(recorded);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream->legacy()) {
    InvalidateCapture(recorded);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  MergeEdges(&recorded->fronts[stream].edges, recorded->events[event->wire]);
  stream->capture.store(recorded->id, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult CheckUncaptured(const Stream* stream) {
  MutexLock lock(&GraphMutex());
  if (stream->legacy()) return CheckLegacyStream(stream->device, /*invalidate=*/true);
  CaptureSequence* const sequence = CaptureOf(*stream);
  if (sequence == nullptr) return CUDA_SUCCESS;
  if (!sequence->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  InvalidateCapture(sequence);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CheckUnsafe() {
  if (t_thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  const bool global = t_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  MutexLock lock(&GraphMutex());
  CUresult result = CUDA_SUCCESS;
  ForEachCapture([&](CaptureSequence* sequence) {
    if (sequence->mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
    const bool others = global && sequence->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!StartedOnThisThread(*sequence) && !others) return;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    InvalidateCapture(sequence);
  });
  return result;
}

CUresult CheckEventQuery(const Event& event, bool unsafe) {
  const uint64_t id = event.capture.load(std::memory_order_relaxed);
  if (id == 0) return unsafe && AnyCapture() ? CheckUnsafe() : CUDA_SUCCESS;
  MutexLock lock(&GraphMutex());
  if (CaptureSequence* const sequence = FindCapture(id); sequence != nullptr) {
    InvalidateCapture(sequence);
  }
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult CheckDeviceSynchronize(const Device& device) {
  if (!AnyCapture()) return CUDA_SUCCESS;
  MutexLock lock(&GraphMutex());
  CUresult result = CUDA_SUCCESS;
  ForEachCapture([&](CaptureSequence* sequence) {
    const bool waits =
        std::any_of(sequence->fronts.begin(), sequence->fronts.end(),
                    [&](const auto& entry) { return entry.first->device == &device; });
    if (!waits) return;
    InvalidateCapture(sequence);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  });
  return result;
}

void ForgetCapture(Stream* stream) {
  MutexLock lock(&GraphMutex());
  CaptureSequence* const sequence = CaptureOf(*stream);
  if (sequence == nullptr) return;
  if (sequence->origin == stream) {
    InvalidateCapture(sequence);
    CloseCapture(sequence);
    return;
  }
  stream->capture.store(0, std::memory_order_relaxed);
  const auto front = sequence->fronts.find(stream);
  MergeEdges(&sequence->left, front->second.edges);
  sequence->fronts.erase(front);
}

}  // namespace warpline::stub
