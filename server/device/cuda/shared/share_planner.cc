#include "server/device/cuda/shared/share_planner.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"

namespace warpline::device {
namespace {

// Parts that slots miss by less than one in so many are left as they are.
constexpr int kLeastRounding = 16;
// In multiprocessors. More cannot be made up for in a window or two.
constexpr int kMostOwed = 24;

}  // namespace

int64_t SharePlanner::CoarseClock() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

SharePlanner::SharePlanner(std::vector<int> slots, Clock clock)
    : slots_(std::move(slots)),
      all_(std::accumulate(slots_.begin(), slots_.end(), 0)),
      clock_(clock) {}

std::unique_ptr<SharePlanner::Seat> SharePlanner::Join(int most, int weight) {
  auto seat = absl::WrapUnique(new Seat(this, most, weight));
  MutexLock lock(&mu_);
  seats_.push_back(seat.get());
  Plan(clock_());
  return seat;
}

void SharePlanner::Leave(Seat* seat) {
  MutexLock lock(&mu_);
  std::erase(seats_, seat);
  Plan(clock_());
}

void SharePlanner::OnUse(Seat* seat, StreamUse* stream, uint64_t blocks) {
  const int64_t now = clock_();
  seat->used_ms_.store(now, std::memory_order_relaxed);
  LookAt(now);
  if (blocks == 0) return;
  blocks = std::min(blocks, static_cast<uint64_t>(all_));
  // Streams that several threads use at the same time may count twice or not at all.
  const uint64_t window = window_.load(std::memory_order_relaxed);
  const bool first = stream->window_.load(std::memory_order_relaxed) != window;
  const uint64_t before = first ? 0 : stream->blocks_.load(std::memory_order_relaxed);
  if (first) stream->window_.store(window, std::memory_order_relaxed);
  if (blocks <= before) return;
  stream->blocks_.store(blocks, std::memory_order_relaxed);
  const uint64_t sum =
      seat->blocks_.fetch_add(blocks - before, std::memory_order_relaxed) + blocks - before;
  if (Wanted(sum) <= seat->planned_.load(std::memory_order_relaxed)) return;
  MutexLock lock(&mu_);
  Plan(now);
}

void SharePlanner::NextWindow(int64_t now) {
  MutexLock lock(&mu_);
  if (now < window_end_.load(std::memory_order_relaxed)) return;
  window_end_.store(now + kWindowMs, std::memory_order_relaxed);
  window_.fetch_add(1, std::memory_order_relaxed);
  NoteRounding();
  for (Seat* const seat : seats_) {
    const uint64_t launched = seat->blocks_.exchange(0, std::memory_order_relaxed);
    seat->pinned_ = launched == 0 ? HullOf(seat->busy()) : SlotRange();
    if (seat->pinned_ == SlotRange()) {
      seat->blocks_before_ = launched;
      seat->pinned_since_ms_ = 0;
    } else if (seat->pinned_since_ms_ == 0) {
      seat->pinned_since_ms_ = now;
    }
  }
  Plan(now);
}

void SharePlanner::NoteRounding() {
  std::vector<Seat*> greedy;
  int64_t had = 0, weights = 0;
  for (Seat* const seat : seats_) {
    const int size = SizeOf(slots_, seat->place());
    if (seat->planned_.load(std::memory_order_relaxed) <= size || seat->limited() ||
        seat->pinned_ != SlotRange()) {
      seat->owed_ = 0;
      continue;
    }
    greedy.push_back(seat);
    had += size;
    weights += seat->weight_;
  }
  for (Seat* const seat : greedy) {
    const int part = static_cast<int>(had * seat->weight_ / weights);
    const int missed = part - SizeOf(slots_, seat->place());
    // For less it is not worth moving.
    if (std::abs(missed) * kLeastRounding < part && seat->owed_ == 0) continue;
    seat->owed_ = std::clamp(seat->owed_ + missed, -kMostOwed, kMostOwed);
  }
}

void SharePlanner::Plan(int64_t now) {
  std::vector<Seat*> present;
  std::vector<ShareDemand> demands;
  for (Seat* const seat : seats_) {
    const int64_t used = seat->used_ms_.load(std::memory_order_relaxed);
    const uint64_t blocks =
        std::max(seat->blocks_before_, seat->blocks_.load(std::memory_order_relaxed));
    const int wanted = Wanted(blocks);
    seat->planned_.store(wanted, std::memory_order_relaxed);
    if (wanted == 0 && (used == 0 || now - used > kPresenceMs)) {
      const SlotRange alone = PlanShares(slots_, {{all_, seat->most_}})[0];
      seat->place_.store(Packed(alone), std::memory_order_release);
      continue;
    }
    present.push_back(seat);
    demands.push_back({wanted, seat->most_, seat->pinned_,
                       seat->pinned_since_ms_ != 0 && now - seat->pinned_since_ms_ >= kStayMs,
                       seat->weight_, seat->owed_});
  }
  const std::vector<SlotRange> plan = PlanShares(slots_, demands);
  for (size_t i = 0; i < present.size(); ++i) {
    present[i]->place_.store(Packed(plan[i]), std::memory_order_release);
  }
}

}  // namespace warpline::device
