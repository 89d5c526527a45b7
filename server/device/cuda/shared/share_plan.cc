#include "server/device/cuda/shared/share_plan.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

namespace warpline::device {
namespace {

int Limit(const ShareDemand& demand) {
  return demand.most > 0 ? demand.most : std::numeric_limits<int>::max();
}

// A session that works, and what it can use.
struct Worker {
  size_t session = 0;
  int wanted = 0;
  int limit = 0;
};

// Those who want least come first: what they leave is the others'.
std::vector<Worker> WorkersOf(const std::vector<ShareDemand>& demands) {
  std::vector<Worker> workers;
  for (size_t i = 0; i < demands.size(); ++i) {
    const int limit = Limit(demands[i]);
    if (demands[i].wanted > 0) workers.push_back({i, std::min(demands[i].wanted, limit), limit});
  }
  std::stable_sort(workers.begin(), workers.end(),
                   [](const Worker& a, const Worker& b) { return a.wanted < b.wanted; });
  return workers;
}

// Gives out the slots from `first` on, one row of them after the other.
class Layout {
 public:
  Layout(const std::vector<int>& slots, size_t first)
      : slots_(slots),
        next_(first),
        left_(std::accumulate(slots.begin() + static_cast<ptrdiff_t>(first), slots.end(), 0)) {}

  // Gives one of `workers` who still come its even part, or what it wants, and at least a slot. The
  // last one, who wants most, gets all that is left.
  SlotRange Place(const Worker& worker, size_t workers) {
    const int part = left_ / static_cast<int>(workers);
    const int target = workers == 1 ? left_ : std::min(worker.wanted, part);
    const size_t begin = next_;
    int sum = slots_[next_++];
    while (next_ + workers - 1 < slots_.size()) {
      const int more = slots_[next_];
      // Half a slot too few is as good as half a slot too many.
      if (sum + more > worker.limit || 2 * (target - sum) < more) break;
      sum += more;
      ++next_;
    }
    left_ -= sum;
    return {static_cast<uint16_t>(begin), static_cast<uint16_t>(next_)};
  }

 private:
  const std::vector<int>& slots_;
  size_t next_;
  int left_;
};

}  // namespace

std::vector<SlotRange> PlanShares(const std::vector<int>& slots,
                                  const std::vector<ShareDemand>& demands) {
  const auto slot_count = static_cast<uint16_t>(slots.size());
  std::vector<SlotRange> plan(demands.size(), SlotRange{0, slot_count});
  const auto works = [](const ShareDemand& demand) { return demand.wanted > 0; };
  const auto working = static_cast<size_t>(std::count_if(demands.begin(), demands.end(), works));
  if (working == 0) return plan;
  const bool rest = working < demands.size() && working < slots.size();
  const size_t first = rest ? 1 : 0;
  if (rest) {
    for (size_t i = 0; i < demands.size(); ++i) {
      if (!works(demands[i])) plan[i] = {0, 1};
    }
  }
  const std::vector<Worker> workers = WorkersOf(demands);
  const size_t usable = slots.size() - first;
  Layout layout(slots, first);
  for (size_t i = 0; i < workers.size(); ++i) {
    SlotRange& range = plan[workers[i].session];
    if (workers.size() > usable) {
      const auto slot = static_cast<uint16_t>(first + i % usable);
      range = {slot, static_cast<uint16_t>(slot + 1)};
    } else {
      range = layout.Place(workers[i], workers.size() - i);
    }
  }
  return plan;
}

}  // namespace warpline::device
