// Which part of a device's multiprocessors a session gets, of parts that were made beforehand. Pure
// logic: it knows the parts by their sizes alone.
//
//   ShareLattice lattice({8, 8, 16});
//   std::optional<size_t> part = lattice.Take(4);   // 0
//   ...
//   lattice.GiveBack(*part);
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_LATTICE_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_LATTICE_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::device {

// Thread-safe. Parts may overlap and have several users; only the users of each are counted.
class ShareLattice {
 public:
  // `sizes` are the parts' numbers of multiprocessors, in any order.
  explicit ShareLattice(const std::vector<int>& sizes);
  ShareLattice(const ShareLattice&) = delete;
  ShareLattice& operator=(const ShareLattice&) = delete;

  // Returns the place in `sizes` of the part with the fewest users, and among those the first,
  // which has the least size that is at least `multiprocessors`. Nothing, which stands for the
  // whole device, when no part has so many, or for 0 and less.
  std::optional<size_t> Take(int multiprocessors);
  // Undoes one Take() that returned `part`.
  void GiveBack(size_t part);

 private:
  struct Part {
    int size = 0;
    int users = 0;
  };

  Mutex mu_;
  std::vector<Part> parts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_SHARE_LATTICE_H_
