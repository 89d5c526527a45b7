// Counts the bytes of host memory that were copied aside for operations that wait for their turn,
// and makes a caller that wants more wait until there is room. Thread-safe.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MEMORY_KEPT_BYTES_H_
#define WARPLINE_SERVER_DEVICE_CPU_MEMORY_KEPT_BYTES_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::cpu {

class KeptBytes {
 public:
  // Gives its bytes back when it is destroyed.
  class Claim {
   public:
    Claim(KeptBytes* owner, uint64_t bytes) : owner_(owner), bytes_(bytes) {}
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() {
      MutexLock lock(&owner_->mu_);
      owner_->used_ -= bytes_;
      owner_->changed_.NotifyAll();
    }

   private:
    KeptBytes* const owner_;
    const uint64_t bytes_;
  };

  explicit KeptBytes(uint64_t limit) : limit_(limit) {}
  KeptBytes(const KeptBytes&) = delete;
  KeptBytes& operator=(const KeptBytes&) = delete;

  // Waits for room. A claim larger than the limit is let through when it is the only one. The wait
  // depends only on what was submitted before, so it ends.
  std::shared_ptr<Claim> Take(uint64_t bytes) {
    MutexLock lock(&mu_);
    while (used_ != 0 && used_ + bytes > limit_) changed_.Wait(&mu_);
    used_ += bytes;
    return std::make_shared<Claim>(this, bytes);
  }

 private:
  const uint64_t limit_;
  Mutex mu_;
  CondVar changed_;
  uint64_t used_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MEMORY_KEPT_BYTES_H_
