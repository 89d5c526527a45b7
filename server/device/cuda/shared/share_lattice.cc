#include "server/device/cuda/shared/share_lattice.h"

#include <utility>

namespace warpline::device {

ShareLattice::ShareLattice(const std::vector<int>& sizes) {
  MutexLock lock(&mu_);
  for (const int size : sizes) parts_.push_back({size, 0});
}

std::optional<size_t> ShareLattice::Take(int multiprocessors) {
  if (multiprocessors <= 0) return std::nullopt;
  MutexLock lock(&mu_);
  std::optional<size_t> best;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (part.size < multiprocessors) continue;
    if (!best ||
        std::pair(part.size, part.users) < std::pair(parts_[*best].size, parts_[*best].users)) {
      best = i;
    }
  }
  if (best) ++parts_[*best].users;
  return best;
}

void ShareLattice::GiveBack(size_t part) {
  MutexLock lock(&mu_);
  --parts_[part].users;
}

}  // namespace warpline::device
