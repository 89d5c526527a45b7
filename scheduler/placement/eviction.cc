#include "scheduler/placement/eviction.h"

#include <algorithm>
#include <tuple>

namespace warpline::placement {
namespace {

struct Ranked {
  Rank rank;
  const Allocation* allocation;
};

// A lower one first; of one rank, the later one.
bool Before(const Ranked& a, const Ranked& b) {
  return std::tuple(a.rank, ~a.allocation->number) < std::tuple(b.rank, ~b.allocation->number);
}

// The devices of a server as they are without some leases.
class Trial {
 public:
  explicit Trial(const ServerState& server) : devices_(server.devices) {}

  void Take(const Allocation& allocation, bool away) {
    for (const std::string& uuid : allocation.devices) {
      for (DeviceState& device : devices_) {
        if (device.spec.uuid != uuid) continue;
        device.leased_bytes += away ? -allocation.memory_bytes : allocation.memory_bytes;
        device.leased_sm += away ? -allocation.sm_percent : allocation.sm_percent;
        device.leased_time += away ? -allocation.time_milli : allocation.time_milli;
      }
    }
  }

  std::vector<uint32_t> Fitting(const Want& want) const {
    std::vector<uint32_t> fitting;
    for (uint32_t i = 0; i < devices_.size(); ++i) {
      const bool named = want.named.empty() || std::find(want.named.begin(), want.named.end(),
                                                         devices_[i].spec.uuid) != want.named.end();
      if (named && devices_[i].held_for == 0 && Fits(devices_[i], want)) fitting.push_back(i);
    }
    return fitting;
  }

  bool Enough(const Want& want) const { return Fitting(want).size() >= want.gpus; }

 private:
  std::vector<DeviceState> devices_;
};

struct Candidate {
  uint32_t server;
  std::vector<uint32_t> devices;
  std::vector<Ranked> victims;

  // A smaller one is better.
  std::tuple<Rank, size_t, uint64_t> Cost() const {
    uint64_t earliest = ~uint64_t{0};
    for (const Ranked& victim : victims) earliest = std::min(earliest, victim.allocation->number);
    return {victims.back().rank, victims.size(), ~earliest};
  }
};

std::optional<Candidate> CandidateOn(const Pool& pool, uint32_t number, const Want& want,
                                     Order order, std::vector<Ranked> lower) {
  const ServerState& server = pool.servers()[number];
  Trial trial(server);
  for (const Ranked& one : lower) trial.Take(*one.allocation, /*away=*/true);
  if (!trial.Enough(want)) return std::nullopt;
  // Each that can stay does, the highest first.
  Candidate candidate{.server = number, .devices = {}, .victims = {}};
  std::sort(lower.begin(), lower.end(), &Before);
  for (auto one = lower.rbegin(); one != lower.rend(); ++one) {
    trial.Take(*one->allocation, /*away=*/false);
    if (trial.Enough(want)) continue;
    trial.Take(*one->allocation, /*away=*/true);
    candidate.victims.push_back(*one);
  }
  if (candidate.victims.empty()) return std::nullopt;
  std::reverse(candidate.victims.begin(), candidate.victims.end());
  candidate.devices = PickDevices(server, trial.Fitting(want), want.gpus, order);
  return candidate;
}

}  // namespace

std::optional<Eviction> FindEviction(const Pool& pool, const Want& want, Order order, Rank rank,
                                     absl::FunctionRef<Rank(const Allocation&)> rank_of) {
  std::optional<Candidate> best;
  for (uint32_t i = 0; i < pool.servers().size(); ++i) {
    const ServerState& server = pool.servers()[i];
    if (!server.usable || server.devices.size() < want.gpus) continue;
    std::vector<Ranked> lower;
    for (const Allocation* const allocation : server.allocations) {
      const Rank its = rank_of(*allocation);
      if (its < rank) lower.push_back({its, allocation});
    }
    if (lower.empty()) continue;
    auto candidate = CandidateOn(pool, i, want, order, std::move(lower));
    if (!candidate.has_value()) continue;
    if (best.has_value() && best->Cost() <= candidate->Cost()) continue;
    best = std::move(candidate);
  }
  if (!best.has_value()) return std::nullopt;
  Eviction eviction;
  eviction.site = SiteOf(pool, want, best->server, best->devices);
  if (!want.named.empty()) {
    // In the order that was named.
    std::vector<uint32_t> devices;
    for (const std::string& uuid : want.named) {
      for (const uint32_t i : best->devices) {
        if (pool.at({best->server, i}).spec.uuid == uuid) devices.push_back(i);
      }
    }
    eviction.site.devices = std::move(devices);
  }
  for (const Ranked& victim : best->victims) eviction.victims.push_back(victim.allocation->id);
  return eviction;
}

}  // namespace warpline::placement
