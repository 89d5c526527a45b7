#include "server/worker/commands/leaving.h"

#include <algorithm>

namespace warpline::worker {

void Leaving::Add(const std::shared_ptr<const void>& object, uint64_t takes) {
  if (object == nullptr || takes == 0) return;
  if (entries_.size() >= sweep_at_) Sweep();
  entries_.push_back({object, takes});
  sum_ += takes;
}

void Leaving::Sweep() {
  std::erase_if(entries_, [this](const Entry& entry) {
    if (!entry.object.expired()) return false;
    sum_ -= entry.takes;
    return true;
  });
  sweep_at_ = std::max<size_t>(16, 2 * entries_.size());
}

bool Leaving::AtMost(uint64_t most) {
  if (sum_ > most) Sweep();
  return sum_ <= most;
}

}  // namespace warpline::worker
