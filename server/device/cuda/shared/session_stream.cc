#include "server/device/cuda/shared/session_stream.h"

#include <sched.h>

#include <array>
#include <utility>

#include "absl/memory/memory.h"

namespace warpline::device {

CUresult StreamMark::Cover(CUstream stream, uint64_t operations) {
  if (covered_.value() >= operations) return CUDA_SUCCESS;
  const CUresult result = api_->p_cuEventRecord(event_, stream);
  // Raised only now: a thread that sees the new value may wait for the event without recording it.
  if (result == CUDA_SUCCESS) covered_.Raise(operations);
  return result;
}

// Yields in a loop: the exclusive holder only makes a few calls of the driver that do not wait.
void UseLock::LockShared() {
  while (users_.fetch_add(1, std::memory_order_acquire) >= kAlone) {
    users_.fetch_sub(1, std::memory_order_relaxed);
    sched_yield();
  }
}

CUresult SessionStream::Make(const DriverApi* api, const GreenContexts* contexts,
                             SharePlanner::Session* session, Kind kind,
                             std::shared_ptr<SessionStream>* stream) {
  const SlotRange place = session->place();
  CUstream native = nullptr;
  CUresult result = contexts->MakeStream(place, &native);
  if (result != CUDA_SUCCESS) return result;
  std::array<CUevent, 3> marks = {};
  for (CUevent& mark : marks) {
    if (result == CUDA_SUCCESS) result = api->p_cuEventCreate(&mark, CU_EVENT_DISABLE_TIMING);
  }
  if (result != CUDA_SUCCESS) {
    for (const CUevent mark : marks) {
      if (mark != nullptr) api->p_cuEventDestroy(mark);
    }
    api->p_cuStreamDestroy(native);
    return result;
  }
  *stream = absl::WrapUnique(
      new SessionStream(api, contexts, session, kind, native, place, marks[0], marks[1], marks[2]));
  return CUDA_SUCCESS;
}

void SessionStream::Follow(const StreamWork& work) {
  session_->Use(&used_, work.blocks);
  const SlotRange own = session_->place();
  const bool whole = work.whole && !session_->limited() &&
                     work.blocks > static_cast<uint64_t>(SizeOf(contexts_->slots(), own));
  const SlotRange to = whole ? contexts_->whole() : own;
  if (to == place()) {
    if (refused_.load(std::memory_order_relaxed) != SlotRange()) refused_.store({});
  } else if (!MoveTo(to)) {
    return;
  }
  if (whole) {
    session_->Stray(SetOf(to));
  } else if (Left() == 0) {
    session_->Arrive(&used_, to);
  }
}

bool SessionStream::MoveTo(const SlotRange& to) {
  if (to == refused_.load(std::memory_order_relaxed)) return false;
  const uint64_t kernels = kernels_.value();
  const SlotSet leaves = Quiet() ? 0 : Slots();
  if (!use_.TryLock()) return false;
  bool moved = false;
  CUstream next = nullptr;
  // Another thread may have launched a kernel since.
  if (kernels_.value() == kernels) {
    if (contexts_->MakeStream(to, &next) == CUDA_SUCCESS) {
      moved = Continue(next, leaves) == CUDA_SUCCESS;
      if (moved) std::swap(native_, next);
      api_->p_cuStreamDestroy(next);
    }
    if (moved) {
      place_.store(to, std::memory_order_release);
    } else {
      refused_.store(to, std::memory_order_relaxed);
    }
  }
  use_.Unlock();
  return moved;
}

SlotSet SessionStream::Left() {
  if (left_.load(std::memory_order_relaxed) == 0) return 0;
  MutexLock lock(&mu_);
  if (left_mark_.Query() != CUDA_ERROR_NOT_READY) left_.store(0, std::memory_order_relaxed);
  return left_.load(std::memory_order_relaxed);
}

// No other thread issues to the stream now, so its mark can stand for all issued operations.
CUresult SessionStream::Continue(CUstream next, SlotSet leaves) {
  const uint64_t operations = issued.value();
  if (operations > 0) {
    CUresult result = mark_->Cover(native_, operations);
    if (result != CUDA_SUCCESS) return result;
    result = api_->p_cuStreamWaitEvent(next, mark_->event(), 0);
    if (result != CUDA_SUCCESS) return result;
  }
  MutexLock lock(&mu_);
  const CUresult result = left_mark_.Cover(native_, operations);
  if (result != CUDA_SUCCESS) return result;
  left_.store(leaves, std::memory_order_relaxed);
  for (const auto& [id, value] : attributes_) {
    (void)api_->p_cuStreamSetAttribute(next, id, &value);
  }
  return CUDA_SUCCESS;
}

// The mark is recorded once for as many kernels as there are, so that copies which are issued all
// the time do not delay it.
bool SessionStream::Quiet() {
  const uint64_t kernels = kernels_.value();
  if (quiet_.value() < kernels) {
    const Use use(this);
    CUresult result = kernel_mark_.Cover(use.native(), kernels);
    if (result == CUDA_SUCCESS) result = kernel_mark_.Query();
    if (result == CUDA_ERROR_NOT_READY) return false;
    quiet_.Raise(kernels);
  }
  return true;
}

CUresult SessionStream::SetAttribute(CUstreamAttrID id, const CUstreamAttrValue& value) {
  const Use use(this);
  MutexLock lock(&mu_);
  const CUresult result = api_->p_cuStreamSetAttribute(use.native(), id, &value);
  if (result == CUDA_SUCCESS) attributes_[id] = value;
  return result;
}

}  // namespace warpline::device
