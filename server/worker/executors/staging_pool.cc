#include "server/worker/executors/staging_pool.h"

#include <utility>

#include "common/log/log.h"

namespace warpline::worker {

StagingPool::~StagingPool() {
  MutexLock lock(&mu_);
  for (void* buffer : idle_) context_->FreeStaging(buffer);
}

void* StagingPool::Take(bool first, CudaResult* result) {
  *result = CudaResult::kSuccess;
  {
    MutexLock lock(&mu_);
    if (used_ >= (first ? most_buffers_ : max_buffers_)) {
      Refused();
      return nullptr;
    }
    ++used_;
    Count();
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
  Count();
  return nullptr;
}

void StagingPool::Give(void* buffer) {
  MutexLock lock(&mu_);
  idle_.push_back(buffer);
  --used_;
  short_ = false;
  Count();
}

void StagingPool::Count() { usage_->Set(Usage::kStagingBytes, used_ * kStagingBytes); }

// An executor that is refused asks again and again; that counts as one wait.
void StagingPool::Refused() {
  if (std::exchange(short_, true)) return;
  usage_->Meet(Limit::kStaging);
  if (!std::exchange(said_, true)) {
    LogWarning("limit reached what=staging limit_bytes=", max_buffers_ * kStagingBytes,
               ": copies wait for others");
  }
}

}  // namespace warpline::worker
