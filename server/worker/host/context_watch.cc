#include "server/worker/host/context_watch.h"

#include <utility>

#include "common/cuda/cuda_numbers.h"

namespace warpline::worker {

ContextWatch::ContextWatch(std::unique_ptr<device::Context> context)
    : context_(std::move(context)), made_(context_->CreateEvent(kEventDisableTiming, &event_)) {}

CudaResult ContextWatch::Look() {
  if (made_ != CudaResult::kSuccess) return made_;
  return context_->RecordEvent(event_, device::kLegacyStream);
}

}  // namespace warpline::worker
