#include "server/device/cuda/cuda_part.h"

namespace warpline::device {
namespace {

thread_local CUcontext t_current = nullptr;

}  // namespace

void CudaPart::Enter() const {
  if (t_current == context_) return;
  if (api_->p_cuCtxSetCurrent(context_) == CUDA_SUCCESS) t_current = context_;
}

}  // namespace warpline::device
