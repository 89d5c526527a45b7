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
// The most that a group can owe: the whole device for this time. A kernel that runs for longer than
// a window keeps its slots, however many these are, and its group pays for them afterwards.
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

SharePlanner::Group* SharePlanner::GroupOf(const ShareTerms& terms) {
  if (!terms.group.empty()) {
    for (Group& group : groups_) {
      if (group.name == terms.group) return &group;
    }
  }
  Group& group = groups_.emplace_back();
  group.name = terms.group;
  group.most = terms.most;
  group.promised_weight = std::max(terms.weight, 1);
  group.weight = group.promised_weight * static_cast<int>(kUsualNiceWeight);
  return &group;
}

std::unique_ptr<SharePlanner::Session> SharePlanner::Join(ShareTerms terms) {
  MutexLock lock(&mu_);
  Group* const group = GroupOf(terms);
  auto session = absl::WrapUnique(new Session(this, group, std::move(terms)));
  group->sessions.push_back(session.get());
  Plan(clock_());
  RunOn(session.get(), SetOf(session->place()));
  return session;
}

void SharePlanner::Leave(Session* session) {
  MutexLock lock(&mu_);
  const int64_t now = clock_();
  NoteHad(now);
  Group* const group = session->group_;
  std::erase(group->sessions, session);
  std::erase(group->working, session);
  if (group->sessions.empty()) {
    groups_.remove_if([group](const Group& other) { return &other == group; });
  }
  Plan(now);
}

// One of two streams may be late, and still be on the slots that the other has left.
void SharePlanner::OnArrive(Session* session, StreamUse* stream, const SlotRange& place) {
  MutexLock lock(&mu_);
  // The session may have another place by now.
  if (session->place() != place) return;
  // A stream that only copies follows at once, and does not show where kernels are.
  const uint64_t window = window_.load(std::memory_order_relaxed);
  if (stream->window_.load(std::memory_order_relaxed) + 1 < window) return;
  const uint64_t move = session->moves_.load(std::memory_order_relaxed);
  if (stream->arrived_.exchange(move, std::memory_order_relaxed) == move) return;
  const uint32_t streams =
      session->streams_before_ + session->new_streams_.load(std::memory_order_relaxed);
  RunOn(session, SetOf(place) | (++session->arrived_ < streams ? session->runs_ : 0));
}

void SharePlanner::OnStray(Session* session, SlotSet slots) {
  MutexLock lock(&mu_);
  if ((slots & ~session->runs_) == 0) return;
  RunOn(session, session->runs_ | slots);
}

// A stream that has come to the place may be between two kernels, and is not seen there.
void SharePlanner::OnSeen(Session* session, SlotSet busy) {
  MutexLock lock(&mu_);
  const SlotSet place = SetOf(session->place());
  const SlotSet runs = busy == 0 ? place : (session->runs_ & place) | busy;
  if (runs == session->runs_ && runs != place) return;
  RunOn(session, runs);
}

void SharePlanner::RunOn(Session* session, SlotSet runs) {
  NoteHad(clock_());
  session->runs_ = runs;
  const SlotRange place = session->place();
  session->settled_.store(runs == SetOf(place) ? Packed(place) : 0, std::memory_order_relaxed);
  const auto share = static_cast<uint32_t>(SizeOf(slots_, runs) * 1000 / all_);
  if (std::exchange(session->share_, share) != share && session->on_share_)
    session->on_share_(share);
}

void SharePlanner::OnUse(Session* session, StreamUse* stream, uint64_t blocks) {
  const int64_t now = clock_();
  session->used_ms_.store(now, std::memory_order_relaxed);
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
    session->streams_.fetch_add(1, std::memory_order_relaxed);
    if (last + 1 != window) session->new_streams_.fetch_add(1, std::memory_order_relaxed);
  }
  if (blocks <= before) return;
  stream->blocks_.store(blocks, std::memory_order_relaxed);
  const uint64_t sum =
      session->blocks_.fetch_add(blocks - before, std::memory_order_relaxed) + blocks - before;
  if (Wanted(sum) <= session->planned_.load(std::memory_order_relaxed)) return;
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
  for (const Group& group : groups_) {
    for (Session* const session : group.sessions) {
      const uint64_t launched = session->blocks_.exchange(0, std::memory_order_relaxed);
      session->streams_before_ = session->streams_.exchange(0, std::memory_order_relaxed);
      session->new_streams_.store(0, std::memory_order_relaxed);
      Pin(session, launched == 0 ? HullOf(session->busy()) : SlotRange(), now);
      if (session->pinned_ == SlotRange()) session->blocks_before_ = launched;
    }
  }
  Plan(now);
}

void SharePlanner::Pin(Session* session, const SlotRange& range, int64_t now) {
  session->pinned_ = range;
  if (range == SlotRange()) {
    session->pinned_since_ms_ = 0;
  } else if (session->pinned_since_ms_ == 0) {
    session->pinned_since_ms_ = now;
  }
  session->stays_.store(range != SlotRange(), std::memory_order_relaxed);
}

void SharePlanner::EndStay(Session* session) {
  MutexLock lock(&mu_);
  if (session->pinned_ == SlotRange()) return;
  const int64_t now = clock_();
  Pin(session, {}, now);
  session->blocks_before_ = 0;
  Plan(now);
}

// Kernels that run on where their session has no place any more have these slots before the slots'
// new sessions: their blocks came first.
void SharePlanner::NoteHad(int64_t now) {
  // A thread that read the clock first may come last.
  if (now <= noted_ms_) return;
  const int64_t passed_ms = now - std::exchange(noted_ms_, now);
  SlotSet late = 0;
  for (const Group& group : groups_) {
    for (const Session* const session : group.working)
      late |= session->runs_ & ~SetOf(session->place());
  }
  for (Group& group : groups_) {
    SlotSet had = 0;
    for (const Session* const session : group.working) {
      had |= session->runs_ & ~(SetOf(session->place()) & late);
    }
    group.had_ms += SizeOf(slots_, had) * passed_ms;
  }
}

int64_t SharePlanner::PlannedOf(const Group& group) {
  int64_t planned = 0;
  for (const Session* const session : group.working) {
    planned += session->planned_.load(std::memory_order_relaxed);
  }
  return planned;
}

void SharePlanner::NoteOwed() {
  std::vector<Group*> greedy;
  int64_t had_ms = 0, weights = 0;
  for (Group& group : groups_) {
    const int size = SizeOf(slots_, SetOf(group.place) | group.held);
    if (PlannedOf(group) <= size || group.most > 0) {
      // A group that rests keeps its debt.
      group.owed = std::min(group.owed, 0);
      group.owed_ms = std::min<int64_t>(group.owed_ms, 0);
      group.had_ms = 0;
      continue;
    }
    greedy.push_back(&group);
    had_ms += group.had_ms;
    weights += group.weight;
  }
  int64_t most_ms = 0, sum_ms = 0;
  for (const Group* const group : greedy) sum_ms += group->owed_ms;
  for (Group* const group : greedy) {
    // A group that comes back owes its debt to all others.
    group->owed_ms -= sum_ms * group->weight / weights;
    const int64_t part_ms = had_ms * group->weight / weights;
    const int64_t missed_ms = part_ms - std::exchange(group->had_ms, 0);
    // Others had the whole device in this window.
    if (part_ms == 0) group->owed_ms = 0;
    // A smaller difference is not worth a move.
    if (std::abs(missed_ms) * kLeastRounding < part_ms && group->owed_ms == 0) continue;
    group->owed_ms += missed_ms;
    most_ms = std::max(most_ms, std::abs(group->owed_ms));
  }
  // All are scaled by the same factor, so that the debts keep their proportions.
  const int64_t kept_ms = std::min(most_ms, all_ * kMostOwedMs);
  const int64_t now_ms = std::min(most_ms, kMostMadeUp * kWindowMs);
  for (Group* const group : greedy) {
    group->owed = 0;
    if (most_ms == 0) continue;
    group->owed = static_cast<int>(group->owed_ms * now_ms / most_ms / kWindowMs);
    group->owed_ms = group->owed_ms * kept_ms / most_ms;
  }
}

// Divides the device by weight, and gives to others the multiprocessors that a group does not want
// (max-min fair).
void SharePlanner::NoteParts(int64_t now) {
  struct Want {
    Group* group;
    int64_t wanted;
  };
  std::vector<Want> wants;
  int64_t left = all_, weights = 0;
  for (Group& group : groups_) {
    group.part = 0;
    if (group.working.empty()) continue;
    wants.push_back({&group, PlannedOf(group)});
    weights += group.weight;
  }
  std::stable_sort(wants.begin(), wants.end(), [](const Want& a, const Want& b) {
    return a.wanted * b.group->weight < b.wanted * a.group->weight;
  });
  for (const auto& [group, wanted] : wants) {
    group->part = static_cast<int>(left * group->weight / weights);
    left -= std::min<int64_t>(wanted, group->part);
    weights -= group->weight;
  }
  for (const auto& [group, wanted] : wants) NoteKept(group, wants.size() > 1, now);
}

// Sessions whose kernels have few slots keep them before sessions whose kernels have many.
void SharePlanner::NoteKept(Group* group, bool beside_others, int64_t now) {
  group->held = group->kept = 0;
  std::vector<Session*> staying;
  for (Session* const session : group->working) {
    if (session->pinned_ != SlotRange()) staying.push_back(session);
  }
  std::stable_sort(staying.begin(), staying.end(), [this](const Session* a, const Session* b) {
    return SizeOf(slots_, a->pinned_) < SizeOf(slots_, b->pinned_);
  });
  const int largest = *std::max_element(slots_.begin(), slots_.end());
  const int even =
      std::max(group->part / std::max(static_cast<int>(group->working.size()), 1), largest);
  for (Session* const session : staying) {
    const SlotSet set = SetOf(session->pinned_);
    const bool too_many =
        SizeOf(slots_, set) > even ||
        (beside_others && SizeOf(slots_, group->kept | set) > std::max(group->part, largest));
    session->overstays_ = too_many && now - session->pinned_since_ms_ >= kStayMs;
    group->held |= set;
    if (!session->overstays_) group->kept |= set;
  }
}

bool SharePlanner::IsFull(const Group& group) const {
  if (group.held == 0) return false;
  const int least = slots_.front();
  if (group.most > 0 && SizeOf(slots_, group.held) + least > group.most) return true;
  return group.part < all_ && SizeOf(slots_, group.kept) >= group.part + least;
}

// The part that sessions keep for their long-running kernels is not given out again.
ShareDemand SharePlanner::DemandOf(const Group& group) const {
  ShareDemand demand;
  const int kept = SizeOf(slots_, group.kept);
  for (const Session* const session : group.working) {
    if (session->pinned_ != SlotRange()) continue;
    demand.wanted += session->planned_.load(std::memory_order_relaxed);
  }
  demand.wanted = std::min(demand.wanted, kept == 0 ? all_ : std::max(group.part - kept, 1));
  demand.most = group.most == 0 ? 0 : std::max(group.most - SizeOf(slots_, group.held), 1);
  demand.weight = group.weight;
  demand.owed = group.owed;
  return demand;
}

ShareDemand SharePlanner::DemandOf(const Session& session) const {
  ShareDemand demand;
  demand.wanted = session.planned_.load(std::memory_order_relaxed);
  demand.most = session.group_->most;
  demand.pinned = session.pinned_;
  // Beside others of its group it has the least weight, for the case that it cannot stay.
  demand.weight = session.group_->working.size() == 1 ? session.group_->weight
                                                      : static_cast<int>(kUsualNiceWeight);
  return demand;
}

void SharePlanner::Put(Session* session, const SlotRange& place) {
  if (place == session->place()) return;
  session->arrived_ = 0;
  session->settled_.store(0, std::memory_order_relaxed);
  session->moves_.fetch_add(1, std::memory_order_relaxed);
  session->place_.store(Packed(place), std::memory_order_release);
}

void SharePlanner::Divide(const Group& group) {
  const SlotRange& place = group.place;
  const std::vector<int> slots(slots_.begin() + place.begin, slots_.begin() + place.end);
  std::vector<Session*> sessions;
  std::vector<ShareDemand> demands;
  for (Session* const session : group.working) {
    if (session->pinned_ != SlotRange()) continue;
    sessions.push_back(session);
    demands.push_back({.wanted = session->planned_.load(std::memory_order_relaxed)});
  }
  const std::vector<SlotRange> plan = PlanShares(slots, demands);
  for (size_t i = 0; i < sessions.size(); ++i) {
    Put(sessions[i], {static_cast<uint16_t>(place.begin + plan[i].begin),
                      static_cast<uint16_t>(place.begin + plan[i].end)});
  }
}

void SharePlanner::Crowd(const Group& group) {
  std::vector<SlotRange> ranges;
  for (const Session* const session : group.working) {
    if (session->pinned_ != SlotRange()) ranges.push_back(session->pinned_);
  }
  size_t next = 0;
  for (Session* const session : group.working) {
    if (session->pinned_ == SlotRange()) Put(session, ranges[next++ % ranges.size()]);
  }
}

void SharePlanner::See(Group* group, int64_t now, std::vector<Session*>* apart) {
  group->working.clear();
  group->place = {};
  uint32_t niceness = kMostNiceness;
  for (Session* const session : group->sessions) {
    const int64_t used = session->used_ms_.load(std::memory_order_relaxed);
    const uint64_t blocks =
        std::max(session->blocks_before_, session->blocks_.load(std::memory_order_relaxed));
    const int wanted = Wanted(blocks);
    session->planned_.store(wanted, std::memory_order_relaxed);
    if (wanted > 0) {
      group->working.push_back(session);
      niceness = std::min(niceness, session->niceness_);
    }
    const bool present = wanted > 0 || (used != 0 && now - used <= kPresenceMs);
    if (!present) {
      Put(session, PlanShares(slots_, {{all_, group->most}})[0]);
    } else if (wanted == 0) {
      apart->push_back(session);
    }
  }
  if (group->working.empty()) return;
  group->weight = group->promised_weight * static_cast<int>(NiceWeight(niceness));
}

// A session that launches gets a place with its group. One that rests, or stays with its
// long-running kernels, gets a place by itself.
void SharePlanner::Plan(int64_t now) {
  NoteHad(now);
  std::vector<Group*> together;
  std::vector<Session*> apart;
  std::vector<ShareDemand> demands;
  for (Group& group : groups_) See(&group, now, &apart);
  NoteParts(now);
  for (Group& group : groups_) {
    for (Session* const session : group.working) {
      if (session->pinned_ == SlotRange()) continue;
      if (session->overstays_) {
        Put(session, session->pinned_);
      } else {
        apart.push_back(session);
      }
    }
    const bool launches =
        std::any_of(group.working.begin(), group.working.end(),
                    [](const Session* session) { return session->pinned_ == SlotRange(); });
    if (!launches) continue;
    if (IsFull(group)) {
      Crowd(group);
      continue;
    }
    together.push_back(&group);
    demands.push_back(DemandOf(group));
  }
  for (const Session* const session : apart) demands.push_back(DemandOf(*session));
  const std::vector<SlotRange> plan = PlanShares(slots_, demands);
  for (size_t i = 0; i < together.size(); ++i) {
    together[i]->place = plan[i];
    Divide(*together[i]);
  }
  for (size_t i = 0; i < apart.size(); ++i) Put(apart[i], plan[together.size() + i]);
}

}  // namespace warpline::device
