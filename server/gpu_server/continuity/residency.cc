#include "server/gpu_server/continuity/residency.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/niceness.h"
#include "common/steady_time.h"

namespace warpline::server {
namespace {

// Between looks while a session waits for room, and while memory is short.
constexpr absl::Duration kLookSoon = absl::Milliseconds(10);
constexpr absl::Duration kLookLater = absl::Milliseconds(200);
// Between looks that only see whether memory is short.
constexpr absl::Duration kLookSeldom = absl::Seconds(1);
// The share of the time that goes into moves is measured over this time.
constexpr absl::Duration kWindow = absl::Seconds(10);
// Turns become shorter again below this share.
constexpr double kCalm = 0.05;
// A session that could not be moved is left alone for this time, and longer each time.
constexpr absl::Duration kLeastBackOff = absl::Seconds(4);
constexpr absl::Duration kMostBackOff = absl::Minutes(5);
// The books may say of a device that it has room when it has too little: contexts take what is not
// known. A session that finds so is given more by as much, up to that.
constexpr uint64_t kExtraBytes = uint64_t{256} << 20;
constexpr uint64_t kMostExtraBytes = uint64_t{4} << 30;

double WeightOf(uint32_t weight, uint32_t niceness) {
  return static_cast<double>(std::max(1u, weight)) * NiceWeight(niceness);
}
// The longest time that a session that comes back too soon has to be without work.
constexpr absl::Duration kMostIdleAfter = absl::Seconds(10);

// Why the memory of a session that may not be moved stays on the device.
std::string WhyItStays(const Resident& resident) {
  return resident.spared ? "the server's policy keeps them" : resident.why_not;
}

}  // namespace

uint64_t MostGrowth(const GrowthFacts& facts) {
  const auto less = [](uint64_t a, uint64_t b) { return a - std::min(a, b); };
  const uint64_t to_limit = less(facts.limit_bytes, facts.total_bytes);
  // It still fits on the device, or all of it on the host.
  uint64_t most = std::max(less(facts.capacity_bytes, facts.total_bytes),
                           less(facts.host_bytes, facts.total_bytes));
  // Otherwise total - capacity + 2 * largest must fit on the host, and it may be the largest.
  const uint64_t both = facts.host_bytes + facts.capacity_bytes;
  most = std::max(most, std::min(less(both, facts.total_bytes + 2 * facts.largest_bytes),
                                 less(both, facts.total_bytes + 2 * facts.own_bytes) / 3));
  // It, or what has to come back beside it, fits next to what stays on the device.
  const uint64_t moves =
      facts.stays ? std::max(facts.own_bytes, facts.largest_bytes) : facts.own_bytes;
  const uint64_t beside = less(facts.capacity_bytes, facts.fixed_bytes + moves);
  return std::min({to_limit, most, beside});
}

uint64_t NeededBeside(const GrowthFacts& facts) {
  return facts.fixed_bytes + std::max(facts.own_bytes, facts.largest_bytes);
}

bool FitsBesideFixed(const GrowthFacts& facts) {
  return NeededBeside(facts) <= facts.capacity_bytes;
}

Residency::Residency(ResidencyOptions options, Timers* timers, ResidencyHost* host)
    : options_([&] {
        if (options.now == nullptr) options.now = &SteadyNow;
        return std::move(options);
      }()),
      timers_(timers),
      host_(host),
      devices_(static_cast<size_t>(options_.devices)) {}

void Residency::Start() {
  for (Device& device : devices_) device.window_began = options_.now();
  if (options_.evicts) Schedule(kLookSeldom);
}

void Residency::Await(Want want, std::function<void(absl::Status)> again) {
  const absl::Time now = options_.now();
  Turn& turn = turns_[want.session];
  absl::Time since = now;
  if (now < turn.promised_until) {
    since = turn.promised_since;
    turn.extra_bytes = std::min(turn.extra_bytes + kExtraBytes, kMostExtraBytes);
  }
  for (const Waiting& waiting : waiting_) {
    if (waiting.want.session == want.session) since = std::min(since, waiting.since);
  }
  StopWaiting(want.session);
  if (!want.grows) JudgeReturn(&turn);
  Waiting waiting = {std::move(want), since, std::move(again)};
  const auto behind = [](const Waiting& one, const Waiting& other) {
    const auto place = [](const Waiting& waits) {
      return std::make_tuple(-waits.want.priority,
                             waits.since + waits.want.niceness * kLaterPerNiceness);
    };
    return place(one) < place(other);
  };
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), waiting, behind),
                  std::move(waiting));
  Schedule(absl::ZeroDuration());
}

void Residency::JudgeReturn(Turn* turn) {
  if (turn->left_idle == absl::InfinitePast()) return;
  const absl::Duration away = options_.now() - turn->left_idle;
  const bool too_soon = away < options_.moves_per_turn * (turn->out + turn->in);
  const absl::Duration after = std::max(turn->idle_after, options_.idle_after);
  turn->idle_after = too_soon ? std::min(2 * after, kMostIdleAfter) : options_.idle_after;
  turn->left_idle = absl::InfinitePast();
}

void Residency::StopWaiting(uint64_t session) {
  const size_t before = waiting_.size();
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.want.session == session; });
  const auto turn = turns_.find(session);
  const bool promised = turn != turns_.end() && !turn->second.promised.empty();
  if (promised) {
    turn->second.promised.clear();
    turn->second.promised_until = absl::InfinitePast();
  }
  if ((promised || waiting_.size() < before) && !waiting_.empty()) Schedule(absl::ZeroDuration());
}

void Residency::OnCame(uint64_t session, absl::Duration took) {
  StopWaiting(session);
  Turn& turn = turns_[session];
  turn.began = turn.active = options_.now();
  turn.in = took;
  turn.extra_bytes = 0;
  for (Device& device : devices_) CountMove(&device, took);
}

void Residency::Forget(uint64_t session) {
  StopWaiting(session);
  turns_.erase(session);
}

void Residency::Schedule(absl::Duration delay) {
  if (looking_) return;  // Look() schedules the next one at its end.
  const absl::Time due = options_.now() + delay;
  if (due >= due_) return;
  timers_->Remove(timer_);
  due_ = due;
  timer_ = timers_->RunAfter(delay, [this] {
    control_loop.AssertOnLoop();
    timer_ = 0;
    due_ = absl::InfiniteFuture();
    Look();
  });
}

void Residency::Look() {
  looking_ = true;
  bool is_short = false;
  bool is_beyond = false;
  for (int device = 0; device < options_.devices; ++device) {
    CloseWindow(&devices_[static_cast<size_t>(device)]);
    if (!options_.keeps_limits) continue;
    const std::vector<Resident> residents = host_->ResidentsOf(device);
    Observe(residents);
    is_beyond |= KeepLimits(device, residents);
    if (!options_.evicts) continue;
    const DeviceRoom room = host_->RoomOf(device);
    const bool device_short = room.free_bytes + room.leaving_bytes < options_.low_water_bytes;
    is_short |= device_short;
    if (device_short) KeepFree(device);
  }
  // A session that is answered and asks again at once waits for the next look.
  for (size_t most = 2 * waiting_.size(); most > 0 && Serve(); --most) {
  }
  looking_ = false;
  if (!waiting_.empty()) {
    Schedule(kLookSoon);
  } else if (is_short || is_beyond) {
    Schedule(kLookLater);
  } else if (options_.evicts) {
    Schedule(kLookSeldom);
  }
}

void Residency::Observe(const std::vector<Resident>& residents) {
  const absl::Time now = options_.now();
  for (const Resident& resident : residents) {
    const auto [found, is_new] = turns_.try_emplace(resident.session);
    Turn& turn = found->second;
    if (turn.began == absl::Time()) turn.began = turn.active = now;
    if (resident.in_flight) turn.active = now;
    if (resident.moving) continue;  // Its progress may not be known.
    if (resident.progress != turn.progress) turn.active = now;
    turn.progress = resident.progress;
  }
}

uint64_t Residency::PromisedToOthers(uint64_t session, int device) const {
  const absl::Time now = options_.now();
  uint64_t bytes = 0;
  for (const auto& [id, turn] : turns_) {
    const auto promised = turn.promised.find(device);
    if (id != session && promised != turn.promised.end() && now < turn.promised_until) {
      bytes += promised->second;
    }
  }
  return bytes;
}

bool Residency::SettleForLess(Want* want) {
  if (want->grows || want->least.empty() || want->least == want->bytes) return false;
  want->bytes = want->least;
  return true;
}

bool Residency::Serve() {
  std::set<int> claimed;  // Devices that sessions before in line wait for.
  std::set<std::string> claimed_leases;
  for (auto waiting = waiting_.begin(); waiting != waiting_.end(); ++waiting) {
    const Want& want = waiting->want;
    const LeaseLimit limit = host_->LimitOf(want.session);
    if (claimed_leases.count(limit.lease) != 0) continue;
    const absl::StatusOr<bool> in_lease = MakeRoomInLease(want, limit);
    if (!in_lease.ok() && want.grows) {
      Answer(waiting, in_lease.status());
      return true;
    }
    if (!in_lease.ok() && SettleForLess(&waiting->want)) return true;
    if (!in_lease.ok() || !*in_lease) {
      // Others do not wait for this lease's turns.
      claimed_leases.insert(limit.lease);
      continue;
    }
    const uint64_t extra = turns_[want.session].extra_bytes;
    bool fits = true;
    absl::Status never;
    for (const auto& [device, bytes] : want.bytes) {
      if (claimed.count(device) != 0) {
        fits = false;
        continue;
      }
      const DeviceRoom room = host_->RoomOf(device);
      const uint64_t kept = PromisedToOthers(want.session, device);
      if (room.free_bytes >= bytes + extra + kept) continue;
      const absl::StatusOr<bool> made = MakeRoom(want, device, bytes, extra + kept);
      if (never.ok()) never = made.status();
      // It may try with what there is.
      if (made.ok() && !*made && room.free_bytes >= bytes + kept) continue;
      fits = false;
    }
    // Without moves for the device's sake there is other relief for a session that grows.
    if (fits || (want.grows && !options_.evicts)) {
      Answer(waiting, absl::OkStatus());
      return true;
    }
    if (!never.ok() && want.grows) {
      Answer(waiting, never);
      return true;
    }
    if (!never.ok() && SettleForLess(&waiting->want)) return true;
    for (const auto& [device, bytes] : want.bytes) claimed.insert(device);
  }
  return false;
}

void Residency::Answer(std::vector<Waiting>::iterator waiting, const absl::Status& status) {
  const Waiting answered = std::move(*waiting);
  waiting_.erase(waiting);
  if (status.ok()) {
    Turn& turn = turns_[answered.want.session];
    turn.promised = answered.want.bytes;
    turn.promised_since = answered.since;
    turn.promised_until = options_.now() + kPromise;
    // The memory that it gets is not to be taken from it at once.
    if (answered.want.grows) turn.began = options_.now();
  }
  answered.again(status);
}

absl::StatusOr<bool> Residency::MakeRoomInLease(const Want& want, const LeaseLimit& limit) {
  if (limit.bytes == 0) return true;
  bool fits = true;
  for (const auto& [device, bytes] : want.bytes) {
    const absl::StatusOr<bool> made = MakeRoomInLease(want, limit, device, bytes);
    if (!made.ok()) return made;
    fits &= *made;
  }
  return fits;
}

absl::StatusOr<bool> Residency::MakeRoomInLease(const Want& want, const LeaseLimit& limit,
                                                int device, uint64_t bytes) {
  std::vector<Resident> residents = host_->ResidentsOf(device);
  std::erase_if(residents, [&](const Resident& resident) {
    control_loop.AssertOnLoop();
    return host_->LimitOf(resident.session).lease != limit.lease;
  });
  uint64_t own = 0;
  for (const Resident& resident : residents) {
    if (resident.session == want.session) own = resident.held_bytes;
  }
  const uint64_t others = HeldByOthers(residents, limit, want.session, device);
  // The limit may have become less than a session has. Then the session has it alone.
  if (own + others + bytes <= limit.bytes || (!want.grows && others == 0)) return true;
  const std::string most = absl::StrCat("the sessions of its lease may have ", limit.bytes,
                                        " bytes of the device at a time");
  if (own + bytes > limit.bytes && want.grows) {
    return absl::ResourceExhaustedError(absl::StrCat(most, ", and this one has ", own));
  }
  if (!options_.keeps_limits) {
    return absl::ResourceExhaustedError(
        absl::StrCat(most, ", others have ", others, ", and the server moves no memory"));
  }
  if (devices_[static_cast<size_t>(device)].evicting) return false;
  host_->Score(want.session, &residents);
  uint64_t fixed = 0;
  std::string why;
  for (const Resident& resident : residents) {
    if (resident.session == want.session) continue;
    const bool moves = resident.why_not.empty() && !resident.spared;
    const uint64_t stays = moves ? resident.staying_bytes : resident.held_bytes;
    if (stays == 0) continue;
    fixed += stays;
    why = absl::StrCat(moves ? "memory of session " : "session ", resident.session,
                       " cannot be moved, since ",
                       moves ? "it is shared with other sessions" : WhyItStays(resident));
  }
  if (own + fixed + bytes > limit.bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(most, ": ", why));
  }
  const std::optional<Victim> victim = Choose(residents, &want, device);
  if (victim.has_value()) Evict(device, *victim, want.session);
  return false;
}

uint64_t Residency::HeldByOthers(const std::vector<Resident>& residents, const LeaseLimit& limit,
                                 uint64_t session, int device) {
  const absl::Time now = options_.now();
  std::map<uint64_t, uint64_t> held;
  for (const Resident& resident : residents) held[resident.session] = resident.held_bytes;
  for (const auto& [id, turn] : turns_) {
    const auto promised = turn.promised.find(device);
    if (promised == turn.promised.end() || now >= turn.promised_until) continue;
    if (host_->LimitOf(id).lease == limit.lease) held[id] = std::max(held[id], promised->second);
  }
  held.erase(session);
  uint64_t bytes = 0;
  for (const auto& [id, one] : held) bytes += one;
  return bytes;
}

bool Residency::KeepLimits(int device, const std::vector<Resident>& residents) {
  std::map<std::string, std::vector<Resident>> leases;
  std::map<std::string, uint64_t> limits;
  for (const Resident& resident : residents) {
    const LeaseLimit limit = host_->LimitOf(resident.session);
    if (limit.bytes == 0 || resident.held_bytes == 0) continue;
    leases[limit.lease].push_back(resident);
    limits[limit.lease] = limit.bytes;
  }
  bool is_beyond = false;
  for (auto& [lease, sessions] : leases) {
    uint64_t held = 0;
    for (const Resident& resident : sessions) held += resident.held_bytes;
    if (held <= limits[lease] || sessions.size() == 1) continue;
    is_beyond = true;
    if (devices_[static_cast<size_t>(device)].evicting) continue;
    host_->Score(0, &sessions);
    // It stands for whoever changed the limit, whose word counts more than any priority.
    Want limit;
    limit.priority = std::numeric_limits<int>::max();
    const std::optional<Victim> victim = Choose(sessions, &limit, device);
    if (victim.has_value()) Evict(device, *victim, 0);
  }
  return is_beyond;
}

absl::StatusOr<bool> Residency::MakeRoom(const Want& want, int device, uint64_t bytes,
                                         uint64_t more) {
  if (!options_.evicts) return false;
  Device& own = devices_[static_cast<size_t>(device)];
  const DeviceRoom room = host_->RoomOf(device);
  // Memory that was given back is free in a moment.
  const uint64_t comes = room.free_bytes + room.leaving_bytes;
  if (comes >= bytes + more || own.evicting) return true;
  std::vector<Resident> residents = host_->ResidentsOf(device);
  host_->Score(want.session, &residents);
  uint64_t movable = 0;
  const Resident* fixed = nullptr;  // The largest that cannot be moved.
  for (const Resident& resident : residents) {
    if (resident.session == want.session) continue;
    if (resident.why_not.empty() && !resident.spared) {
      movable += resident.bytes;
    } else if (fixed == nullptr || resident.bytes > fixed->bytes) {
      fixed = &resident;
    }
  }
  if (comes + movable < bytes) {
    const std::string most =
        absl::StrCat("the device has at most ", comes + movable, " bytes for it");
    if (fixed == nullptr) return absl::ResourceExhaustedError(most);
    return absl::ResourceExhaustedError(absl::StrCat(most, ": session ", fixed->session, " has ",
                                                     fixed->bytes, " that cannot be moved, since ",
                                                     WhyItStays(*fixed)));
  }
  if (movable == 0) return room.leaving_bytes > 0;
  const std::optional<Victim> victim = Choose(residents, &want, device);
  const bool idle = victim.has_value() && victim->reason == Eviction::Reason::kIdle;
  if (want.grows && !idle && own.stretch == kMostStretch && own.share > kThrashing) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the device spends ", static_cast<int>(own.share * 100),
                     " % of its time on moving memory to the host and back, and more would be "
                     "moved for it"));
  }
  if (victim.has_value()) Evict(device, *victim, want.session);
  return true;
}

void Residency::KeepFree(int device) {
  if (devices_[static_cast<size_t>(device)].evicting) return;
  std::vector<Resident> residents = host_->ResidentsOf(device);
  host_->Score(0, &residents);
  const std::optional<Victim> victim = Choose(residents, nullptr, device);
  if (victim.has_value()) Evict(device, *victim, 0);
}

std::optional<Residency::Victim> Residency::Choose(const std::vector<Resident>& residents,
                                                   const Want* want, int device) {
  const absl::Time now = options_.now();
  std::optional<Victim> best;
  const auto rank = [](const Victim& victim) {
    // A session that waits for memory has no use of what it has.
    return std::make_tuple(victim.resident.waits, victim.reason == Eviction::Reason::kIdle,
                           victim.resident.score, -victim.resident.priority, victim.idle);
  };
  for (const Resident& resident : residents) {
    const auto found = turns_.find(resident.session);
    if (found == turns_.end()) continue;  // It was not observed yet.
    const Turn& turn = found->second;
    const bool may_go = resident.why_not.empty() && !resident.moving && !resident.spared &&
                        resident.bytes > 0 && now >= turn.not_before &&
                        (now >= turn.promised_until || turn.promised.empty());
    if (!may_go || (want != nullptr && want->session == resident.session)) continue;
    Victim victim = {resident, Eviction::Reason::kIdle, now - turn.active};
    const absl::Duration idle_after =
        want == nullptr ? options_.idle_ahead : std::max(options_.idle_after, turn.idle_after);
    const bool idle = !resident.in_flight && victim.idle >= idle_after;
    if (!idle && want == nullptr) continue;
    // A session that waits for room itself loses nothing. It is behind this one in line.
    if (!idle && !resident.waits) {
      const absl::Duration length =
          TurnLength(resident, turn, devices_[static_cast<size_t>(device)]) *
          std::max(1.0, WeightOf(resident.weight, resident.niceness) /
                            WeightOf(want->weight, want->niceness));
      if (resident.priority > want->priority || now - turn.began < length) continue;
      victim.reason = Eviction::Reason::kTurnOver;
      victim.idle = now - turn.began - length;
    }
    if (want == nullptr) victim.reason = Eviction::Reason::kAhead;
    if (!best.has_value() || rank(victim) > rank(*best)) best = std::move(victim);
  }
  return best;
}

absl::Duration Residency::TurnLength(const Resident& resident, const Turn& turn,
                                     const Device& device) const {
  const absl::Duration estimate =
      absl::Seconds(static_cast<double>(resident.bytes) / device.bytes_per_second);
  const absl::Duration out = turn.out > absl::ZeroDuration() ? turn.out : estimate;
  const absl::Duration in = turn.in > absl::ZeroDuration() ? turn.in : estimate;
  return std::max(options_.least_turn, options_.moves_per_turn * device.stretch * (out + in));
}

void Residency::Evict(int device, const Victim& victim, uint64_t wanted_by) {
  const absl::Time now = options_.now();
  Eviction eviction;
  eviction.session = victim.resident.session;
  eviction.wanted_by = wanted_by;
  eviction.device = device;
  eviction.reason = victim.reason;
  eviction.bytes = victim.resident.bytes;
  eviction.turn = now - turns_[eviction.session].began;
  devices_[static_cast<size_t>(device)].evicting = true;
  host_->MoveOut(eviction.session, options_.rest_deadline,
                 [this, eviction, now](const absl::Status& status) {
                   control_loop.AssertOnLoop();
                   OnMoved(eviction, now, status);
                 });
}

void Residency::OnMoved(Eviction eviction, absl::Time began, const absl::Status& status) {
  const absl::Time now = options_.now();
  Device& device = devices_[static_cast<size_t>(eviction.device)];
  device.evicting = false;
  eviction.took = now - began;
  CountMove(&device, eviction.took);
  const auto found = turns_.find(eviction.session);
  if (found != turns_.end()) {
    Turn& turn = found->second;
    if (status.ok()) {
      turn.out = eviction.took;
      turn.back_off = absl::ZeroDuration();
      turn.left_idle = eviction.reason == Eviction::Reason::kTurnOver ? absl::InfinitePast() : now;
      if (eviction.took > absl::Milliseconds(1)) {
        const double rate =
            static_cast<double>(eviction.bytes) / absl::ToDoubleSeconds(eviction.took);
        device.bytes_per_second += (rate - device.bytes_per_second) / 4;
      }
    } else {
      turn.back_off = std::clamp(2 * turn.back_off, kLeastBackOff, kMostBackOff);
      turn.not_before = now + turn.back_off;
    }
  }
  host_->OnEvicted(eviction, status);
  Schedule(absl::ZeroDuration());
}

void Residency::CountMove(Device* device, absl::Duration took) {
  CloseWindow(device);
  device->moved += took;
}

void Residency::CloseWindow(Device* device) {
  const absl::Duration passed = options_.now() - device->window_began;
  if (passed < kWindow) return;
  device->share = absl::FDivDuration(device->moved, passed);
  if (device->share > kThrashing) device->stretch = std::min(2 * device->stretch, kMostStretch);
  if (device->share < kCalm) device->stretch = std::max(device->stretch / 2, 1);
  device->window_began += passed;
  device->moved = absl::ZeroDuration();
}

}  // namespace warpline::server
