// Staging memory that many contexts share: one piece of host memory, made when the device is
// opened, from which they take and to which they give back.
//
//   StagingPool pool(start, bytes);
//   void* buffer = pool.Take(1 << 20);
//   ...
//   pool.GiveBack(buffer);
#ifndef WARPLINE_SERVER_DEVICE_STAGING_POOL_H_
#define WARPLINE_SERVER_DEVICE_STAGING_POOL_H_

#include <cstddef>
#include <map>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::device {

// Thread-safe. What is handed out holds zeros: nobody reads what another left there.
class StagingPool {
 public:
  // What is handed out begins at a multiple of it, from the start of the memory.
  static constexpr size_t kUnit = 4096;

  // The memory at `start` is borrowed and holds zeros.
  StagingPool(void* start, size_t bytes);
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // Returns nullptr for no bytes, and when there is no room for so many in one piece.
  void* Take(size_t bytes);
  // Zeros what Take() returned. Does nothing for any other pointer.
  void GiveBack(void* taken);
  size_t free_bytes() const;

 private:
  using Pieces = std::map<char*, size_t>;  // Address -> bytes

  mutable Mutex mu_;
  Pieces free_ ABSL_GUARDED_BY(mu_);  // No two of them touch.
  Pieces taken_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_STAGING_POOL_H_
