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

// A slot for each of more sessions than there are slots from `first` on. Those whose kernels run for
// long get as many of the slots as they are of the sessions, but never all and at least one.
void ShareSlots(const std::vector<Worker>& workers, const std::vector<ShareDemand>& demands,
                size_t first, size_t usable, std::vector<SlotRange>* plan) {
  const auto runs_long = [&](const Worker& worker) { return demands[worker.session].runs_long; };
  const auto count = static_cast<size_t>(std::count_if(workers.begin(), workers.end(), runs_long));
  size_t for_long = 0;
  if (count == workers.size()) for_long = usable;
  if (count > 0 && count < workers.size() && usable > 1) {
    for_long = std::clamp<size_t>(usable * count / workers.size(), 1, usable - 1);
  }
  size_t long_ones = 0, others = 0;
  for (const Worker& worker : workers) {
    const bool apart = for_long > 0 && runs_long(worker);
    const size_t at = apart ? usable - for_long + long_ones++ % for_long
                            : others++ % (for_long < usable ? usable - for_long : usable);
    const auto slot = static_cast<uint16_t>(first + at);
    (*plan)[worker.session] = {slot, static_cast<uint16_t>(slot + 1)};
  }
}

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
  if (workers.size() > usable) {
    ShareSlots(workers, demands, first, usable, &plan);
    return plan;
  }
  Layout layout(slots, first);
  for (size_t i = 0; i < workers.size(); ++i) {
    plan[workers[i].session] = layout.Place(workers[i], workers.size() - i);
  }
  return plan;
}

}  // namespace warpline::device
