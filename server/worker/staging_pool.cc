#include "server/worker/staging_pool.h"

namespace warpline::worker {

StagingPool::~StagingPool() {
  MutexLock lock(&mu_);
  for (void* buffer : idle_) context_->FreeStaging(buffer);
}

void* StagingPool::Take(bool first, CudaResult* result) {
  *result = CudaResult::kSuccess;
  {
    MutexLock lock(&mu_);
    if (!first && used_ >= max_buffers_) return nullptr;
    ++used_;
    if (!idle_.empty()) {
      void* buffer = idle_.back();
      idle_.pop_back();
      return buffer;
    }
  }
  void* buffer = nullptr;
  *result = context_->AllocStaging(kStagingBytes, &buffer);
  if (*result == CudaResult::kSuccess) return buffer;
  MutexLock lock(&mu_);
  --used_;
  return nullptr;
}

void StagingPool::Give(void* buffer) {
  MutexLock lock(&mu_);
  idle_.push_back(buffer);
  --used_;
}

}  // namespace warpline::worker
