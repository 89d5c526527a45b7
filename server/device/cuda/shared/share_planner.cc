#include "server/device/cuda/shared/share_planner.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"

namespace warpline::device {
namespace {

// A part that slots miss by less than one in this many is left as it is.
constexpr int kLeastRounding = 64;
// The most that a slice can owe: the whole device for this time. A kernel that runs for longer than
// a window keeps its slots, however many these are, and its slice pays for them afterwards.
constexpr int64_t kMostOwedMs = 1000;
// The most of it that one window makes up for, in multiprocessors.
constexpr int64_t kMostMadeUp = 24;

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

SharePlanner::Slice* SharePlanner::SliceOf(const ShareTerms& terms) {
  if (!terms.slice.empty()) {
    for (Slice& slice : slices_) {
      if (slice.name == terms.slice) return &slice;
    }
  }
  Slice& slice = slices_.emplace_back();
  slice.name = terms.slice;
  slice.most = terms.most;
  slice.weight = std::max(terms.weight, 1);
  return &slice;
}

std::unique_ptr<SharePlanner::Seat> SharePlanner::Join(ShareTerms terms) {
  MutexLock lock(&mu_);
  Slice* const slice = SliceOf(terms);
  auto seat = absl::WrapUnique(new Seat(this, slice, std::move(terms.on_share)));
  slice->seats.push_back(seat.get());
  Plan(clock_());
  RunOn(seat.get(), SetOf(seat->place()));
  return seat;
}

void SharePlanner::Leave(Seat* seat) {
  MutexLock lock(&mu_);
  const int64_t now = clock_();
  NoteHad(now);
  Slice* const slice = seat->slice_;
  std::erase(slice->seats, seat);
  std::erase(slice->working, seat);
  if (slice->seats.empty()) {
    slices_.remove_if([slice](const Slice& other) { return &other == slice; });
  }
  Plan(now);
}

// One of two streams may be late, and still be on the slots that the other has left.
void SharePlanner::OnArrive(Seat* seat, StreamUse* stream, const SlotRange& place) {
  MutexLock lock(&mu_);
  // The session may have another place by now.
  if (seat->place() != place) return;
  // A stream that only copies follows at once, and does not show where kernels are.
  const uint64_t window = window_.load(std::memory_order_relaxed);
  if (stream->window_.load(std::memory_order_relaxed) + 1 < window) return;
  const uint64_t move = seat->moves_.load(std::memory_order_relaxed);
  if (stream->arrived_.exchange(move, std::memory_order_relaxed) == move) return;
  const uint32_t streams =
      seat->streams_before_ + seat->new_streams_.load(std::memory_order_relaxed);
  RunOn(seat, SetOf(place) | (++seat->arrived_ < streams ? seat->runs_ : 0));
}

void SharePlanner::OnStray(Seat* seat, SlotSet slots) {
  MutexLock lock(&mu_);
  if ((slots & ~seat->runs_) == 0) return;
  RunOn(seat, seat->runs_ | slots);
}

// A stream that has come to the place may be between two kernels, and is not seen there.
void SharePlanner::OnSeen(Seat* seat, SlotSet busy) {
  MutexLock lock(&mu_);
  const SlotSet place = SetOf(seat->place());
  const SlotSet runs = busy == 0 ? place : (seat->runs_ & place) | busy;
  if (runs == seat->runs_ && runs != place) return;
  RunOn(seat, runs);
}

void SharePlanner::RunOn(Seat* seat, SlotSet runs) {
  NoteHad(clock_());
  seat->runs_ = runs;
  const SlotRange place = seat->place();
  seat->settled_.store(runs == SetOf(place) ? Packed(place) : 0, std::memory_order_relaxed);
  const auto share = static_cast<uint32_t>(SizeOf(slots_, runs) * 1000 / all_);
  if (std::exchange(seat->share_, share) != share && seat->on_share_) seat->on_share_(share);
}

void SharePlanner::OnUse(Seat* seat, StreamUse* stream, uint64_t blocks) {
  const int64_t now = clock_();
  seat->used_ms_.store(now, std::memory_order_relaxed);
  LookAt(now);
  if (blocks == 0) return;
  blocks = std::min(blocks, static_cast<uint64_t>(all_));
  // Streams that several threads use at the same time may count twice or not at all.
  const uint64_t window = window_.load(std::memory_order_relaxed);
  const uint64_t last = stream->window_.load(std::memory_order_relaxed);
  const bool first = last != window;
  const uint64_t before = first ? 0 : stream->blocks_.load(std::memory_order_relaxed);
  if (first) {
    stream->window_.store(window, std::memory_order_relaxed);
    seat->streams_.fetch_add(1, std::memory_order_relaxed);
    if (last + 1 != window) seat->new_streams_.fetch_add(1, std::memory_order_relaxed);
  }
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
  NoteHad(now);
  NoteOwed();
  for (const Slice& slice : slices_) {
    for (Seat* const seat : slice.seats) {
      const uint64_t launched = seat->blocks_.exchange(0, std::memory_order_relaxed);
      seat->streams_before_ = seat->streams_.exchange(0, std::memory_order_relaxed);
      seat->new_streams_.store(0, std::memory_order_relaxed);
      Pin(seat, launched == 0 ? HullOf(seat->busy()) : SlotRange(), now);
      if (seat->pinned_ == SlotRange()) seat->blocks_before_ = launched;
    }
  }
  Plan(now);
}

void SharePlanner::Pin(Seat* seat, const SlotRange& range, int64_t now) {
  seat->pinned_ = range;
  if (range == SlotRange()) {
    seat->pinned_since_ms_ = 0;
  } else if (seat->pinned_since_ms_ == 0) {
    seat->pinned_since_ms_ = now;
  }
  seat->stays_.store(range != SlotRange(), std::memory_order_relaxed);
}

void SharePlanner::EndStay(Seat* seat) {
  MutexLock lock(&mu_);
  if (seat->pinned_ == SlotRange()) return;
  const int64_t now = clock_();
  Pin(seat, {}, now);
  seat->blocks_before_ = 0;
  Plan(now);
}

// Kernels that run on where their session has no place any more have these slots before the slots'
// new sessions: their blocks came first.
void SharePlanner::NoteHad(int64_t now) {
  // A thread that read the clock first may come last.
  if (now <= noted_ms_) return;
  const int64_t passed_ms = now - std::exchange(noted_ms_, now);
  SlotSet late = 0;
  for (const Slice& slice : slices_) {
    for (const Seat* const seat : slice.working) late |= seat->runs_ & ~SetOf(seat->place());
  }
  for (Slice& slice : slices_) {
    SlotSet had = 0;
    for (const Seat* const seat : slice.working) {
      had |= seat->runs_ & ~(SetOf(seat->place()) & late);
    }
    slice.had_ms += SizeOf(slots_, had) * passed_ms;
  }
}

int64_t SharePlanner::PlannedOf(const Slice& slice) {
  int64_t planned = 0;
  for (const Seat* const seat : slice.working) {
    planned += seat->planned_.load(std::memory_order_relaxed);
  }
  return planned;
}

void SharePlanner::NoteOwed() {
  std::vector<Slice*> greedy;
  int64_t had_ms = 0, weights = 0;
  for (Slice& slice : slices_) {
    const int size = SizeOf(slots_, SetOf(slice.place) | slice.held);
    if (PlannedOf(slice) <= size || slice.most > 0) {
      // A slice that rests keeps its debt.
      slice.owed = std::min(slice.owed, 0);
      slice.owed_ms = std::min<int64_t>(slice.owed_ms, 0);
      slice.had_ms = 0;
      continue;
    }
    greedy.push_back(&slice);
    had_ms += slice.had_ms;
    weights += slice.weight;
  }
  int64_t most_ms = 0, sum_ms = 0;
  for (const Slice* const slice : greedy) sum_ms += slice->owed_ms;
  for (Slice* const slice : greedy) {
    // A slice that comes back owes its debt to all others.
    slice->owed_ms -= sum_ms * slice->weight / weights;
    const int64_t part_ms = had_ms * slice->weight / weights;
    const int64_t missed_ms = part_ms - std::exchange(slice->had_ms, 0);
    // Others had the whole device in this window.
    if (part_ms == 0) slice->owed_ms = 0;
    // A smaller difference is not worth a move.
    if (std::abs(missed_ms) * kLeastRounding < part_ms && slice->owed_ms == 0) continue;
    slice->owed_ms += missed_ms;
    most_ms = std::max(most_ms, std::abs(slice->owed_ms));
  }
  // All are scaled by the same factor, so that the debts keep their proportions.
  const int64_t kept_ms = std::min(most_ms, all_ * kMostOwedMs);
  const int64_t now_ms = std::min(most_ms, kMostMadeUp * kWindowMs);
  for (Slice* const slice : greedy) {
    slice->owed = 0;
    if (most_ms == 0) continue;
    slice->owed = static_cast<int>(slice->owed_ms * now_ms / most_ms / kWindowMs);
    slice->owed_ms = slice->owed_ms * kept_ms / most_ms;
  }
}

// Divides the device by weight, and gives to others the multiprocessors that a slice does not want
// (max-min fair).
void SharePlanner::NoteParts(int64_t now) {
  struct Want {
    Slice* slice;
    int64_t wanted;
  };
  std::vector<Want> wants;
  int64_t left = all_, weights = 0;
  for (Slice& slice : slices_) {
    slice.part = 0;
    if (slice.working.empty()) continue;
    wants.push_back({&slice, PlannedOf(slice)});
    weights += slice.weight;
  }
  std::stable_sort(wants.begin(), wants.end(), [](const Want& a, const Want& b) {
    return a.wanted * b.slice->weight < b.wanted * a.slice->weight;
  });
  for (const auto& [slice, wanted] : wants) {
    slice->part = static_cast<int>(left * slice->weight / weights);
    left -= std::min<int64_t>(wanted, slice->part);
    weights -= slice->weight;
  }
  for (const auto& [slice, wanted] : wants) NoteKept(slice, wants.size() > 1, now);
}

// Sessions whose kernels have few slots keep them before sessions whose kernels have many.
void SharePlanner::NoteKept(Slice* slice, bool beside_others, int64_t now) {
  slice->held = slice->kept = 0;
  std::vector<Seat*> staying;
  for (Seat* const seat : slice->working) {
    if (seat->pinned_ != SlotRange()) staying.push_back(seat);
  }
  std::stable_sort(staying.begin(), staying.end(), [this](const Seat* a, const Seat* b) {
    return SizeOf(slots_, a->pinned_) < SizeOf(slots_, b->pinned_);
  });
  const int largest = *std::max_element(slots_.begin(), slots_.end());
  const int even =
      std::max(slice->part / std::max(static_cast<int>(slice->working.size()), 1), largest);
  for (Seat* const seat : staying) {
    const SlotSet set = SetOf(seat->pinned_);
    const bool too_many =
        SizeOf(slots_, set) > even ||
        (beside_others && SizeOf(slots_, slice->kept | set) > std::max(slice->part, largest));
    seat->overstays_ = too_many && now - seat->pinned_since_ms_ >= kStayMs;
    slice->held |= set;
    if (!seat->overstays_) slice->kept |= set;
  }
}

bool SharePlanner::IsFull(const Slice& slice) const {
  if (slice.held == 0) return false;
  const int least = slots_.front();
  if (slice.most > 0 && SizeOf(slots_, slice.held) + least > slice.most) return true;
  return slice.part < all_ && SizeOf(slots_, slice.kept) >= slice.part + least;
}

// The part that sessions keep for their long-running kernels is not given out again.
ShareDemand SharePlanner::DemandOf(const Slice& slice) const {
  ShareDemand demand;
  const int kept = SizeOf(slots_, slice.kept);
  for (const Seat* const seat : slice.working) {
    if (seat->pinned_ != SlotRange()) continue;
    demand.wanted += seat->planned_.load(std::memory_order_relaxed);
  }
  demand.wanted = std::min(demand.wanted, kept == 0 ? all_ : std::max(slice.part - kept, 1));
  demand.most = slice.most == 0 ? 0 : std::max(slice.most - SizeOf(slots_, slice.held), 1);
  demand.weight = slice.weight;
  demand.owed = slice.owed;
  return demand;
}

ShareDemand SharePlanner::DemandOf(const Seat& seat) const {
  ShareDemand demand;
  demand.wanted = seat.planned_.load(std::memory_order_relaxed);
  demand.most = seat.slice_->most;
  demand.pinned = seat.pinned_;
  // Beside others of its slice it has the least weight, for the case that it cannot stay.
  demand.weight = seat.slice_->working.size() == 1 ? seat.slice_->weight : 1;
  return demand;
}

void SharePlanner::Put(Seat* seat, const SlotRange& place) {
  if (place == seat->place()) return;
  seat->arrived_ = 0;
  seat->settled_.store(0, std::memory_order_relaxed);
  seat->moves_.fetch_add(1, std::memory_order_relaxed);
  seat->place_.store(Packed(place), std::memory_order_release);
}

void SharePlanner::Divide(const Slice& slice) {
  const SlotRange& place = slice.place;
  const std::vector<int> slots(slots_.begin() + place.begin, slots_.begin() + place.end);
  std::vector<Seat*> seats;
  std::vector<ShareDemand> demands;
  for (Seat* const seat : slice.working) {
    if (seat->pinned_ != SlotRange()) continue;
    seats.push_back(seat);
    demands.push_back({.wanted = seat->planned_.load(std::memory_order_relaxed)});
  }
  const std::vector<SlotRange> plan = PlanShares(slots, demands);
  for (size_t i = 0; i < seats.size(); ++i) {
    Put(seats[i], {static_cast<uint16_t>(place.begin + plan[i].begin),
                   static_cast<uint16_t>(place.begin + plan[i].end)});
  }
}

void SharePlanner::Crowd(const Slice& slice) {
  std::vector<SlotRange> ranges;
  for (const Seat* const seat : slice.working) {
    if (seat->pinned_ != SlotRange()) ranges.push_back(seat->pinned_);
  }
  size_t next = 0;
  for (Seat* const seat : slice.working) {
    if (seat->pinned_ == SlotRange()) Put(seat, ranges[next++ % ranges.size()]);
  }
}

void SharePlanner::See(Slice* slice, int64_t now, std::vector<Seat*>* apart) {
  slice->working.clear();
  slice->place = {};
  for (Seat* const seat : slice->seats) {
    const int64_t used = seat->used_ms_.load(std::memory_order_relaxed);
    const uint64_t blocks =
        std::max(seat->blocks_before_, seat->blocks_.load(std::memory_order_relaxed));
    const int wanted = Wanted(blocks);
    seat->planned_.store(wanted, std::memory_order_relaxed);
    if (wanted > 0) slice->working.push_back(seat);
    const bool present = wanted > 0 || (used != 0 && now - used <= kPresenceMs);
    if (!present) {
      Put(seat, PlanShares(slots_, {{all_, slice->most}})[0]);
    } else if (wanted == 0) {
      apart->push_back(seat);
    }
  }
}

// A session that launches gets a place with its slice. One that rests, or stays with its
// long-running kernels, gets a place by itself.
void SharePlanner::Plan(int64_t now) {
  NoteHad(now);
  std::vector<Slice*> together;
  std::vector<Seat*> apart;
  std::vector<ShareDemand> demands;
  for (Slice& slice : slices_) See(&slice, now, &apart);
  NoteParts(now);
  for (Slice& slice : slices_) {
    for (Seat* const seat : slice.working) {
      if (seat->pinned_ == SlotRange()) continue;
      if (seat->overstays_) {
        Put(seat, seat->pinned_);
      } else {
        apart.push_back(seat);
      }
    }
    const bool launches =
        std::any_of(slice.working.begin(), slice.working.end(),
                    [](const Seat* seat) { return seat->pinned_ == SlotRange(); });
    if (!launches) continue;
    if (IsFull(slice)) {
      Crowd(slice);
      continue;
    }
    together.push_back(&slice);
    demands.push_back(DemandOf(slice));
  }
  for (const Seat* const seat : apart) demands.push_back(DemandOf(*seat));
  const std::vector<SlotRange> plan = PlanShares(slots_, demands);
  for (size_t i = 0; i < together.size(); ++i) {
    together[i]->place = plan[i];
    Divide(*together[i]);
  }
  for (size_t i = 0; i < apart.size(); ++i) Put(apart[i], plan[together.size() + i]);
}

}  // namespace warpline::device
