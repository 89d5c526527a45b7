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

bool Works(const ShareDemand& demand) { return demand.wanted > 0; }
int SlotsOf(const SlotRange& range) { return range.end - range.begin; }

// A working session, and the multiprocessors that it can use.
struct Worker {
  size_t session = 0;
  int wanted = 0;
  int limit = 0;
  int weight = 1;
  int owed = 0;
};

// The slots that the plan gives out, and the sessions that stay on those of long-running kernels.
struct Room {
  std::vector<uint16_t> free;  // In order.
  std::vector<bool> stays;     // By session: it keeps the slots of its kernels.
};

// Sessions whose kernels have few slots keep them before sessions whose kernels have many. At least
// one slot is left if there are other sessions.
Room RoomBeside(const std::vector<int>& slots, const std::vector<ShareDemand>& demands) {
  const size_t slot_count = slots.size();
  Room room;
  room.stays.assign(demands.size(), false);
  std::vector<size_t> pinned;
  for (size_t i = 0; i < demands.size(); ++i) {
    if (Works(demands[i]) && SlotsOf(demands[i].pinned) > 0) pinned.push_back(i);
  }
  std::stable_sort(pinned.begin(), pinned.end(), [&](size_t a, size_t b) {
    return SlotsOf(demands[a].pinned) < SlotsOf(demands[b].pinned);
  });
  std::vector<bool> taken(slot_count, false);
  size_t staying = 0;
  for (const size_t session : pinned) {
    std::vector<bool> then = taken;
    const SlotRange& range = demands[session].pinned;
    std::fill(then.begin() + range.begin, then.begin() + range.end, true);
    const bool all = std::find(then.begin(), then.end(), false) == then.end();
    if (all && staying + 1 < demands.size()) continue;
    taken = std::move(then);
    room.stays[session] = true;
    ++staying;
  }
  for (size_t slot = 0; slot < slot_count; ++slot) {
    if (!taken[slot]) room.free.push_back(static_cast<uint16_t>(slot));
  }
  return room;
}

// Returns the sessions that get slots, in the order in which they get them. Sessions that want the
// least of their weights' parts come first, because others get what they leave. Sessions that want
// more than their part come by the size of their parts, since the first slots are the smallest.
std::vector<Worker> WorkersOf(const std::vector<ShareDemand>& demands, const Room& room,
                              int multiprocessors) {
  std::vector<Worker> workers;
  for (size_t i = 0; i < demands.size(); ++i) {
    if (!Works(demands[i]) || room.stays[i]) continue;
    const int limit = Limit(demands[i]);
    workers.push_back({i, std::min(demands[i].wanted, limit), limit, std::max(demands[i].weight, 1),
                       demands[i].owed});
  }
  std::stable_sort(workers.begin(), workers.end(), [](const Worker& a, const Worker& b) {
    return int64_t{a.wanted} * b.weight < int64_t{b.wanted} * a.weight;
  });
  int64_t left = multiprocessors, weights = 0;
  for (const Worker& worker : workers) weights += worker.weight;
  auto greedy = workers.begin();
  for (; greedy != workers.end() && greedy->wanted * weights <= left * greedy->weight; ++greedy) {
    left -= greedy->wanted;
    weights -= greedy->weight;
  }
  std::stable_sort(greedy, workers.end(),
                   [](const Worker& a, const Worker& b) { return a.weight < b.weight; });
  return workers;
}

// Gives out slots, one row of them after the other.
class Layout {
 public:
  // `free` has the slots to give out, from the index `first` on.
  Layout(const std::vector<int>& slots, const std::vector<uint16_t>& free, size_t first)
      : slots_(slots), free_(free), next_(first) {
    for (size_t i = first; i < free.size(); ++i) left_ += slots[free[i]];
  }

  // Gives the next worker its part, or as much as it wants if that is less, but at least a slot.
  // `workers` workers with the total weight `weights` are still to come, this one included. The
  // last one gets all remaining slots, as far as they have no gap.
  SlotRange Place(const Worker& worker, size_t workers, int64_t weights) {
    const int part = static_cast<int>(int64_t{left_} * worker.weight / weights) + worker.owed;
    const int target = workers == 1 ? left_ : std::min(worker.wanted, part);
    const uint16_t begin = free_[next_];
    uint16_t end = begin + 1;
    int sum = slots_[free_[next_++]];
    while (next_ + workers - 1 < free_.size() && free_[next_] == end) {
      const int more = slots_[end];
      // Half a slot too few is as good as half a slot too many.
      if (sum + more > worker.limit || 2 * (target - sum) < more) break;
      sum += more;
      ++next_;
      ++end;
    }
    left_ -= sum;
    return {begin, end};
  }

 private:
  const std::vector<int>& slots_;
  const std::vector<uint16_t>& free_;
  size_t next_;
  int left_ = 0;
};

}  // namespace

std::vector<SlotRange> PlanShares(const std::vector<int>& slots,
                                  const std::vector<ShareDemand>& demands) {
  const auto slot_count = static_cast<uint16_t>(slots.size());
  std::vector<SlotRange> plan(demands.size(), SlotRange{0, slot_count});
  const auto working = static_cast<size_t>(std::count_if(demands.begin(), demands.end(), Works));
  if (working == 0) return plan;
  const Room room = RoomBeside(slots, demands);
  for (size_t i = 0; i < demands.size(); ++i) {
    if (room.stays[i]) plan[i] = demands[i].pinned;
  }
  const auto staying = static_cast<size_t>(std::count(room.stays.begin(), room.stays.end(), true));
  const bool rest = working < demands.size() && working - staying < room.free.size();
  const size_t first = rest ? 1 : 0;
  int multiprocessors = 0;
  for (size_t i = first; i < room.free.size(); ++i) multiprocessors += slots[room.free[i]];
  const std::vector<Worker> workers = WorkersOf(demands, room, multiprocessors);
  if (rest) {
    const uint16_t slot = room.free[0];
    for (size_t i = 0; i < demands.size(); ++i) {
      if (!Works(demands[i])) plan[i] = {slot, static_cast<uint16_t>(slot + 1)};
    }
  }
  const size_t usable = room.free.size() - first;
  Layout layout(slots, room.free, first);
  int64_t weights = 0;
  for (const Worker& worker : workers) weights += worker.weight;
  for (size_t i = 0; i < workers.size(); ++i) {
    SlotRange& range = plan[workers[i].session];
    if (workers.size() > usable) {
      const uint16_t slot = room.free[first + i % usable];
      range = {slot, static_cast<uint16_t>(slot + 1)};
    } else {
      range = layout.Place(workers[i], workers.size() - i, weights);
    }
    weights -= workers[i].weight;
  }
  return plan;
}

}  // namespace warpline::device
