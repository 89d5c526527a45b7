// The host buffers through which copies to and from the device pass.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_STAGING_POOL_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_STAGING_POOL_H_

#include <cstddef>
#include <vector>

#include "common/mutex.h"
#include "server/device/device.h"
#include "server/hostlink/handover/session_usage.h"

namespace warpline::worker {

// The size of one buffer; a copy is cut into pieces of at most this size.
inline constexpr size_t kStagingBytes = 512u << 10;

// Thread-safe. Buffers are made on demand up to a bound and then kept, because pinning memory waits
// for running kernels.
class StagingPool {
 public:
  // `context` is borrowed, and so is `usage`, where the pool says how much is in use.
  StagingPool(device::Context* context, size_t max_buffers, size_t most_buffers, SharedUsage* usage)
      : context_(context), max_buffers_(max_buffers), most_buffers_(most_buffers), usage_(usage) {}
  ~StagingPool();

  // Returns a buffer of kStagingBytes, or null when `max_buffers` are in use or none can be made
  // (then `*result` is not kSuccess). A caller that holds none gets its `first` even beyond the
  // bound, up to `most_buffers`: a stalled stream that holds many must not keep others from
  // copying.
  void* Take(bool first, CudaResult* result);
  void Give(void* buffer);

 private:
  void Count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Refused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  device::Context* const context_;
  const size_t max_buffers_;
  const size_t most_buffers_;
  SharedUsage* const usage_;
  Mutex mu_;
  std::vector<void*> idle_ ABSL_GUARDED_BY(mu_);
  size_t used_ ABSL_GUARDED_BY(mu_) = 0;
  // True when nothing was given back since a buffer was refused.
  bool short_ ABSL_GUARDED_BY(mu_) = false;
  bool said_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_STAGING_POOL_H_
